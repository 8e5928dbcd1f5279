"""Calling a module with other parameters and buffers than its own.

`swapped` puts them in place for the length of a ``with`` block; `adjoint.func.functional_call` is
the public way to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint import Tensor
from adjoint._surroundings import stand_ins
from adjoint.nn.modules.module import Module

__all__ = ["functional_call"]


def _tied_names(module: Module) -> dict[str, set[str]]:
    """For each name of a tensor that the module has under several names: all of them."""
    groups: dict[int, set[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, tensor in named(remove_duplicate=False):
            groups.setdefault(id(tensor), set()).add(name)
    return {name: names for names in groups.values() if len(names) > 1 for name in names}


def _with_tied(module: Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """``tensors`` with what is given for one of several tied names under each of them."""
    tied = _tied_names(module)
    complete = dict(tensors)
    for name in [n for n in tensors if n in tied]:
        given = {id(tensors[n]) for n in tied[name] if n in tensors}
        if len(given) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied[name])}, which are "
                "tied. Consider using tie_weights=False"
            )
        for other in tied[name]:
            complete[other] = tensors[name]
    return complete


def _check_names(module: Module, tensors: dict[str, Any]) -> None:
    own = {
        name
        for named in (module.named_parameters, module.named_buffers)
        for name, _ in named(remove_duplicate=False)
    }
    unexpected = [name for name in tensors if name not in own]
    missing = sorted(own - set(tensors))
    problems = []
    if unexpected:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        lines = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{lines}")


_ABSENT = object()


def _owner(module: Module, path: str) -> Module:
    """The submodule that a name with dots leads to."""
    for part in path.split(".") if path else []:
        below = getattr(module, part, None)
        if below is None:
            raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
        if not isinstance(below, Module):
            raise TypeError(f"submodule `{part}`: {below} is not an instance of torch.nn.Module")
        module = below
    return module


def put(module: Module, name: str, value: Any) -> Any:
    """Put ``value`` where the module keeps ``name``; return what was there.

    Past ``__setattr__``: a plain tensor may stand in for a parameter.
    """
    if value is not _ABSENT and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
    for table in tables:
        if name in table:
            before = table[name]
            if value is _ABSENT:
                del table[name]
            else:
                table[name] = value
            return before
    before = getattr(module, name, _ABSENT)
    if before is not _ABSENT and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if value is not _ABSENT:
        setattr(module, name, value)
    elif before is not _ABSENT:
        delattr(module, name)
    return before


@contextmanager
def swapped(
    module: Module, tensors: dict[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """The module with other tensors; afterwards ``tensors`` holds what it left in their places."""
    placed = _with_tied(module, tensors) if tie_weights else tensors
    if strict:
        _check_names(module, placed)
    before: list[tuple[Module, str, str, Any]] = []
    try:
        for full, value in placed.items():
            path, _, name = full.rpartition(".")
            owner = _owner(module, path)
            before.append((owner, name, full, put(owner, name, value)))
        placed_now = tuple((owner, name, placed[full]) for owner, name, full, _ in before)
        token = stand_ins.set((*stand_ins.get(), *placed_now))
        try:
            yield
        finally:
            stand_ins.reset(token)
    finally:
        for owner, name, full, value in reversed(before):
            after = put(owner, name, value)
            if full in tensors and after is not _ABSENT:
                tensors[full] = after


_reparametrize_module = swapped


def call_with(
    module: Module,
    tensors: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with the given tensors in place of its own."""
    if not isinstance(module, Module):
        raise TypeError(f"functional_call: expected a module, got {type(module).__name__}")
    if not isinstance(tensors, dict):
        raise TypeError(
            f"Expected parameters_and_buffers to be a dictionary, but got {type(tensors).__name__}"
        )
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with swapped(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


_functional_call = call_with


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers: the old address of `func.functional_call`.

    Parameters are those of `adjoint.func.functional_call`, of one dict.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated. Please use "
        "`torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
