"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.optim._elementwise import Elementwise, scalar, unscaled, update
from adjoint.optim._options import _device_dtype_check_for_fused, check_fused, check_rate
from adjoint.optim._sparse_steps import sparse_sgd_step
from adjoint.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]

_VELOCITY, _FIRST, _NESTEROV = 2, 4, 8


class SGD(Elementwise):
    """Gradient descent with optional momentum, Nesterov's too, and weight decay.

    Parameters
    ----------
    params : iterable
        What to optimise: tensors, (name, tensor) pairs or groups.
    lr : float or Tensor, default 1e-3
        The learning rate.
    momentum, dampening : float, default 0
        The velocity is momentum * velocity + (1 - dampening) * gradient.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    nesterov : bool, default False
        Step by the gradient plus momentum times the new velocity.
    maximize : bool, default False
        Go up instead of down.
    foreach, fused : bool, optional
        Accepted; all parameters are always updated in one native pass.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    """

    _scalars = ()

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if group["fused"]:
            for parameter in params:
                _device_dtype_check_for_fused(parameter)
        moving = group["momentum"] != 0
        state = self.state
        buffers = [state[p].get("momentum_buffer") for p in params] if moving else []
        sgd(
            params,
            grads,
            buffers,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )
        if moving:
            for parameter, buffer in zip(params, buffers, strict=True):
                state[parameter]["momentum_buffer"] = buffer


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float | Tensor,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` on lists; velocities that are None are put into their list."""
    grads = unscaled(d_p_list, grad_scale, found_inf)
    if grads is None:
        return
    if any(grad.is_sparse for grad in grads):
        given: dict[str, Any] = {
            "weight_decay": weight_decay,
            "momentum": momentum,
            "lr": lr,
            "dampening": dampening,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        _step_one_by_one(params, grads, momentum_buffer_list, given)
        return
    numbers = (momentum, 1 - dampening, -scalar(lr))
    options = {"weight_decay": scalar(weight_decay), "maximize": maximize}
    if momentum == 0:
        update("sgd", (params, grads, None), numbers, **options)
        return
    choice = _VELOCITY | (_NESTEROV if nesterov else 0)
    # The first step sets the velocity to the gradient, so new and running ones go separately.
    fresh = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
    for i in fresh:
        momentum_buffer_list[i] = params[i].detach().clone()
    buffers = [buffer for buffer in momentum_buffer_list if buffer is not None]
    if not fresh or len(fresh) == len(params):
        update(
            "sgd", (params, grads, buffers), numbers, choice | (_FIRST if fresh else 0), **options
        )
        return
    running = [i for i in range(len(params)) if i not in set(fresh)]
    for chosen, first in ((running, 0), (fresh, _FIRST)):
        columns = tuple([column[i] for i in chosen] for column in (params, grads, buffers))
        update("sgd", columns, numbers, choice | first, **options)


def _step_one_by_one(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor | None],
    options: dict[str, Any],
) -> None:
    """Some gradients are sparse, and only these need another step."""
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        held = buffers[i : i + 1]
        if grad.is_sparse:
            options_here = {**options, "lr": scalar(options["lr"])}
            held[:] = [sparse_sgd_step(param, grad, held[0] if held else None, **options_here)]
        else:
            sgd([param], [grad], held, **options)
        if buffers:
            buffers[i] = held[0]
