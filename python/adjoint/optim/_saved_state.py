"""An optimizer's state as plain data: parameters replaced by their numbers, and back."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import adjoint as ad
from adjoint import Tensor

__all__ = ["cast_to_policy", "packed", "unpacked"]


def packed(groups: list[dict[str, Any]], state: Mapping[Any, Any]) -> dict[str, Any]:
    """The content of `Optimizer.state_dict()`."""
    numbers: dict[int, int] = {}
    saved_groups = []
    begin = 0
    for group in groups:
        for number, parameter in enumerate(group["params"], begin):
            numbers.setdefault(id(parameter), number)
        begin += len(group["params"])
        options = {key: value for key, value in group.items() if key != "params"}
        options["params"] = [numbers[id(parameter)] for parameter in group["params"]]
        saved_groups.append(options)
    saved_state: dict[Hashable, Any] = {
        (numbers[id(key)] if isinstance(key, Tensor) else key): value
        for key, value in state.items()
    }
    return {"state": saved_state, "param_groups": saved_groups}


def unpacked(groups: list[dict[str, Any]], saved: Mapping[str, Any]) -> dict[str, Any]:
    """State and groups for the parameters of `groups`, from what `packed` returned."""
    saved_groups = copy.deepcopy(saved["param_groups"])
    if len(groups) != len(saved_groups):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(
        len(group["params"]) != len(other["params"])
        for group, other in zip(groups, saved_groups, strict=True)
    ):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of "
            "optimizer's group"
        )
    by_number: dict[Any, Tensor] = {}
    for group, other in zip(groups, saved_groups, strict=True):
        by_number.update(zip(other["params"], group["params"], strict=True))
        other["params"] = group["params"]
        if "param_names" in group and "param_names" not in other:
            other["param_names"] = group["param_names"]
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in saved["state"].items():
        if key in by_number:
            state[by_number[key]] = _cast(by_number[key], value, key, saved["param_groups"])
        else:
            state[key] = value
    return {"state": state, "param_groups": saved_groups}


def _cast(
    parameter: Tensor, value: Any, number: Any, groups: list[dict[str, Any]], name: str = ""
) -> Any:
    if isinstance(value, Tensor):
        return cast_to_policy(parameter, value, number, groups, name)
    if isinstance(value, Mapping):
        return {key: _cast(parameter, entry, number, groups, key) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return type(value)(  # type: ignore[call-arg]
            _cast(parameter, entry, number, groups) for entry in value
        )
    return value


def cast_to_policy(
    parameter: Tensor,
    value: Tensor,
    number: Any,
    groups: list[dict[str, Any]],
    name: str | None = None,
) -> Tensor:
    """A copy of a loaded tensor, in the parameter's dtype; step counters keep theirs.

    Copied, so that two optimizers that load one state do not share moments.
    """
    if name == "step":
        exact = any(
            number in group["params"] and (group.get("fused") or group.get("capturable"))
            for group in groups
        )
        return value.to(ad.float32, copy=True) if exact else value.clone()
    if parameter.is_floating_point() or parameter.is_complex():
        if value.is_complex() and not parameter.is_complex():
            return value.clone()
        return value.to(parameter.dtype, copy=True)
    return value.clone()
