"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from adjoint.optim.lr_scheduler._base import (
    LRScheduler,
    _update_param_group_val,
    in_programs,
)
from adjoint.optim.lr_scheduler._plateau import ReduceLROnPlateau
from adjoint.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Joined(LRScheduler):
    """Saves what it is made of."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {index} should have `optimizer` as its attribute."
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{index} in the given schedulers sequence."
                )
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {index} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedulers."""
        state = super().state_dict()
        del state["_schedulers"]
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Joined):
    """One schedule after the other.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    schedulers : list of LRScheduler
        In their order.
    milestones : list of int
        The steps at which the next one begins.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler, but got no scheduler."
            )
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each of them has taken its first step already: take these back, and one of them again.
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back one step of every schedule, inside of others too."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    @in_programs
    def step(self) -> None:  # type: ignore[override]
        """Take one step of the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Joined):
    """Several schedules that all act at each step.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        In their order.
    optimizer : Optimizer, optional
        Theirs.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._current()

    @in_programs
    def step(self) -> None:  # type: ignore[override]
        """Take one step of each."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()
