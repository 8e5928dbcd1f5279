"""RMSprop."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import Elementwise, counted, counter, scalar, update, zeros
from adjoint.optim._options import check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]

_CENTERED, _VELOCITY = 2, 4


class RMSprop(Elementwise):
    """Steps by the gradient over the root of its mean square (Hinton, 2012).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-2
        The learning rate.
    alpha : float, default 0.99
        How much of the running mean square is kept at each step.
    eps : float, default 1e-8
        Added to the root.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    momentum : float, default 0
        The velocity is momentum * velocity + step.
    centered : bool, default False
        Divide by the standard deviation instead (Graves, 2013).
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
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_sign("epsilon", eps)
        check_sign("momentum", momentum)
        check_sign("weight_decay", weight_decay)
        check_sign("alpha", alpha)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        state = {"step": counter(group), "square_avg": zeros(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros(parameter)
        return state

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        rmsprop(
            params,
            grads,
            [state["square_avg"] for state in states],
            [state["grad_avg"] for state in states] if group["centered"] else [],
            [state["momentum_buffer"] for state in states] if group["momentum"] > 0 else [],
            [state["step"] for state in states],
            lr=group["lr"],
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            centered=group["centered"],
            maximize=group["maximize"],
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    counted(state_steps)
    moving = momentum > 0
    update(
        "rmsprop",
        (
            params,
            grads,
            square_avgs,
            grad_avgs if centered else None,
            momentum_buffer_list if moving else None,
        ),
        (alpha, 1 - alpha, eps, momentum, -scalar(lr)),
        (_CENTERED if centered else 0) | (_VELOCITY if moving else 0),
        weight_decay=weight_decay,
        maximize=maximize,
    )
