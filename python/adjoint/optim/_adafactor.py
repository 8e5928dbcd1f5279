"""Adafactor: mean squares of matrices from their rows and columns alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._elementwise import counted
from adjoint.optim._options import _get_scalar_dtype, _to_scalar, check_rate
from adjoint.optim.optimizer import Optimizer, ParamsT

__all__ = ["Adafactor", "adafactor"]


class Adafactor(Optimizer):
    """Adaptive steps with little memory (Shazeer and Stern, 2018).

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-2
        The largest relative step; it is at most 1 / sqrt(t) at step t.
    beta2_decay : float, default -0.8
        At step t the share t ** beta2_decay of the mean squares is new.
    eps : pair of float, default (None, 1e-3)
        The smallest mean (None: the rounding unit of the dtype), and the smallest size of a
        parameter that steps are relative to.
    d : float, default 1.0
        Updates with a larger root mean square are shortened to it.
    weight_decay : float, default 0
        Times the rate, taken off the parameter.
    foreach : bool, optional
        Accepted.
    maximize : bool, default False
        Go up instead of down.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
        for entries in self.state.values():
            if entries and not isinstance(entries["step"], Tensor):
                entries["step"] = ad.tensor(float(entries["step"]), dtype=_get_scalar_dtype())

    def _state_of(self, parameter: Tensor, grad: Tensor) -> dict[str, Any]:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if grad.is_sparse:
            raise RuntimeError("Adafactor does not support sparse gradients")
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = ad.tensor(0.0, dtype=_get_scalar_dtype())
            if grad.dim() > 1:
                rows, columns = list(grad.shape), list(grad.shape)
                rows[-1] = columns[-2] = 1
                state["row_var"] = grad.new_zeros(rows)
                state["col_var"] = grad.new_zeros(columns)
            else:
                state["variance"] = ad.zeros_like(grad, requires_grad=False)
        return state

    @ad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's value."""
        loss = self._run_closure(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            states = [self._state_of(p, g) for p, g in zip(params, grads, strict=True)]
            eps1, eps2 = group["eps"]
            adafactor(
                params,
                grads,
                [state.get("row_var") for state in states],
                [state.get("col_var") for state in states],
                [state.get("variance") for state in states],
                [state["step"] for state in states],
                d=group["d"],
                lr=group["lr"],
                beta2_decay=group["beta2_decay"],
                weight_decay=group["weight_decay"],
                eps1=eps1,
                eps2=eps2,
                maximize=group["maximize"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
            )
        return loss


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` on lists; state and parameters change in place."""
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    rate = _to_scalar(lr)
    counts = counted(state_steps)
    for i, (param, count) in enumerate(zip(params, counts, strict=True)):
        grad = -grads[i] if maximize else grads[i]
        floor = ad.finfo(param.dtype).eps if eps1 is None else eps1
        size = max(eps2, param.norm(2).item() / (param.numel() ** 0.5)) if param.numel() else eps2
        alpha = size * min(rate, 1 / (count**0.5))
        if weight_decay != 0:
            param.mul_(1 - rate * weight_decay)
        state = (row_vars[i], col_vars[i], variances[i])
        update = _mean_squares(grad, *state, count**beta2_decay, floor)
        update = update.clamp_(min=floor * floor).rsqrt_().mul_(grad)
        if update.numel():
            excess = max(1.0, update.norm(2).item() / ((update.numel() ** 0.5) * d))
            param.add_(update, alpha=float(-alpha / excess))


def _mean_squares(
    grad: Tensor,
    row_var: Tensor | None,
    col_var: Tensor | None,
    variance: Tensor | None,
    share: float,
    floor: float,
) -> Tensor:
    """The running mean squares of a gradient, as a product of rows and columns if it has both."""
    if grad.dim() <= 1:
        if variance is None:
            raise AssertionError("variance should be defined when grad is a vector")
        return variance.lerp_(grad * grad, share).clone()
    if row_var is None or col_var is None:
        raise AssertionError("row_var and col_var should be defined when grad is multidimensional")
    for mean, axis in ((row_var, -1), (col_var, -2)):
        new = ad.norm(grad, dim=axis, keepdim=True).square_().div_(grad.size(axis))
        mean.lerp_(new, share)
    total = row_var.mean(dim=-2, keepdim=True).clamp_(min=floor)
    return (row_var @ col_var).div_(total)
