"""`CyclicLR`: rates that go up and down between two bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.optim.lr_scheduler._base import (
    LRScheduler,
    Rates,
    _format_param,
    _update_param_group_val,
    _warn_get_lr_called_within_step,
    check_optimizer,
    saved_callable,
)
from adjoint.optim.lr_scheduler._momentum import prepare_momenta, set_momentum
from adjoint.optim.optimizer import Optimizer

__all__ = ["CyclicLR"]


class CyclicLR(LRScheduler):
    """From `base_lr` up to `max_lr` and down again, over and over (Smith, 2017).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    base_lr, max_lr : float or list
        The bounds, one for all groups or one for each.
    step_size_up, step_size_down : int, default 2000 and as many down as up
        Steps of each half.
    mode : {"triangular", "triangular2", "exp_range"}
        Whether the height stays, is halved each cycle, or falls as `gamma` to the step.
    gamma : float, default 1.0
        The base in mode "exp_range".
    scale_fn : callable, optional
        The height as a function of the cycle or the step, as `scale_mode` ("cycle" or
        "iterations") says; `mode` is ignored then.
    cycle_momentum : bool, default True
        Let the momentum go from `max_momentum` to `base_momentum` and back meanwhile.
    base_momentum, max_momentum : float or list, default 0.8 and 0.9
        Its bounds.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = _format_param("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                _update_param_group_val(group, "lr", lr)
        self.max_lrs = _format_param("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_ref: Callable[[float], float]
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1, self.base_momentums, self.max_momentums = prepare_momenta(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        if self.mode == "triangular":
            self._scale_fn_ref = self._triangular_scale_fn
        elif self.mode == "triangular2":
            self._scale_fn_ref = self._triangular2_scale_fn
        else:
            self._scale_fn_ref = partial(self._exp_range_scale_fn, self.gamma)

    def scale_fn(self, x: float) -> float:
        """The height of cycle or step `x`."""
        custom = self._scale_fn_custom
        return self._scale_fn_ref(x) if custom is None else custom(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return float(1 / (2.0 ** (x - 1)))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return float(gamma**x)

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`; the momenta are set besides."""
        _warn_get_lr_called_within_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        where = cycle if self.scale_mode == "cycle" else self.last_epoch
        rates = [
            base + (top - base) * height * self.scale_fn(where)
            for base, top in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            for base, top, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                momentum = top - (top - base) * height * self.scale_fn(where)
                set_momentum(group, momentum, self.use_beta1)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a callable object its attributes, of a function None."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)  # made anew: a bound method would hold this object
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if function is None else saved_callable(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the function is the one given when made."""
        saved = state_dict.get("_scale_fn_custom")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)
        self._init_scale_fn()
