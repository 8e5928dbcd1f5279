"""Tensors as MPI sees them: an address, a number of elements, a type. No copy if they are dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.graph import increment_version

__all__ = [
    "MOST",
    "Memory",
    "check_list",
    "check_tensor",
    "divide_after",
    "flat_of",
    "readable",
    "spread",
    "writable",
]

MOST = 2**31 - 1  # elements in one call


class Memory:
    """What one call of MPI reads or writes."""

    __slots__ = ("back", "tensor")

    def __init__(self, tensor: Tensor, back: Callable[[], None] | None = None) -> None:
        self.tensor = tensor
        self.back = back  # brings the result to where it belongs

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.tensor.data_ptr()

    @property
    def count(self) -> int:
        """How many elements."""
        return self.tensor.numel()

    @property
    def nbytes(self) -> int:
        """How many bytes."""
        return self.tensor.numel() * self.tensor.element_size()


def check_tensor(value: Any, name: str = "tensor") -> None:
    """Raise unless it is a dense tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    if value.layout != ad.strided:
        raise RuntimeError(f"`{name}` is sparse, which MPI cannot send; fix: {name}.to_dense()")


def check_list(values: Any, name: str) -> None:
    """Raise unless it is a list of dense tensors."""
    if not isinstance(values, Sequence) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type "
            f"{[type(v) for v in values] if isinstance(values, Sequence) else '?'}."
        )
    for value in values:
        check_tensor(value, name)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _plain(tensor: Tensor) -> Tensor:
    if not _is_plain(tensor):
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
    return tensor


def readable(tensor: Tensor) -> Memory:
    """The tensor's memory; of a view with gaps, that of a copy."""
    return Memory(_plain(tensor.detach()))


def writable(tensor: Tensor, read: bool = True) -> Memory:
    """The tensor's memory; of a view with gaps, that of a copy whose values are brought back."""
    tensor = tensor.detach()
    if _is_plain(tensor):
        increment_version(tensor)
        return Memory(tensor)
    copy = _plain(tensor) if read else ad.empty(tensor.shape, dtype=tensor.dtype)
    return Memory(copy, lambda: _bring_back(tensor, copy))


def _bring_back(tensor: Tensor, copy: Tensor) -> None:
    with ad.no_grad():
        tensor.copy_(copy)


def flat_of(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in one row."""
    if len(tensors) == 1:
        return _plain(tensors[0].detach()).reshape(-1)
    with ad.no_grad():
        return ad.cat([_plain(t.detach()).reshape(-1) for t in tensors])


def spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Write the parts of a row into tensors."""
    begin = 0
    with ad.no_grad():
        for tensor in tensors:
            size = tensor.numel()
            tensor.detach().copy_(flat[begin : begin + size].view(tensor.shape))
            begin += size


def divide_after(memory: Memory, ranks: int) -> None:
    """Make the sum a mean, before it goes back to where it belongs."""
    back = memory.back

    def divide() -> None:
        with ad.no_grad():
            memory.tensor.div_(ranks)
        if back is not None:
            back()

    memory.back = divide
