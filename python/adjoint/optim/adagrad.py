"""Adagrad."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._elementwise import (
    Elementwise,
    counted,
    counter,
    each,
    scalar,
    unscaled,
    update,
)
from adjoint.optim._options import check_fused, check_rate, check_sign
from adjoint.optim._sparse_steps import sparse_adagrad_step
from adjoint.optim.optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Elementwise):
    """Steps by the gradient over the root of the sum of its squares so far (Duchi et al., 2011).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-2
        The learning rate.
    lr_decay : float, default 0
        After t steps the rate is lr / (1 + t * lr_decay).
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    initial_accumulator_value : float, default 0
        Where the sum of squares begins.
    eps : float, default 1e-10
        Added to the root.
    foreach, fused : bool, optional
        Accepted; all parameters are always updated in one native pass.
    maximize : bool, default False
        Go up instead of down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_sign("lr_decay", lr_decay)
        check_sign("weight_decay", weight_decay)
        check_sign("initial_accumulator_value", initial_accumulator_value)
        check_sign("epsilon", eps)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        # At once, so that `share_memory` can share the sums before the first step.
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].update(self._new_state(group, parameter))

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        value = self.defaults["initial_accumulator_value"]
        start = complex(value, value) if parameter.is_complex() else value
        return {
            "step": counter(group),
            "sum": ad.full_like(parameter, start, requires_grad=False),
        }

    def share_memory(self) -> None:
        """Put the sums of squares into memory that other processes can share."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        adagrad(
            params,
            grads,
            [state["sum"] for state in states],
            [state["step"] for state in states],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            lr_decay=group["lr_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` on lists; state and parameters change in place."""
    ready = unscaled(grads, grad_scale, found_inf)
    if ready is None:
        return
    counts = counted(state_steps)
    dense = [i for i, grad in enumerate(ready) if not grad.is_sparse]
    for i in sorted({*range(len(ready))} - {*dense}):
        sparse_adagrad_step(
            params[i],
            ready[i],
            state_sums[i],
            weight_decay=weight_decay,
            rate=scalar(lr) / (1 + (counts[i] - 1) * lr_decay),
            eps=eps,
            maximize=maximize,
        )
    if len(dense) < len(ready):
        counts = [counts[i] for i in dense]
        params, ready, state_sums = (
            [column[i] for i in dense] for column in (params, ready, state_sums)
        )
    for count, columns in each(counts, (params, ready, state_sums)):
        update(
            "adagrad",
            columns,
            (eps, -(scalar(lr) / (1 + (count - 1) * lr_decay))),
            weight_decay=weight_decay,
            maximize=maximize,
        )
