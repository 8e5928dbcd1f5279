"""Rprop: steps from the signs of gradients alone."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.optim._elementwise import Elementwise, counted, counter, scalar, zeros
from adjoint.optim._options import check_rate, refuse_capturable
from adjoint.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(Elementwise):
    """Step sizes that grow while the gradient of their element keeps its sign (Riedmiller, 1993).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-2
        The first step size.
    etas : pair of float, default (0.5, 1.2)
        What step sizes are multiplied by when the sign has changed, and when it has not.
    step_sizes : pair of float, default (1e-6, 50)
        The smallest and the largest step size.
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
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        refuse_capturable(capturable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        # A product: where the step is recorded, the rate may have a history.
        ones = ad.full_like(parameter, 1 + 1j if parameter.is_complex() else 1, requires_grad=False)
        return {
            "step": counter(group),
            "prev": zeros(parameter),
            "step_size": ones * scalar(group["lr"]),
        }

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        states = self._states(group, params)
        shorter, longer = group["etas"]
        smallest, largest = group["step_sizes"]
        rprop(
            params,
            grads,
            [state["prev"] for state in states],
            [state["step_size"] for state in states],
            [state["step"] for state in states],
            step_size_min=smallest,
            step_size_max=largest,
            etaminus=shorter,
            etaplus=longer,
            maximize=group["maximize"],
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` on lists; state and parameters change in place."""
    refuse_capturable(capturable)
    counted(state_steps)
    if params:
        sign = -1.0 if maximize else 1.0
        numbers = (sign, etaminus, etaplus, step_size_min, step_size_max)
        _core._optimizer_step("rprop", (params, grads, prevs, step_sizes), numbers, 0)
