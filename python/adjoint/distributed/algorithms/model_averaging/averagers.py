"""Averages the parameters of all ranks every few steps."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Something that averages parameters over the ranks of a group; all ranks by default."""

    def __init__(self, process_group: Any = None) -> None:
        dist.get_rank(process_group)  # raises: there is no group
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average them if it is time; to be called after each step of the optimizer."""


class PeriodicModelAverager(ModelAverager):
    """Averages at every `period`-th call, after a number of calls that do nothing.

    Parameters
    ----------
    period : int
        Averages are taken at one of so many calls.
    warmup_steps : int, default 0
        How many calls do nothing at first, while gradients are still averaged.
    process_group : ProcessGroup, optional
        The ranks; all by default.

    Examples
    --------
    In a script that ``adjoint launch -n 4 script.py`` runs::

        averager = PeriodicModelAverager(period=4, warmup_steps=100)
        for inputs, targets in loader:
            ...
            optimizer.step()
            averager.average_parameters(model.parameters())
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps must be a non-negative number, got {warmup_steps}")
        if period < 1:
            raise ValueError(f"period must be a positive value, got {period}")
        if period == 1:
            warnings.warn(
                "a period of 1 sends as much as DistributedDataParallel does, which averages "
                "gradients while backward runs: use that instead",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or those of an optimizer's groups, that have a gradient."""
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            _average([p for p in _parameters(params) if p.grad is not None], self.process_group)
        self.step += 1


def _parameters(params: Iterable[Any]) -> Iterator[Tensor]:
    for each in params:
        if isinstance(each, dict):
            yield from each["params"]
        else:
            yield each


def _average(parameters: list[Tensor], group: Any) -> None:
    """Give all ranks the means, a row of memory per dtype at a time."""
    ranks = dist.get_world_size(group)
    if ranks < 1:  # this one is outside
        return
    with ad.no_grad():
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            same = [p for p in parameters if p.dtype == dtype]
            flat = ad.cat([p.detach().reshape(-1) for p in same]).div_(ranks)
            dist.all_reduce(flat, group=group)
            for p, mean in zip(same, flat.split([p.numel() for p in same]), strict=True):
                p.copy_(mean.view(p.shape))
