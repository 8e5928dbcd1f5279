"""The error for a name that is not there: adjoint is not all of PyTorch.

Modules raise it from their ``__getattr__``. Read next: docs/limits.md, what is not there.
"""

from __future__ import annotations

import sys
from functools import lru_cache


def missing(module: str, name: str) -> AttributeError:
    """What ``module.name`` raises."""
    text = f"module '{module}' has no attribute '{name}'"
    if not name.startswith("_"):
        whole = ".".join([*module.split(".")[1:], name])
        text += f": adjoint has no {whole} (docs/limits.md lists what is not there)"
        text += _similar(module, name)
    error = AttributeError(text)
    error.name = name
    return error


@lru_cache(maxsize=1024)  # programs ask again and again whether a name is there
def _similar(module: str, name: str) -> str:
    """The names of a module that ``name`` may be a slip of."""
    import difflib

    there = [n for n in dir(sys.modules[module]) if not n.startswith("_")]
    found = difflib.get_close_matches(name, there, n=3, cutoff=0.75)
    return f". Did you mean {' or '.join(found)}?" if found else ""
