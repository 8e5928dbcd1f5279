"""`torch.types`: names for annotations."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from adjoint import Size as Size
from adjoint import Tensor as Tensor
from adjoint import device as _device
from adjoint import dtype as _dtype
from adjoint import layout as _layout
from adjoint._tensor.storage import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

Number: TypeAlias = _int | _float | _bool
_Number = (_int, _float, _bool)
Device: TypeAlias = _device | _str | _int | None
FileLike: TypeAlias = _str | os.PathLike[_str] | IO[_bytes]
IntLikeType: TypeAlias = _int
FloatLikeType: TypeAlias = _float
BoolLikeType: TypeAlias = _bool
PySymType: TypeAlias = _int | _float | _bool
py_sym_types: tuple[Any, ...] = ()
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]

_NAMES = (_complex, _dtype, _layout)  # imported for those who look for them here
