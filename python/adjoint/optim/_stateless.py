"""Let an optimizer work on other parameters and other state for a while."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from adjoint import Tensor
from adjoint.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """Steps inside of the `with` block change other parameters, with state and options given.

    Parameters
    ----------
    optimizer : Optimizer
        One that has taken a step.
    swapin_parameters : dict
        Tensors in the order of the optimizer's parameters.
    swapin_optim_state : dict
        As `optimizer.state_dict()` returns it.
    """
    plan = _plan(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    state_before = optimizer.state
    groups_before = [dict(group) for group in optimizer.param_groups]
    try:
        state: defaultdict[Tensor, Any] = defaultdict(dict)
        for group, other, params in plan:
            group.update({**other, "params": params})
            for parameter, number in zip(params, other["params"], strict=True):
                state[parameter] = dict(swapin_optim_state["state"].get(number, {}))
        optimizer.state = state
        yield
    finally:
        for group, before in zip(optimizer.param_groups, groups_before, strict=True):
            group.clear()
            group.update(before)
        optimizer.state = state_before


def _plan(
    optimizer: Optimizer, params: list[Tensor], saved: Any
) -> list[tuple[dict[str, Any], dict[str, Any], list[Tensor]]]:
    """Groups with what replaces them, or an error before anything has changed."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(saved, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    state = _checked_state(saved.get("state"))
    groups = saved.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    plan = []
    numbers: set[int] = set()
    begin = 0
    for index, (group, other) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        _check_group(index, group, other)
        end = begin + len(group["params"])
        if end > len(params):
            raise RuntimeError(
                f"{_NAME} requires the explicit parameter state to match optimizer.param_groups "
                "ordering."
            )
        plan.append((group, other, params[begin:end]))
        numbers.update(other["params"])
        begin = end
    if extra := [key for key in state if key not in numbers]:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter "
            f"ids from param_groups[*]['params']; got extra keys {extra!r}."
        )
    return plan


def _checked_state(state: Any) -> dict[Any, Any]:
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if any(isinstance(key, int) and not isinstance(value, dict) for key, value in state.items()):
        raise RuntimeError(
            f"{_NAME} requires per-parameter optimizer state entries to be dictionaries."
        )
    return state


def _check_group(index: int, group: dict[str, Any], other: Any) -> None:
    if not isinstance(other, dict):
        raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
    numbers = other.get("params")
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries "
            "keyed by packed parameter ids."
        )
    if len(numbers) != len(group["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has a different number of params than the "
            "live optimizer param group."
        )
    swapped = [key for key in other if key not in group]
    live = [key for key in group if key not in other]
    if swapped or live:
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the "
            f"live optimizer group keys for group {index}. Keys only in swap-in: {swapped}. Keys "
            f"only in live: {live}."
        )
