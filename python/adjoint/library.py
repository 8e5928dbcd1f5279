"""`torch.library`: refused. Operations of one's own are `autograd.Function` or `external` here."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused, refused_class

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["Library", "custom_op", "define", "impl", "register_autograd", "register_fake"]

_WHY = "adjoint has no registry of operations that a program could add to"
_FIX = (
    "subclass autograd.Function for an operation with a derivative of its own; adjoint.external(f) "
    "differentiates foreign code"
)

custom_op = refused("library.custom_op", _WHY, _FIX)
define = refused("library.define", _WHY, _FIX)
impl = refused("library.impl", _WHY, _FIX)
register_autograd = refused("library.register_autograd", _WHY, _FIX)
register_fake = refused("library.register_fake", _WHY, _FIX)
register_kernel = refused("library.register_kernel", _WHY, _FIX)
Library = refused_class("library.Library", _WHY, _FIX)


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
