"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint import Tensor, _core
from adjoint.optim.optimizer import _as_float, _ByGroup, _refuse_unsupported

__all__ = ["SGD"]


class SGD(_ByGroup):
    """Gradient descent with optional momentum, Nesterov's too, and weight decay.

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float, default 1e-3
        The learning rate.
    momentum, dampening : float, default 0
        The velocity is momentum * velocity + (1 - dampening) * gradient.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    nesterov : bool, default False
        Step by the gradient plus momentum times the new velocity.
    maximize : bool, default False
        Go up instead of down.
    foreach, fused : bool, optional
        Accepted; all parameters are always updated in one native pass.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if _as_float(lr) < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if _as_float(weight_decay) < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        _refuse_unsupported(differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _step_group(self, group: dict[str, Any]) -> None:
        params = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not params:
            return
        grads = [parameter.grad for parameter in params]
        momentum = group["momentum"]
        options = (
            _as_float(group["lr"]),
            momentum,
            group["dampening"],
            _as_float(group["weight_decay"]),
            group["nesterov"],
            group["maximize"],
        )
        if momentum == 0:
            _core._sgd_step(params, grads, None, False, *options)
            return
        # The first step sets the velocity to the gradient, so new and running ones go separately.
        state = self.state
        running = [p for p in params if state[p].get("momentum_buffer") is not None]
        fresh = [p for p in params if state[p].get("momentum_buffer") is None]
        for parameter in fresh:
            state[parameter]["momentum_buffer"] = parameter.detach().clone()
        for chosen, first in ((running, False), (fresh, True)):
            if not chosen:
                continue
            grads = [parameter.grad for parameter in chosen]
            buffers = [state[parameter]["momentum_buffer"] for parameter in chosen]
            _core._sgd_step(chosen, grads, buffers, first, *options)
