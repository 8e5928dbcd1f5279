"""Adam, with coupled or decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.optim.optimizer import _as_float, _ByGroup, _refuse_unsupported

__all__ = ["Adam"]


class Adam(_ByGroup):
    """Steps by the mean gradient over the root of the mean squared gradient (Kingma and Ba, 2015).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float, default 1e-3
        The learning rate.
    betas : pair of float, default (0.9, 0.999)
        How much of the running means is kept at each step.
    eps : float, default 1e-8
        Added to the root.
    weight_decay : float, default 0
        Times the parameter, added to the gradient, or taken off the parameter if decoupled.
    amsgrad : bool, default False
        Use the largest mean square so far (Reddi, Kale and Kumar, 2018).
    maximize : bool, default False
        Go up instead of down.
    decoupled_weight_decay : bool, default False
        Decay parameters directly, as AdamW does.
    foreach, fused : bool, optional
        Accepted; all parameters are always updated in one native pass.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if not _as_float(lr) >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= _as_float(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        _refuse_unsupported(differentiable, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _step_group(self, group: dict[str, Any]) -> None:
        params = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not params:
            return
        amsgrad = group["amsgrad"]
        states = [self._state_of(parameter, amsgrad) for parameter in params]
        lists = (
            params,
            [parameter.grad for parameter in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if amsgrad else None,
            [state["step"] for state in states],
        )
        beta1, beta2 = group["betas"]
        options = (
            _as_float(group["lr"]),
            _as_float(beta1),
            _as_float(beta2),
            group["eps"],
            group["weight_decay"],
            group["maximize"],
            group["decoupled_weight_decay"],
        )
        _core._adam_step(*lists, *options)

    def _state_of(self, parameter: Tensor, amsgrad: bool) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = ad.tensor(0.0, dtype=ad.float32)
            state["exp_avg"] = ad.zeros_like(parameter, requires_grad=False)
            state["exp_avg_sq"] = ad.zeros_like(parameter, requires_grad=False)
        if amsgrad and "max_exp_avg_sq" not in state:
            state["max_exp_avg_sq"] = ad.zeros_like(parameter, requires_grad=False)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("amsgrad", "maximize", "decoupled_weight_decay"):
                group.setdefault(name, self.defaults.get(name, False))
        for entry in self.state.values():
            if "step" in entry and not isinstance(entry["step"], Tensor):
                entry["step"] = ad.tensor(float(entry["step"]), dtype=ad.float32)
