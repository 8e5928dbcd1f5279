"""NAdam: Adam with Nesterov's momentum."""

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
from adjoint.optim._options import check_betas, check_rate, check_sign, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(Elementwise):
    """Adam that looks one step of its momentum ahead (Dozat, 2016).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 2e-3
        The learning rate.
    betas : pair of float, default (0.9, 0.999)
        How much of the running means is kept at each step.
    eps : float, default 1e-8
        Added to the root.
    weight_decay : float, default 0
        Times the parameter, added to the gradient, or taken off the parameter if decoupled.
    decoupled_weight_decay : bool, default False
        Decay parameters directly, as AdamW does.
    momentum_decay : float, default 4e-3
        How fast the momentum approaches the first beta.
    foreach : bool, optional
        Accepted; all parameters are always updated in one native pass.
    maximize : bool, default False
        Go up instead of down.
    capturable : bool, default False
        For CUDA graphs; True is refused.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    """

    _scalars = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_sign("momentum_decay", momentum_decay)
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {
            "step": counter(group),
            "mu_product": counter(group, 1.0),
            "exp_avg": zeros(parameter),
            "exp_avg_sq": zeros(parameter),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        beta1, beta2 = group["betas"]
        nadam(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["mu_product"] for state in states],
            [state["step"] for state in states],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
        )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    if not all(isinstance(product, Tensor) for product in mu_products):
        raise RuntimeError(
            "API has changed, `mu_products` argument must contain a list of singleton tensors"
        )
    lr = scalar(lr)
    counts = counted(state_steps)
    for count, product in zip(counts, mu_products, strict=True):
        product.mul_(_momentum(count, beta1, momentum_decay))
    # Where the step is recorded the products are tensors, so that gradients go through them too.
    recorded = ad.is_grad_enabled()
    so_far = [mu.clone() if recorded else mu.item() for mu in mu_products]
    rows = one_by_one if recorded else each
    keys = list(zip(counts, so_far, strict=True))
    for (count, product), columns in rows(keys, (params, grads, exp_avgs, exp_avg_sqs)):
        mu = _momentum(count, beta1, momentum_decay)
        following = _momentum(count + 1, beta1, momentum_decay)
        numbers = (
            1 - lr * weight_decay if decoupled_weight_decay and weight_decay != 0 else 1.0,
            1 - beta1,
            beta2,
            1 - beta2,
            1 - beta2**count,
            eps,
            -lr * (1.0 - mu) / (1.0 - product),
            -lr * following / (1.0 - product * following),
        )
        update(
            "nadam",
            columns,
            numbers,
            weight_decay=0 if decoupled_weight_decay else weight_decay,
            maximize=maximize,
        )


def _momentum(count: float, beta1: float, momentum_decay: float) -> float:
    return beta1 * (1.0 - 0.5 * float(0.96 ** (count * momentum_decay)))
