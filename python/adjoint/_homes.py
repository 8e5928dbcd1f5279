"""Where classes are written, whatever their ``__module__`` says.

Under the name `torch` a class says where PyTorch has it, which is what programs print and compare
(`_compat/class_places.py`). Those who need the place in adjoint ask here.
"""

from __future__ import annotations

__all__ = ["home", "move"]

_moved: dict[type, str] = {}


def home(cls: type) -> str:
    """The module that a class is written in."""
    return _moved.get(cls) or cls.__module__


def move(cls: type, module: str) -> None:
    """Let a class say that it is in another module."""
    _moved.setdefault(cls, cls.__module__)
    cls.__module__ = module
