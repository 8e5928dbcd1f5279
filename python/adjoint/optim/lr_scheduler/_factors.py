"""Schedules that multiply the rate: by functions, at milestones, or step by step.

Where it can be, a rate follows from the one before rather than from the first, so that several
schedules can act on one optimizer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjoint.optim.lr_scheduler._base import (
    LRScheduler,
    Rates,
    _warn_get_lr_called_within_step,
    saved_callable,
)
from adjoint.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

_Function = Callable[[int], float]


class _ByFunctions(LRScheduler):
    """With one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: _Function | Sequence[_Function],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas: list[Any] = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of callable objects their attributes, of functions None."""
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = [saved_callable(function) for function in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the functions are those given when made."""
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if saved is not None:
                vars(function).update(saved)
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})


class LambdaLR(_ByFunctions):
    """The initial rate times `lr_lambda(step)`, one function or one for each group."""

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        return [
            base * factor(self.last_epoch)
            for factor, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_ByFunctions):
    """The rate times `lr_lambda(step)` every step, one function or one for each group."""

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial:
            return self._current()
        return [
            group["lr"] * factor(self.last_epoch)
            for factor, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the steps in `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._current()
        return self._times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> Rates:
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes from `start_factor` to `end_factor` in steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> Rates:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [
            base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs
        ]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        return self._current() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to zero in `total_iters` steps, as a power of what is left of them."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((left / before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
