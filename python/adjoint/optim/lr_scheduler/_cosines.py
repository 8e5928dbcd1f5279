"""Schedules along a cosine, with and without restarts."""

from __future__ import annotations

import math
from typing import Any

from adjoint.optim.lr_scheduler._base import (
    LRScheduler,
    Rates,
    _enable_get_lr_call,
    _warn_get_lr_called_within_step,
    in_programs,
)
from adjoint.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine in `T_max` steps, and back up."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._from_start(math.cos(self.last_epoch * math.pi / self.T_max))
        # Step to step rather than from the start, so that other schedules may act on the rate too.
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return [
                group["lr"] + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
                for base, group in zip(self.base_lrs, self.optimizer.param_groups, strict=True)
            ]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (lr - self.eta_min) + self.eta_min for lr in self._current()]

    def _get_closed_form_lr(self) -> Rates:
        return self._from_start(math.cos(math.pi * self.last_epoch / self.T_max))

    def _from_start(self, cosine: float) -> Rates:
        return [self.eta_min + (base - self.eta_min) * (1 + cosine) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to `eta_min` along a cosine again and again (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    T_0 : int
        Steps until the first restart.
    T_mult : int, default 1
        How much longer each period is than the one before.
    eta_min : float, default 0
        The rate at the end of a period.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates `T_cur` steps after a restart."""
        _warn_get_lr_called_within_step(self)
        cosine = math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * (1 + cosine) / 2 for base in self.base_lrs]

    @in_programs
    def step(self, epoch: float | None = None) -> None:
        """Count one step, or go to a given one, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        with _enable_get_lr_call(self):
            rates = self.get_lr()
        self._set(rates)

    def _go_to(self, epoch: float) -> None:
        """Which period it is, and how far into it; periods are a geometric series."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            grown = self.T_mult - 1
            past = int(math.log(epoch / self.T_0 * grown + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**past - 1) / grown
            self.T_i = self.T_0 * self.T_mult**past
