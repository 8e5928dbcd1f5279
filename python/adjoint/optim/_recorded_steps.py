"""Steps inside of compiled functions (`adjoint.compile`): the program takes them as it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint import Tensor, _core

if TYPE_CHECKING:
    from adjoint.optim.optimizer import Optimizer

__all__ = ["parameters", "record_step", "recorded_parameters"]


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of all groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def recorded_parameters(optimizer: Optimizer) -> list[Tensor]:
    """The parameters, for a program: with others it is recorded anew."""
    from adjoint.compiler._walk import guard

    def read() -> list[Tensor]:
        guard(optimizer, _which_parameters)
        return parameters(optimizer)

    return _core._unrecorded(read)


def _which_parameters(optimizer: Optimizer) -> tuple[int, ...]:
    return tuple(map(id, parameters(optimizer)))


def record_step(
    optimizer: Optimizer, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Take `step(optimizer)` down as an instruction."""
    if args or kwargs:
        _core._refuse_recording("the step of an optimizer gets a closure")
        return step(optimizer, *args, **kwargs)
    params = recorded_parameters(optimizer)
    grads = [p.grad for p in params if p.grad is not None]

    def run(_: Any) -> tuple[()]:
        step(optimizer)
        return ()

    _core._host_change(run, [*params, *grads])
    return None
