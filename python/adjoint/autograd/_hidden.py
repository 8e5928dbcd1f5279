"""Looks for tensors inside of objects that are no structures, where they would get no gradient.

The search goes through containers, attributes and slots. What can be called (functions, modules)
is judged by what it does, since its gradients may be seen to in other ways
(``src/graph/hidden.h``); ``_reads.py`` finds names for what it reads.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from adjoint._core import Tensor

__all__ = ["INNOCENT", "attributes", "hidden_tensor", "items"]

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
    if callable(holder) or isinstance(holder, types.ModuleType):
        return
    yield from items(path, holder)
    yield from attributes(path, holder)


def items(path: str, holder: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, with paths."""
    if isinstance(holder, dict):
        for key, value in list(holder.items()):
            yield f"{path}[{_escaped(repr(key))}]", value
    elif isinstance(holder, list | tuple | deque):
        for i, value in enumerate(list(holder)):
            yield f"{path}[{i}]", value
    elif isinstance(holder, _UNORDERED):
        for i, value in enumerate(list(holder)):
            yield f"list({path})[{i}]", value


def attributes(path: str, holder: Any) -> Iterator[tuple[str, Any]]:
    """What an object's attributes and slots hold, with paths."""
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
