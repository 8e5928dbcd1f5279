"""Names of memory layouts and orders: most tensors are strided, and row-major when new."""

from __future__ import annotations


class _Named:
    """An object that is known by its name, and is itself again when it is unpickled."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name.removeprefix("torch.")


class layout(_Named):
    """How a tensor's elements are stored: ``strided``, or one of the sparse ones."""

    __slots__ = ()


class memory_format(_Named):
    """The order of a new tensor's axes in memory."""

    __slots__ = ()


strided = layout("torch.strided")
sparse_coo = layout("torch.sparse_coo")
sparse_csr = layout("torch.sparse_csr")
sparse_csc = layout("torch.sparse_csc")
contiguous_format = memory_format("torch.contiguous_format")
preserve_format = memory_format("torch.preserve_format")
channels_last = memory_format("torch.channels_last")
channels_last_3d = memory_format("torch.channels_last_3d")
