"""Adamax: Adam with the largest gradient in the place of the mean square."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import Elementwise, counted, counter, each, scalar, update, zeros
from adjoint.optim._options import check_betas, check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Adamax(Elementwise):
    """Steps by the mean gradient over the largest one, which fades (Kingma and Ba, 2015).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 2e-3
        The learning rate.
    betas : pair of float, default (0.9, 0.999)
        How much of the running means is kept at each step.
    eps : float, default 1e-8
        Added to the size of the gradient.
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

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_sign("epsilon", eps)
        check_betas(betas)
        check_sign("weight_decay", weight_decay)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
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
            "exp_avg": zeros(parameter),
            "exp_inf": zeros(parameter),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        beta1, beta2 = group["betas"]
        adamax(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_inf"] for state in states],
            [state["step"] for state in states],
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step of `Adamax` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    for count, columns in each(counted(state_steps), (params, grads, exp_avgs, exp_infs)):
        update(
            "adamax",
            columns,
            (1 - beta1, beta2, eps, -(scalar(lr) / (1 - beta1**count))),
            weight_decay=weight_decay,
            maximize=maximize,
        )
