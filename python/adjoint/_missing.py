"""The errors for names that are not there: adjoint is not all of PyTorch.

Modules raise what `missing` gives from their ``__getattr__``; `watch` lets these errors end in the
line of the user. What they say is in ``_missing_text.py``, which is loaded when somebody reads it:
programs ask with ``hasattr`` far more often. Read next: docs/limits.md, what is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adjoint import _core

# Whether adjoint answers to the name torch in this process.
answers_as_torch = False

_IMPORT_FROM = 0  # the instruction of `from module import name`, once somebody asked


class MissingName(AttributeError):
    """A name that is not there. What it says is made when it is read."""

    _at_callers_line = True

    def __init__(self, owner: str, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name

    def __str__(self) -> str:
        from adjoint._missing_text import no_attribute

        return no_attribute(self.owner, self.name or "")

    @property
    def obj(self) -> Any:  # type: ignore[override]
        """The module that was asked, as Python's own errors of modules have it."""
        return sys.modules.get(self.owner)

    @property
    def args(self) -> tuple[str]:  # type: ignore[override]
        """The text, as other errors have it."""
        return (str(self),)

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeError, self.args, {"name": self.name}


# Shown as what it is to a user.
MissingName.__module__ = "builtins"
MissingName.__name__ = MissingName.__qualname__ = "AttributeError"


def missing(module: str, name: str) -> AttributeError | ImportError:
    """What ``module.name`` raises, and ``from module import name``.

    To be called by a module's ``__getattr__`` itself: the caller of that is looked at.
    """
    if not name.startswith("__") and _is_from_import(sys._getframe(2)):
        from adjoint._missing_text import no_import, shown

        error = ImportError(no_import(module, name), name=shown(module))
        error._at_callers_line = True  # type: ignore[attr-defined]
        return error
    return MissingName(module, name)


def _is_from_import(frame: Any) -> bool:
    """Whether a frame is in the middle of ``from module import name``.

    Python would replace an AttributeError by an error of its own there, which says nothing.
    """
    global _IMPORT_FROM
    if not _IMPORT_FROM:
        import opcode

        _IMPORT_FROM = opcode.opmap["IMPORT_FROM"]
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and bool(code[frame.f_lasti] == _IMPORT_FROM)


def absent(owner: str, name: str) -> Any:
    """An attribute for a class, which raises when it is read."""

    def read() -> Any:
        raise MissingName(owner, name)

    return _core._absent_attribute(read)


def watch(package: str) -> None:
    """Let a module of adjoint's, and those below it that are loaded, say which names they lack."""
    below = package + "."
    for name, module in list(sys.modules.items()):
        if name == package or (name.startswith(below) and "._" not in name):
            found = getattr(module, "__dict__", {})
            finder = found.get("__getattr__") or _finder(name)
            if type(finder) is not _AtCallersLine:
                found["__getattr__"] = _core._at_callers_line(finder)


def _finder(module: str) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        raise missing(module, name)

    return __getattr__


_AtCallersLine = type(_core._at_callers_line(len))
