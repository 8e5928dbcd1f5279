"""Muon: momentum made orthogonal, for the matrices of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._options import _to_scalar, check_rate
from adjoint.optim.optimizer import Optimizer, ParamsT

__all__ = ["Muon", "muon"]


class Muon(Optimizer):
    """Steps by the nearest orthogonal matrix to the momentum (Jordan et al., 2024).

    For matrices only; other parameters get an optimizer of their own, AdamW for instance.

    Parameters
    ----------
    params : iterable
        Matrices, (name, matrix) pairs or groups.
    lr : float, default 1e-3
        The learning rate.
    weight_decay : float, default 0.1
        Times the rate, taken off the parameter.
    momentum : float, default 0.95
        How much of the running mean of gradients is kept at each step.
    nesterov : bool, default True
        Mix the gradient in once more.
    ns_coefficients : three floats, default (3.4445, -4.775, 2.0315)
        The polynomial of the Newton-Schulz iteration.
    eps : float, default 1e-7
        The smallest norm that is divided by.
    ns_steps : int, default 5
        Iterations.
    adjust_lr_fn : {"original", "match_rms_adamw"}, optional
        How the rate depends on the shape of a matrix.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{parameter.size()}"
                    )

    def _buffer_of(self, parameter: Tensor, grad: Tensor) -> Tensor:
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        if grad.is_sparse:
            raise RuntimeError("Muon does not support sparse gradients")
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = ad.zeros_like(grad, requires_grad=False)
        buffer: Tensor = state["momentum_buffer"]
        return buffer

    @ad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's value."""
        loss = self._run_closure(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            muon(
                params,
                grads,
                [self._buffer_of(p, g) for p, g in zip(params, grads, strict=True)],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                nesterov=group["nesterov"],
                ns_coefficients=group["ns_coefficients"],
                ns_steps=group["ns_steps"],
                eps=group["eps"],
                adjust_lr_fn=group["adjust_lr_fn"],
                has_complex=False,
            )
        return loss


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of `Muon` on lists; momentum and parameters change in place."""
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    rate = _to_scalar(lr)
    for param, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        if grad.ndim != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if nesterov else buffer
        update = _zeropower_via_newtonschulz(update, ns_coefficients, ns_steps, eps)
        adjusted = _adjust_lr(rate, adjust_lr_fn, param.shape)
        param.mul_(1 - rate * weight_decay)
        param.add_(update, alpha=float(-adjusted))


def _zeropower_via_newtonschulz(
    grad: Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Tensor:
    """About the orthogonal factor of a matrix, in bfloat16: singular values near one."""
    if ns_steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(grad.shape) != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(ns_coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = ns_coefficients
    tall = grad.size(0) > grad.size(1)  # the smaller of the two Gram matrices is the cheaper
    x = grad.T if tall else grad
    x = x.bfloat16()
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        x = ad.addmm(x, ad.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjust_lr(lr: Any, adjust_lr_fn: str | None, param_shape: Sequence[int]) -> Any:
    rows, columns = param_shape[:2]
    if adjust_lr_fn is None or adjust_lr_fn == "original":
        return lr * math.sqrt(max(1, rows / columns))
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr
