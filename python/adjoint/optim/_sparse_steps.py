"""Steps of SGD and Adagrad for sparse gradients: only rows with entries move."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor

__all__ = ["sparse_adagrad_step", "sparse_sgd_step"]


def _add(to: Tensor, sparse: Tensor, factor: Any) -> None:
    """Add `factor` times a sparse tensor, without touching the other rows."""
    if sparse.sparse_dim() == 1:
        to.index_add_(0, sparse._indices()[0], sparse._values() * factor)
    else:
        to.add_(sparse * factor)


def sparse_sgd_step(
    param: Tensor,
    grad: Tensor,
    buffer: Tensor | None,
    *,
    weight_decay: Any,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> Tensor | None:
    """One step; returns the velocity, which is sparse as the gradients are."""
    if weight_decay != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    if maximize:
        grad = -grad
    if momentum != 0:
        if buffer is None:
            buffer = grad.detach().clone()
        else:
            buffer = (buffer * momentum + grad * (1 - dampening)).coalesce()
        grad = grad + buffer * momentum if nesterov else buffer
    _add(param, grad, -lr)
    return buffer


def sparse_adagrad_step(
    param: Tensor,
    grad: Tensor,
    total: Tensor,
    *,
    weight_decay: Any,
    rate: Any,
    eps: float,
    maximize: bool,
) -> None:
    """One step; the sum of squares grows where the gradient has entries."""
    if weight_decay != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    grad = grad.coalesce()  # the update is not linear: every place once
    if maximize:
        grad = -grad
    _add(total, grad.pow(2), 1)
    where = tuple(grad._indices())
    root = total[where].sqrt_().add_(eps)
    param[where] = param[where] + grad._values() / root * -rate
