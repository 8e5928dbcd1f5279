"""Adam, with coupled or decoupled weight decay."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import (
    Elementwise,
    counted,
    counter,
    each,
    scalar,
    unscaled,
    update,
    zeros,
)
from adjoint.optim._options import (
    check_betas,
    check_fused,
    check_rate,
    check_sign,
    refuse_capturable,
)
from adjoint.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]

_LARGEST = 2


class Adam(Elementwise):
    """Steps by the mean gradient over the root of the mean squared gradient (Kingma and Ba, 2015).

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
    amsgrad : bool, default False
        Use the largest mean square so far (Reddi, Kale and Kumar, 2018).
    maximize : bool, default False
        Go up instead of down.
    foreach, fused : bool, optional
        Accepted; all parameters are always updated in one native pass.
    capturable : bool, default False
        For CUDA graphs; True is refused.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    decoupled_weight_decay : bool, default False
        Decay parameters directly, as AdamW does.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_rate(lr)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_sign("weight_decay", weight_decay)
        _check_kinds(betas, foreach, capturable)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "betas": tuple(scalar(beta) for beta in betas),
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
        check_fused(fused, foreach, differentiable)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        state = {
            "step": counter(group),
            "exp_avg": zeros(parameter),
            "exp_avg_sq": zeros(parameter),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros(parameter)
        return state

    def _refuse_sparse(self, parameter: Tensor) -> None:
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise RuntimeError(
                "Adam does not support sparse gradients, please consider SparseAdam instead"
            )

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        amsgrad = group["amsgrad"]
        states = self._states(group, params)
        steps = [state["step"] for state in states]
        if group["differentiable"] and any(step.requires_grad for step in steps):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        if group["foreach"] and isinstance(group["lr"], Tensor):
            raise RuntimeError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        beta1, beta2 = group["betas"]
        adam(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if amsgrad else [],
            steps,
            amsgrad=amsgrad,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
            decoupled_weight_decay=group["decoupled_weight_decay"],
        )


def _check_kinds(betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    """Tensors among the betas: both or neither."""
    kinds = [isinstance(beta, Tensor) for beta in betas]
    if kinds[0] != kinds[1] or not all(isinstance(beta, float | Tensor) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor) and foreach and not capturable:
            raise ValueError(
                f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True"
            )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` on lists; counts, means and parameters change in place."""
    refuse_capturable(capturable)
    ready = unscaled(grads, grad_scale, found_inf)
    if ready is None:
        return
    lr, beta1, beta2 = scalar(lr), scalar(beta1), scalar(beta2)
    shrinking = decoupled_weight_decay and weight_decay != 0
    columns = (params, ready, exp_avgs, exp_avg_sqs, max_exp_avg_sqs if amsgrad else None)
    for count, chosen in each(counted(state_steps), columns):
        numbers = (
            1 - lr * weight_decay if shrinking else 1.0,
            1 - beta1,
            beta2,
            1 - beta2,
            (1 - beta2**count) ** 0.5,
            eps,
            -(lr / (1 - beta1**count)),
        )
        update(
            "adam",
            chosen,
            numbers,
            _LARGEST if amsgrad else 0,
            weight_decay=0 if decoupled_weight_decay else weight_decay,
            maximize=maximize,
        )
