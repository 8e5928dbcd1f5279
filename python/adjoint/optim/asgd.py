"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._elementwise import (
    Elementwise,
    counted,
    counter,
    each,
    one_by_one,
    scalar,
    update,
    zeros,
)
from adjoint.optim._options import _get_scalar_dtype, check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]

_COPY = 2


class ASGD(Elementwise):
    """Descent with falling rates, and a mean of the parameters (Polyak and Juditsky, 1992).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-2
        The learning rate.
    lambd : float, default 1e-4
        How fast parameters and rates decay.
    alpha : float, default 0.75
        The rate after t steps is lr / (1 + lambd * lr * t) ** alpha.
    t0 : float, default 1e6
        From which step on the mean, `state[p]["ax"]`, is taken.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    foreach : bool, optional
        Accepted; all parameters are always updated in one native pass.
    maximize : bool, default False
        Go up instead of down.
    capturable : bool, default False
        For CUDA graphs; True is refused.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    """

    _scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_sign("weight_decay", weight_decay)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {
            "step": counter(group),
            "eta": ad.as_tensor(scalar(group["lr"]), dtype=_get_scalar_dtype()).clone(),
            "mu": counter(group, 1.0),
            "ax": zeros(parameter),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        asgd(
            params,
            grads,
            [state["ax"] for state in states],
            [state["mu"] for state in states],
            [state["eta"] for state in states],
            [state["step"] for state in states],
            lambd=group["lambd"],
            lr=group["lr"],
            t0=group["t0"],
            alpha=group["alpha"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    # Where the step is recorded the rates are tensors, so that gradients go through them too.
    recorded = ad.is_grad_enabled()
    rates = [
        (eta.clone(), mu.clone()) if recorded else (eta.item(), mu.item())
        for eta, mu in zip(etas, mus, strict=True)
    ]
    for (eta, mu), columns in (one_by_one if recorded else each)(rates, (params, grads, axs)):
        update(
            "asgd",
            columns,
            (1 - lambd * eta, -eta, mu),
            _COPY if mu == 1 else 0,
            weight_decay=weight_decay,
            maximize=maximize,
        )
    lr = scalar(lr)
    for count, eta, mu in zip(counted(state_steps), etas, mus, strict=True):
        eta.copy_(ad.as_tensor(lr / (1 + lambd * lr * count) ** alpha))
        mu.fill_(1 / max(1, count - t0))
