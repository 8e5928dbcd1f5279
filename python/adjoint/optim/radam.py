"""RAdam: Adam whose first steps do not trust the mean square yet."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import Elementwise, counted, counter, each, scalar, update, zeros
from adjoint.optim._options import check_betas, check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]

_RECTIFIED = 2


class RAdam(Elementwise):
    """Adam with the variance of its steps rectified (Liu et al., 2020).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-3
        The learning rate.
    betas : pair of float, default (0.9, 0.999)
        How much of the running means is kept at each step.
    eps : float, default 1e-8
        Added to the root.
    weight_decay : float, default 0
        Times the parameter, added to the gradient, or taken off the parameter if decoupled.
    decoupled_weight_decay : bool, default False
        Decay parameters directly, as AdamW does.
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
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {
            "step": counter(group),
            "exp_avg": zeros(parameter),
            "exp_avg_sq": zeros(parameter),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        beta1, beta2 = group["betas"]
        radam(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["step"] for state in states],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
        )


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    lr = scalar(lr)
    for count, columns in each(counted(state_steps), (params, grads, exp_avgs, exp_avg_sqs)):
        correction = 1 - beta2**count
        # The length of the moving average of squares: in the end, and so far.
        whole = 2 / (1 - beta2) - 1
        length = whole - 2 * count * (beta2**count) / correction
        numbers = (
            1 - lr * weight_decay if decoupled_weight_decay and weight_decay != 0 else 1.0,
            1 - beta1,
            beta2,
            1 - beta2,
            1 - beta1**count,
            lr,
            correction**0.5,
            eps,
            _rectifier(length, whole) if length > 5.0 else 1.0,
        )
        update(
            "radam",
            columns,
            numbers,
            _RECTIFIED if length > 5.0 else 0,
            weight_decay=0 if decoupled_weight_decay else weight_decay,
            maximize=maximize,
        )


def _rectifier(length: float, whole: float) -> float:
    ratio = (length - 4) * (length - 2) * whole / ((whole - 4) * (whole - 2) * length)
    return float(ratio**0.5)
