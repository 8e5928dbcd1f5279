"""Names of memory layouts and orders: adjoint's tensors are strided, and row-major when new."""

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
    """How a tensor's elements are stored: ``strided`` is the only one."""

    __slots__ = ()


class memory_format(_Named):
    """The order of a new tensor's axes in memory."""

    __slots__ = ()


strided = layout("torch.strided")
contiguous_format = memory_format("torch.contiguous_format")
preserve_format = memory_format("torch.preserve_format")
channels_last = memory_format("torch.channels_last")
channels_last_3d = memory_format("torch.channels_last_3d")
