"""The error for a name that is not there: adjoint is not all of PyTorch.

Modules raise it from their ``__getattr__``. Read next: docs/limits.md, what is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache

# Set while adjoint answers to the name torch: the text for a name that `torch.…` lacks.
second_name: Callable[[str, str], str] | None = None


def missing(module: str, name: str) -> AttributeError:
    """What ``module.name`` raises."""
    shown = module if second_name is None else "torch" + module.removeprefix("adjoint")
    text = f"module '{shown}' has no attribute '{name}'"
    if second_name is not None and not name.startswith("__"):
        text = second_name(shown, name)
    elif not name.startswith("_"):
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
