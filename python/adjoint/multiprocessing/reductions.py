"""How tensors are taken apart for other processes, under the names of `torch.multiprocessing`.

Nothing has to be registered: whatever pickler ``multiprocessing`` uses, tensors travel as shared
memory (`adjoint._sharing`).
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from adjoint._core import Tensor
from adjoint._sharing.handover import refuse_history

__all__ = ["ForkingPickler", "init_reductions", "rebuild_tensor", "reduce_tensor"]


def init_reductions() -> None:
    """Do nothing: tensors find their way by themselves."""


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Move a tensor to shared memory; return a function and arguments that make it elsewhere.

    The arguments may be sent through a queue or a pipe; called here, the function gives a tensor
    on the same memory.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.zeros(2)
    >>> make, arguments = ad.multiprocessing.reductions.reduce_tensor(x)
    >>> _ = make(*arguments).fill_(1)
    >>> x
    tensor([1., 1.])
    """
    refuse_history(tensor)
    return rebuild_tensor, (type(tensor), tensor.share_memory_(), tensor.requires_grad)


def rebuild_tensor(cls: type, tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor that `reduce_tensor` took apart, on its memory."""
    made: Any = tensor.detach()
    if cls is not Tensor:
        made = made.as_subclass(cls)
    made.requires_grad_(requires_grad)
    return made  # type: ignore[no-any-return]
