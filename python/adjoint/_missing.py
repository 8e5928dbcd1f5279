"""The error for a name that is not there: adjoint is not all of PyTorch.

Modules raise it from their ``__getattr__``. Read next: docs/limits.md, what is not there.
"""

from __future__ import annotations


def missing(module: str, name: str) -> AttributeError:
    """What ``module.name`` raises."""
    text = f"module '{module}' has no attribute '{name}'"
    if not name.startswith("_"):
        whole = ".".join([*module.split(".")[1:], name])
        text += f": adjoint has no {whole} (docs/limits.md lists what is not there)"
    error = AttributeError(text)
    error.name = name
    return error
