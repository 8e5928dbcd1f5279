"""What the optimizers share that update each element by itself.

An optimizer here is three things: the state of a parameter (`_new_state`), the functional form
(`adadelta(params, grads, ...)`), which turns options and step counts into numbers, and a formula on
elements in `src/kernels/optim/formulas.h`, found by its name. The formula runs as one native pass
over all parameters, or, where the step is recorded, with tensors; numbers that are tensors (a
learning rate that is learned) get gradients then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.optim._options import (
    _device_dtype_check_for_fused,
    _get_scalar_dtype,
    _to_scalar,
    refuse_capturable,
)
from adjoint.optim.optimizer import Optimizer, _use_grad_for_differentiable

__all__ = [
    "Columns",
    "Elementwise",
    "counted",
    "counter",
    "each",
    "one_by_one",
    "scalar",
    "unscaled",
    "update",
    "zeros",
]

Columns = tuple[list[Tensor] | None, ...]

# Options that groups of older files do not have.
_LATER_OPTIONS = {
    "amsgrad": False,
    "capturable": False,
    "centered": False,
    "decoupled_weight_decay": False,
    "differentiable": False,
    "foreach": None,
    "fused": None,
    "maximize": False,
    "momentum": 0,
    "nesterov": False,
}


class Elementwise(Optimizer):
    """An optimizer whose step goes through its groups, one after the other."""

    # State that older files hold as plain numbers.
    _scalars: ClassVar[tuple[str, ...]] = ("step",)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once.

        Parameters
        ----------
        closure : callable, optional
            Recomputes the loss, with gradients; its value is returned.
        """
        loss = self._run_closure(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                refuse_capturable(group.get("capturable", False))
                self._step_group(group, params, [p.grad for p in params])
        return loss

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        raise NotImplementedError

    def _states(self, group: dict[str, Any], params: list[Tensor]) -> list[dict[str, Any]]:
        states = []
        for parameter in params if group.get("fused") else ():
            _device_dtype_check_for_fused(parameter)
        for parameter in params:
            state = self.state[parameter]
            if not state:
                self._refuse_sparse(parameter)
                state.update(self._new_state(group, parameter))
            states.append(state)
        return states

    def _new_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _refuse_sparse(self, parameter: Tensor) -> None:
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in _LATER_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, value)
            for parameter in group["params"]:
                entries: dict[str, Any] = self.state.get(parameter, {})
                for name in self._scalars if entries else ():
                    if not isinstance(entries[name], Tensor):
                        dtype = _get_scalar_dtype(group.get("fused"))
                        entries[name] = ad.tensor(float(entries[name]), dtype=dtype)


def counter(group: dict[str, Any], value: float = 0.0) -> Tensor:
    """A scalar of a parameter's state."""
    return ad.tensor(value, dtype=_get_scalar_dtype(group.get("fused")))


def zeros(parameter: Tensor) -> Tensor:
    """State in the parameter's shape and order in memory."""
    return ad.zeros_like(parameter, requires_grad=False)


def counted(state_steps: list[Tensor]) -> list[float]:
    """Add one to each counter; their values."""
    for step in state_steps:
        if not isinstance(step, Tensor):
            raise RuntimeError(
                "API has changed, `state_steps` argument must contain a list of singleton tensors"
            )
    return _core._count_steps(state_steps)


def each(keys: Sequence[Any], columns: Columns) -> Iterator[tuple[Any, Columns]]:
    """The parameters by key: those with one key (a step count) share their numbers."""
    if not keys:
        return
    if list(keys).count(keys[0]) == len(keys):
        yield keys[0], columns
        return
    places: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key, chosen in places.items():
        yield key, _rows(columns, chosen)


def one_by_one(keys: Sequence[Any], columns: Columns) -> Iterator[tuple[Any, Columns]]:
    """As `each`, for keys that are tensors: equal values may have different histories."""
    for place, key in enumerate(keys):
        yield key, _rows(columns, [place])


def _rows(columns: Columns, places: list[int]) -> Columns:
    return tuple(None if c is None else [c[place] for place in places] for c in columns)


def update(
    rule: str,
    columns: Columns,
    numbers: tuple[Any, ...],
    choice: int = 0,
    *,
    weight_decay: Any = 0,
    maximize: bool = False,
) -> None:
    """Run a formula; the numbers of all of them begin with the sign and the weight decay."""
    if columns[0]:
        decaying = bool(weight_decay != 0)
        signed = (-1.0 if maximize else 1.0, weight_decay if decaying else 0.0, *numbers)
        _core._optimizer_step(rule, columns, signed, choice | decaying)


def unscaled(
    grads: list[Tensor], grad_scale: Tensor | None, found_inf: Tensor | None
) -> list[Tensor] | None:
    """Gradients without a `GradScaler`'s factor; None if the step is to be skipped."""
    if found_inf is not None and found_inf.item() != 0:
        return None
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale)
    return grads


def scalar(value: Any) -> Any:
    """A number of the formulas, as a tensor without axes if it is one."""
    return _to_scalar(value)
