"""SparseAdam: Adam on the rows that a sparse gradient has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._functional import sparse_adam
from adjoint.optim._options import _to_scalar, check_betas
from adjoint.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: means of entries without a gradient stay as they are.

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
    maximize : bool, default False
        Go up instead of down.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [
            ([index, number], parameter)
            for index, group in enumerate(self.param_groups)
            for number, parameter in enumerate(group["params"])
        ]
        if sparse := [place for place, parameter in places if parameter.is_sparse]:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        if complexes := [place for place, parameter in places if parameter.is_complex()]:
            raise ValueError(
                f"Complex params at indices {complexes}: SparseAdam does not support complex "
                "parameters"
            )

    @ad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's value."""
        loss = self._run_closure(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            states = [self._state_of(p) for p in params]
            beta1, beta2 = group["betas"]
            sparse_adam(
                params,
                [p.grad for p in params],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["step"] for state in states],
                eps=group["eps"],
                beta1=beta1,
                beta2=beta2,
                lr=_to_scalar(group["lr"]),
                maximize=group.get("maximize", False),
            )
        return loss

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        if parameter.grad is None or not parameter.grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = ad.zeros_like(parameter, requires_grad=False)
            state["exp_avg_sq"] = ad.zeros_like(parameter, requires_grad=False)
        state["step"] += 1
        return state
