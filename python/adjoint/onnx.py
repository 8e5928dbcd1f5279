"""`torch.onnx`: refused. adjoint writes no ONNX files."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["export", "is_in_onnx_export"]

_WHY = "adjoint writes no ONNX files"
_FIX = (
    "save model.state_dict() with torch.save, load it into the same module under PyTorch, and call "
    "torch.onnx.export there"
)

export = refused("onnx.export", _WHY, _FIX)
dynamo_export = refused("onnx.dynamo_export", _WHY, _FIX)
register_custom_op_symbolic = refused("onnx.register_custom_op_symbolic", _WHY, _FIX)


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
