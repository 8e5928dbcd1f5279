"""The memory behind tensors, as old PyTorch programs look at it.

A storage holds a tensor that lies on the memory; it has no memory of its own. Those with a dtype in
their name (``FloatStorage``) are in storage_types.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device

__all__ = ["StorageBase", "TypedStorage", "UntypedStorage", "is_storage"]

_ACCEPTED = """{name}.__new__ received an invalid combination of arguments. Expected one of:
 * no arguments
 * (int size)
 * (Sequence data)
 * (*, UntypedStorage wrap_storage)
{wrong}"""


class StorageBase:
    """What storages of bytes and of elements have in common."""

    is_cuda = False
    is_hpu = False
    is_sparse = False
    is_sparse_csr = False
    without_values = False  # whether tensors on it are to be on the device "meta"
    _tensor: Tensor
    _mine = False  # whether no tensor but this object's own lies on the memory

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """The memory that a tensor lies on."""
        made = object.__new__(cls)
        made.without_values = tensor.is_meta
        made._tensor = tensor if tensor.is_meta else tensor.detach()
        return made

    @property
    def dtype(self) -> _core.dtype:
        """The type of the elements."""
        raise NotImplementedError

    @property
    def _elements(self) -> Tensor:
        """All elements, as a tensor of one axis."""
        count = self.nbytes() // self.element_size()
        elements: Tensor = _core._on_storage(self._tensor, self.dtype, (count,), (1,), 0)
        return elements

    def _make(self, data: Any, wanted: _core.dtype, place: Any) -> None:
        """Memory of its own: so many elements, or the given ones."""
        from adjoint._tensor.creation import _copied

        place = device("cpu" if place is None else place)
        if isinstance(data, str):
            raise TypeError("new(): invalid data type 'str'")
        if hasattr(type(data), "__index__") and not isinstance(data, Tensor):
            made = _core.empty(int(data), dtype=wanted, device=place)
        elif hasattr(data, "__len__") and hasattr(data, "__getitem__"):
            items = list(data) if isinstance(data, bytes | bytearray) else data
            made = _copied(items, None).to(wanted, copy=True) if len(items) else _core.empty(0)
            made = made.to(wanted).to(place)
        else:
            wrong = f"Argument type not recognized: {type(data)}"
            raise TypeError(_ACCEPTED.format(name=type(self), wrong=wrong))
        self._tensor, self.without_values, self._mine = made, made.is_meta, True

    def _values(self, what: str = "Not available for 'meta' device type") -> Tensor:
        if self.without_values:
            raise NotImplementedError(what)
        return self._elements

    def data_ptr(self) -> int:
        """The address of the first element."""
        address: int = 0 if self.without_values else _core._storage(self._tensor)[0]
        return address

    _cdata = property(data_ptr)

    def nbytes(self) -> int:
        """The number of bytes."""
        count: int = _core._storage(self._tensor)[1]
        return count

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        values: list[Any] = self._values().tolist()
        return values

    def __setitem__(self, i: Any, value: Any) -> None:
        if not isinstance(i, int | slice):
            raise RuntimeError(f"can't index a {type(self)} with {type(i)}")
        self._values()[i] = value

    def fill_(self, value: Any) -> Self:
        """Set every element."""
        self._values().fill_(value)
        return self

    def copy_(self, source: StorageBase, non_blocking: bool = False) -> Self:
        """Take the bytes of another storage of the same size."""
        source._values("Cannot copy out of meta tensor; no data!")
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
        _core._whole(self._tensor).copy_(_core._whole(source._tensor))
        return self

    def clone(self) -> Self:
        """A copy."""
        made = type(self).of(self._elements.clone())
        made._mine = True
        return made

    def cpu(self) -> Self:
        """The storage itself."""
        self._values("Cannot copy out of meta tensor; no data!")
        return self

    def to(self, *, device: Any, non_blocking: bool = False) -> Self:
        """The storage itself, on the CPU."""
        from adjoint._tensor.device import require_cpu

        require_cpu(device)
        return self

    def resizable(self) -> bool:
        """Whether :meth:`resize_` may change the size."""
        return self._mine or self.without_values

    def resize_(self, size: int) -> Self:
        """Another number of elements; of a storage that no tensor lies on."""
        if size == self.size():
            return self
        if not self.resizable():
            raise RuntimeError(
                "Trying to resize storage that is not resizable: tensors lie on it "
                "(fix: resize_ a tensor, or a clone() of the storage)"
            )
        old = self._elements
        # Through NumPy's eyes a storage without values is a plain tensor; its kind is kept.
        self._tensor = _core.empty(size, dtype=self.dtype, device=self.device)
        if not self.without_values:
            kept = min(size, old.numel())
            self._tensor[:kept] = old[:kept]
        return self

    @property
    def device(self) -> device:
        """The CPU, or "meta"."""
        return device("meta" if self.without_values else "cpu")

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    def is_pinned(self, device: Any = "cuda") -> bool:
        """False on CPUs."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes can have this memory too."""
        return not self.without_values and self._tensor.is_shared()

    def share_memory_(self) -> Self:
        """Move it, and the tensors on it, to memory that processes share."""
        if self.without_values:
            raise RuntimeError("share_memory_: only available on CPU")
        self._tensor.share_memory_()
        return self

    def __repr__(self) -> str:
        size = f"device={self.device}) of size {self.size()}]"
        dtype = f"dtype={self.dtype}, " if isinstance(self, TypedStorage) else ""
        name = "TypedStorage" if dtype else "UntypedStorage"
        shown = "..." if self.without_values else "\n ".join(str(v) for v in self.tolist())
        return f" {shown}\n[torch.storage.{name}({dtype}{size}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageBase) or self.without_values:
            return self is other
        same = self.data_ptr() == other.data_ptr() and self.data_ptr() != 0
        return self is other or (same and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash(self.data_ptr())


class UntypedStorage(StorageBase):
    """A block of memory, seen as bytes. Made by ``tensor.untyped_storage()``, a size or bytes."""

    dtype: ClassVar[_core.dtype] = _core.uint8

    def __init__(self, data: Any = 0, *, device: Any = None) -> None:
        self._make(data, _core.uint8, device)

    @property
    def _bytes(self) -> Tensor:
        return self._elements

    def __getitem__(self, i: Any) -> Any:
        found = self._values()[i]
        return type(self).of(found.clone()) if isinstance(i, slice) else int(found)

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def new(self) -> UntypedStorage:
        """An empty storage."""
        return UntypedStorage()


class TypedStorage(StorageBase):
    """A block of memory, seen as elements. Made by ``tensor.storage()``, a size or numbers."""

    def __init__(
        self,
        data: Any = 0,
        *,
        dtype: _core.dtype | None = None,
        device: Any = None,
        wrap_storage: UntypedStorage | None = None,
        _internal: bool = False,
    ) -> None:
        wanted = _core.get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            self._make(data, wanted, device)
            return
        count = wrap_storage.nbytes() // wanted.itemsize
        self._tensor = _core._on_storage(wrap_storage._tensor, wanted, (count,), (1,), 0)
        self.without_values = wrap_storage.without_values
        wrap_storage._mine = False

    @property
    def dtype(self) -> _core.dtype:
        """The type of the elements."""
        return self._tensor.dtype

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(i, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(i)}")
        elements = self._values()
        if not -self.size() <= i < self.size():
            raise IndexError(f"index {i} out of range for storage of size {self.size()}")
        return elements[i].tolist()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        made = UntypedStorage.of(self._tensor)
        made._mine = False
        return made

    _untyped_storage = property(untyped)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, StorageBase)


import adjoint._tensor.storage_types  # noqa: E402, F401  (conversions, by storages of one dtype)
