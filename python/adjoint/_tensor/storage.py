"""The memory behind tensors, as old PyTorch programs look at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


class UntypedStorage:
    """A block of memory, seen as bytes. Made by ``tensor.untyped_storage()``."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()
        self._bytes: Tensor = _core._whole(self._tensor)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        address: int = _core._storage(self._tensor)[0]
        return address

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._bytes.numel()

    def element_size(self) -> int:
        """One: bytes."""
        return 1

    def size(self) -> int:
        """The number of bytes."""
        return self._bytes.numel()

    def __len__(self) -> int:
        return self._bytes.numel()

    def __getitem__(self, i: int) -> int:
        return int(self._bytes[i])

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        values: list[int] = self._bytes.tolist()
        return values

    @property
    def device(self) -> device:
        """The CPU."""
        return device("cpu")

    def is_shared(self) -> bool:
        """Whether other processes can have this memory too."""
        return self._tensor.is_shared()

    def share_memory_(self) -> UntypedStorage:
        """Move it, and the tensors on it, to memory that processes share."""
        self._tensor.share_memory_()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())


class TypedStorage:
    """A block of memory, seen as elements. Made by ``tensor.storage()``."""

    without_values = False  # whether tensors on it are to be on the device "meta"

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()
        count = _core._storage(self._tensor)[1] // tensor.dtype.itemsize
        self._elements: Tensor = _core._on_storage(self._tensor, tensor.dtype, (count,), (1,), 0)

    @property
    def dtype(self) -> _core.dtype:
        """The type of the elements."""
        return self._tensor.dtype

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.untyped().data_ptr()

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._elements.nbytes

    def size(self) -> int:
        """The number of elements."""
        return self._elements.numel()

    def __len__(self) -> int:
        return self._elements.numel()

    def __getitem__(self, i: Any) -> Any:
        return self._elements[i].tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements.tolist())

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        values: list[Any] = self._elements.tolist()
        return values

    def is_shared(self) -> bool:
        """Whether other processes can have this memory too."""
        return self._tensor.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move it, and the tensors on it, to memory that processes share."""
        self._tensor.share_memory_()
        return self

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)
