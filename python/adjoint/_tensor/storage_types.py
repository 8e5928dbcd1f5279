"""``FloatStorage`` and its like: storages of one dtype, as constructors and for ``isinstance``."""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import dtype as DType
from adjoint._tensor.storage import _ACCEPTED, TypedStorage, UntypedStorage

DTYPES = {
    "DoubleStorage": _core.float64, "FloatStorage": _core.float32, "HalfStorage": _core.float16,
    "LongStorage": _core.int64, "IntStorage": _core.int32, "ShortStorage": _core.int16,
    "CharStorage": _core.int8, "ByteStorage": _core.uint8, "BoolStorage": _core.bool,
    "BFloat16Storage": _core.bfloat16, "ComplexDoubleStorage": _core.complex128,
    "ComplexFloatStorage": _core.complex64,
}  # fmt: skip
# How a storage is converted: `storage.float()`, `storage.long()`.
_CONVERSIONS = {
    "double": "DoubleStorage", "float": "FloatStorage", "half": "HalfStorage",
    "long": "LongStorage", "int": "IntStorage", "short": "ShortStorage", "char": "CharStorage",
    "byte": "ByteStorage", "bool": "BoolStorage", "bfloat16": "BFloat16Storage",
    "complex_double": "ComplexDoubleStorage", "complex_float": "ComplexFloatStorage",
}  # fmt: skip


class _OfDtype(type):
    """The type of FloatStorage and its like: an instance is any typed storage of that dtype."""

    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None, **more: Any) -> Any:
        wrong = f"Keyword argument {next(iter(more))!r} cannot be specified" if more else ""
        wrong = "Too many positional arguments" if len(args) > 1 else wrong
        if wrong:
            raise RuntimeError(_ACCEPTED.format(name=repr(cls), wrong=wrong))
        return TypedStorage(*args, dtype=cls.dtype, wrap_storage=wrap_storage)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"

    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """A storage with the values of a buffer; `byte_order` is "native", "little" or "big"."""
        return TypedStorage(dtype=cls.dtype, wrap_storage=from_buffer(cls.dtype, *args, **kwargs))

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage on the bytes of a file; changes go to the file when it is ``shared``."""
        from adjoint._tensor.mapped_files import from_file

        return TypedStorage.of(from_file(filename, shared, size, dtype=cls.dtype))


def from_buffer(
    dtype: DType, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0
) -> UntypedStorage:
    """The elements of a buffer, in this machine's byte order, as a storage of bytes."""
    import sys

    import numpy as np

    if byte_order not in ("native", "little", "big"):
        raise ValueError(
            f"invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')"
        )
    size, length = dtype.itemsize, memoryview(buffer).nbytes
    if offset < 0 or offset > length:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({length}), "
            f"but got {offset}"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(f"buffer size ({length}) must be a multiple of element size ({size})")
    count = (length - offset) // size if count < 0 else count
    if offset + count * size > length:
        raise ValueError(
            f"buffer has only {(length - offset) // size} elements after offset {offset}, "
            f"but specified a size of {count}"
        )
    data = np.frombuffer(buffer, np.uint8, count * size, offset).copy()
    swapped = byte_order != "native" and byte_order != sys.byteorder
    part = size // 2 if dtype.is_complex else size
    if swapped and part > 1:
        data = data.reshape(-1, part)[:, ::-1].copy().reshape(-1)
    if dtype == _core.bool:
        data = (data != 0).astype(np.uint8)
    made: UntypedStorage = UntypedStorage.of(_core._from_buffer(data))
    return made


def storage_type(dtype: DType) -> Any:
    """The class with the name of a dtype, or TypedStorage where PyTorch has none."""
    found = next((name for name, one in DTYPES.items() if one == dtype), None)
    return TypedStorage if found is None else globals()[found]


def _type(
    self: TypedStorage | UntypedStorage, dtype: Any = None, non_blocking: bool = False
) -> Any:
    """The name of the class, or the elements as another class has them."""
    if dtype is None:
        kind = storage_type(self.dtype) if isinstance(self, TypedStorage) else UntypedStorage
        return f"torch.{kind.__name__}"
    name = (
        dtype.removeprefix("torch.") if isinstance(dtype, str) else getattr(dtype, "__name__", "")
    )
    if name not in DTYPES:
        raise TypeError(f"type() argument must be a storage type or its name, not {dtype!r}")
    return _converted(self, DTYPES[name])


def _converted(self: TypedStorage | UntypedStorage, dtype: DType) -> TypedStorage:
    if isinstance(self, TypedStorage) and self.dtype == dtype:
        return self
    return TypedStorage.of(self._values("Cannot copy out of meta tensor; no data!").to(dtype))


def _conversion(name: str, dtype: DType) -> Any:
    def convert(self: TypedStorage | UntypedStorage) -> TypedStorage:
        return _converted(self, dtype)

    convert.__name__ = name
    convert.__doc__ = f"The elements converted to {dtype}."
    return convert


def _of(name: str, dtype: DType) -> _OfDtype:
    doc = f"Storages of dtype {dtype}, as a constructor and for isinstance."
    return _OfDtype(
        name, (TypedStorage,), {"dtype": dtype, "__doc__": doc, "__module__": "adjoint"}
    )


DoubleStorage = _of("DoubleStorage", DTYPES["DoubleStorage"])
FloatStorage = _of("FloatStorage", DTYPES["FloatStorage"])
HalfStorage = _of("HalfStorage", DTYPES["HalfStorage"])
LongStorage = _of("LongStorage", DTYPES["LongStorage"])
IntStorage = _of("IntStorage", DTYPES["IntStorage"])
ShortStorage = _of("ShortStorage", DTYPES["ShortStorage"])
CharStorage = _of("CharStorage", DTYPES["CharStorage"])
ByteStorage = _of("ByteStorage", DTYPES["ByteStorage"])
BoolStorage = _of("BoolStorage", DTYPES["BoolStorage"])
BFloat16Storage = _of("BFloat16Storage", DTYPES["BFloat16Storage"])
ComplexDoubleStorage = _of("ComplexDoubleStorage", DTYPES["ComplexDoubleStorage"])
ComplexFloatStorage = _of("ComplexFloatStorage", DTYPES["ComplexFloatStorage"])
_METHODS = {name: _conversion(name, DTYPES[storage]) for name, storage in _CONVERSIONS.items()}
for _name, _method in {**_METHODS, "type": _type}.items():
    setattr(TypedStorage, _name, _method)
    setattr(UntypedStorage, _name, _method)
