"""Constructors of the old days: ``FloatTensor(2, 3)``, ``LongTensor([1, 2])``.

New programs use ``tensor(data, dtype=...)`` and ``empty(size, dtype=...)``.
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._core import dtype as DType
from adjoint._tensor.creation import _copied, _is_storage, _of_storage
from adjoint._tensor.device import require_cpu


def _is_size(value: Any) -> bool:
    """Whether it is one whole number, NumPy's included."""
    return hasattr(type(value), "__index__") and not hasattr(type(value), "__len__")


class _OfDtype(type):
    """The type of FloatTensor and its like: an instance is any tensor of that dtype."""

    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype != cls.dtype:
                raise TypeError(
                    f"expected a tensor of dtype {cls.dtype}, got {args[0].dtype}; use "
                    f"tensor.to({cls.dtype})"
                )
            return args[0].detach()
        if len(args) == 1 and _is_storage(args[0]):
            return _of_storage(args[0], cls.dtype)
        if not args:
            empty: Tensor = _core.empty(0, dtype=cls.dtype, device=device)
            return empty
        if len(args) == 1 and not isinstance(args[0], _core.Size) and not _is_size(args[0]):
            if isinstance(args[0], str | bytes):
                raise TypeError(f"new(): invalid data type '{type(args[0]).__name__}'")
            sequence = hasattr(args[0], "__len__") and hasattr(args[0], "__getitem__")
            if not sequence or isinstance(args[0], dict):
                raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
            require_cpu(device)
            return _copied(args[0], cls.dtype)
        sized: Tensor = _core.empty(*args, dtype=cls.dtype, device=device)
        return sized

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _of(name: str, dtype: DType) -> _OfDtype:
    doc = f"Tensors of dtype {dtype}, as a constructor and for isinstance."
    return _OfDtype(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "adjoint"})


FloatTensor = _of("FloatTensor", _core.float32)
DoubleTensor = _of("DoubleTensor", _core.float64)
HalfTensor = _of("HalfTensor", _core.float16)
BFloat16Tensor = _of("BFloat16Tensor", _core.bfloat16)
IntTensor = _of("IntTensor", _core.int32)
LongTensor = _of("LongTensor", _core.int64)
ShortTensor = _of("ShortTensor", _core.int16)
CharTensor = _of("CharTensor", _core.int8)
ByteTensor = _of("ByteTensor", _core.uint8)
BoolTensor = _of("BoolTensor", _core.bool)


def of_dtype(dtype: DType) -> _OfDtype:
    """The constructor of tensors of a dtype; made for those that have none with a name."""
    for found in globals().values():
        if isinstance(found, _OfDtype) and found.dtype == dtype:
            return found
    return _of("Tensor", dtype)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a tensor type. Use ``set_default_dtype`` instead."""
    if isinstance(t, str):
        found = globals().get(t.removeprefix("torch."))
        if not isinstance(found, _OfDtype):
            raise TypeError(f"invalid type name: {t!r}")
        t = found
    if not isinstance(t, _OfDtype):
        raise TypeError("invalid type object")
    _core.set_default_dtype(t.dtype)
