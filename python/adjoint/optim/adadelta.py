"""Adadelta."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import Elementwise, counted, counter, scalar, update, zeros
from adjoint.optim._options import check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Adadelta(Elementwise):
    """Steps by the gradient, scaled by the sizes of past steps and gradients (Zeiler, 2012).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1.0
        The learning rate.
    rho : float, default 0.9
        How much of the running mean squares is kept at each step.
    eps : float, default 1e-6
        Added to the mean squares.
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
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_sign("epsilon", eps)
        check_sign("weight_decay", weight_decay)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {
            "step": counter(group),
            "square_avg": zeros(parameter),
            "acc_delta": zeros(parameter),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        adadelta(
            params,
            grads,
            [state["square_avg"] for state in states],
            [state["acc_delta"] for state in states],
            [state["step"] for state in states],
            lr=group["lr"],
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    counted(state_steps)
    update(
        "adadelta",
        (params, grads, square_avgs, acc_deltas),
        (rho, 1 - rho, eps, -scalar(lr)),
        weight_decay=weight_decay,
        maximize=maximize,
    )
