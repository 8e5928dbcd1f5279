"""Momenta that go up and down against the learning rate, whatever an optimizer calls them."""

from __future__ import annotations

from typing import Any

from adjoint.optim.lr_scheduler._base import Rates, _format_param
from adjoint.optim.optimizer import Optimizer

__all__ = ["prepare_momenta", "set_momentum"]


def prepare_momenta(
    optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
) -> tuple[bool, Rates, Rates]:
    """Whether the momentum is the first beta; the least and the largest of each group."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    use_beta1 = "betas" in optimizer.defaults
    least = _format_param("base_momentum", optimizer, base_momentum)
    largest = _format_param("max_momentum", optimizer, max_momentum)
    if last_epoch == -1:
        for low, high, group in zip(least, largest, optimizer.param_groups, strict=True):
            set_momentum(group, high, use_beta1)
            group["max_momentum"] = high
            group["base_momentum"] = low
    return use_beta1, least, largest


def set_momentum(group: dict[str, Any], momentum: Any, use_beta1: bool) -> None:
    """Set the momentum of a group."""
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
