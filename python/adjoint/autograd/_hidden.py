"""Looks for tensors inside of objects that are no structures, where they would get no gradient.

The search goes through containers, attributes, slots, arguments of partials and the objects of
bound methods. Other things that can be called (functions, modules) bring their own ways to
differentiate, and are not looked into.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from adjoint._core import Tensor

__all__ = ["INNOCENT", "hidden_tensor"]

INNOCENT = frozenset({type(None), bool, int, float, complex, str, bytes, type})
_DEPTH = 4
_COUNT = 1000  # things looked at, so that a large object costs little
_UNORDERED: Any = (set, frozenset, type({}.values()), type({}.items()))


def hidden_tensor(leaf: Any) -> str | None:
    """Where ``leaf`` hides a tensor that requires grad: a path with ``{}`` for ``leaf`` itself."""
    row: list[tuple[str, Any]] = [("{}", leaf)]
    seen = {id(leaf)}
    keep = []  # what is made on the way must not lend its id to something else
    for _ in range(_DEPTH):
        below = []
        for path, holder in row:
            for inner, value in _entries(path, holder):
                if isinstance(value, Tensor):
                    if value.requires_grad:
                        return inner
                elif type(value) not in INNOCENT and id(value) not in seen:
                    if len(seen) == _COUNT:
                        return None
                    seen.add(id(value))
                    keep.append(value)
                    below.append((inner, value))
        row = below
    return None


def _entries(path: str, holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, types.MethodType):
        yield f"{path}.__self__", holder.__self__
    elif isinstance(holder, functools.partial):
        yield f"{path}.func", holder.func
        yield f"{path}.args", holder.args
        yield f"{path}.keywords", holder.keywords
    elif callable(holder) or isinstance(holder, types.ModuleType):
        return
    else:
        yield from _items(path, holder)
        yield from _attributes(path, holder)


def _items(path: str, holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        for key, value in list(holder.items()):
            yield f"{path}[{_escaped(repr(key))}]", value
    elif isinstance(holder, list | tuple | deque):
        for i, value in enumerate(list(holder)):
            yield f"{path}[{i}]", value
    elif isinstance(holder, _UNORDERED):
        for i, value in enumerate(list(holder)):
            yield f"list({path})[{i}]", value


def _attributes(path: str, holder: Any) -> Iterator[tuple[str, Any]]:
    held = getattr(holder, "__dict__", None)
    if isinstance(held, dict):
        for name, value in list(held.items()):
            yield f"{path}.{_escaped(str(name))}", value
    for kind in type(holder).__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, types.MemberDescriptorType) and "__slots__" in vars(kind):
                try:
                    yield f"{path}.{name}", member.__get__(holder, type(holder))
                except AttributeError:  # a slot that nothing was put into
                    continue


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
