"""DLPack under the names old programs use."""

from adjoint._tensor.creation import from_dlpack as from_dlpack
from adjoint._tensor.creation import to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
