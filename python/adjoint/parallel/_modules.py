"""Modules in a map: their parameters travel as variables, beside the modules themselves.

Where a member runs the module is copied around the parameters that arrived; all else is shared. The
module itself is left alone: threads of one process have the same one, and must not see each
other's parameters in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor
from adjoint.nn import Module

__all__ = ["with_modules"]


def with_modules(
    function: Any, members: list[Any], shared: tuple[Any, ...]
) -> tuple[Any, list[Any], tuple[Any, ...]]:
    """A function and its arguments in which the parameters of modules are arguments, too."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if isinstance(function, Module):
        function, shared = _first_shared, (function, *shared)
    if not any(map(_modules_of, (*members, shared))):
        return function, members, shared
    return _OfParameters(function, name), [_beside(one) for one in members], (_beside(shared),)


def _first_shared(member: Any, function: Any, *shared: Any) -> Any:
    return function(member, *shared)


def _modules_of(tree: Any) -> list[Module]:
    return [leaf for leaf in _tree.flatten(tree)[0] if isinstance(leaf, Module)]


def _beside(tree: Any) -> tuple[Any, list[dict[str, Tensor]]]:
    """A structure, and the parameters of its modules."""
    return tree, [dict(module.named_parameters()) for module in _modules_of(tree)]


class _OfParameters:
    """A function of structures with the parameters of their modules beside them."""

    def __init__(self, function: Any, name: str) -> None:
        self.function, self.__qualname__ = function, name

    def __call__(self, member: Any, shared: Any) -> Any:
        return self.function(_filled(*member), *_filled(*shared))


def _filled(tree: Any, parameters: list[dict[str, Tensor]]) -> Any:
    leaves, spec = _tree.flatten(tree)
    given = iter(parameters)
    return _tree.unflatten(
        spec,
        [_around(leaf, next(given)) if isinstance(leaf, Module) else leaf for leaf in leaves],
    )


def _around(module: Module, parameters: Mapping[str, Tensor]) -> Any:
    """A copy of a module that has these parameters."""
    given = {id(own): parameters[name] for name, own in module.named_parameters()}
    return _copied(module, given, {})


def _copied(thing: Any, given: dict[int, Tensor], done: dict[int, Any]) -> Any:
    """What has modules or parameters in it, with copies and others in their places."""
    if isinstance(thing, Tensor):
        return given.get(id(thing), thing)
    if isinstance(thing, Module):
        if id(thing) not in done:  # a module may stand in several places, and hold itself
            copy = done[id(thing)] = object.__new__(type(thing))
            for name, value in vars(thing).items():
                copy.__dict__[name] = _copied(value, given, done)
        return done[id(thing)]
    if type(thing) in (list, tuple, set):
        return type(thing)(_copied(value, given, done) for value in thing)
    if isinstance(thing, dict):
        items = thing.copy()
        for key, value in thing.items():
            items[key] = _copied(value, given, done)
        return items
    return thing
