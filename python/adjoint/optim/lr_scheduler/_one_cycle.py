"""`OneCycleLR`: one rise and one long fall over a whole training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.optim.lr_scheduler._base import (
    LRScheduler,
    Rates,
    _format_param,
    _warn_get_lr_called_within_step,
    check_optimizer,
)
from adjoint.optim.lr_scheduler._momentum import prepare_momenta, set_momentum
from adjoint.optim.optimizer import Optimizer

__all__ = ["OneCycleLR"]


class OneCycleLR(LRScheduler):
    """Up to `max_lr`, then down far below where it began (Smith and Topin, 2019).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    max_lr : float or list
        The highest rate, one for all groups or one for each.
    total_steps : int, optional
        The number of steps; `epochs` times `steps_per_epoch` if not given.
    pct_start : float, default 0.3
        The share of steps with a rising rate.
    anneal_strategy : {"cos", "linear"}
        The shape of rise and fall.
    cycle_momentum : bool, default True
        Let the momentum go from `max_momentum` to `base_momentum` and back meanwhile.
    base_momentum, max_momentum : float or list, default 0.85 and 0.95
        Its bounds.
    div_factor, final_div_factor : float, default 25 and 1e4
        The rate begins at max_lr / div_factor and ends at that over final_div_factor.
    three_phase : bool, default False
        Come down to the initial rate as fast as up, then to the last one.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    anneal_func: Callable[[Any, Any, float], Any]

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _number_of_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = _format_param("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for highest, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1, _, _ = prepare_momenta(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Any, end: Any, pct: float) -> Any:
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:  # state of older files
            return self.anneal_func(start, end, pct)
        if kind == "cos":
            return self._annealing_cos(start, end, pct)
        return self._annealing_linear(start, end, pct)

    @staticmethod
    def _annealing_cos(start: Any, end: Any, pct: float) -> Any:
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: Any, end: Any, pct: float) -> Any:
        return (end - start) * pct + start

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`; the momenta are set besides."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        phase, share = self._phase()
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                bounds = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, self._anneal_func(*bounds, share), self.use_beta1)
        return rates

    def _phase(self) -> tuple[dict[str, Any], float]:
        """The phase of step `last_epoch`, and how much of it is over."""
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (self.last_epoch - begin) / (phase["end_step"] - begin)


def _number_of_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(per_epoch, int) or per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {per_epoch}")
    return epochs * per_epoch


def _phases(total: int, rising: float, three: bool) -> list[dict[str, Any]]:
    """Up, (down to where it began, then) down to the end; the names are options of groups."""
    up = _phase(float(rising * total) - 1, "initial_lr", "max_lr", "max", "base")
    if not three:
        return [up, _phase(total - 1, "max_lr", "min_lr", "base", "max")]
    return [
        up,
        _phase(float(2 * rising * total) - 2, "max_lr", "initial_lr", "base", "max"),
        _phase(total - 1, "initial_lr", "min_lr", "max", "max"),
    ]


def _phase(end: float, from_lr: str, to_lr: str, from_: str, to: str) -> dict[str, Any]:
    return {
        "end_step": end,
        "start_lr": from_lr,
        "end_lr": to_lr,
        "start_momentum": f"{from_}_momentum",
        "end_momentum": f"{to}_momentum",
    }
