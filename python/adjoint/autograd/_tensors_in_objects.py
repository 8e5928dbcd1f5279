"""Looks for tensors inside arguments that are not structures, where they would get no gradient.

The search goes through containers, attributes and slots. What it finds is watched while forward
runs (``src/graph/hidden_reads.h``); ``_hidden_read_names.py`` finds names for what was
read. What can be called (functions, modules) is not searched: it is judged by what it computes.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from adjoint._core import Tensor

__all__ = ["INNOCENT", "attributes", "hidden_tensors", "items"]

INNOCENT = frozenset({type(None), bool, int, float, complex, str, bytes, type})
_DEPTH = 4
_COUNT = 1000  # things looked at, so that a large object costs little
_UNORDERED: Any = (set, frozenset, type({}.values()), type({}.items()))


def hidden_tensors(leaf: Any) -> list[Tensor]:
    """The tensors that require grad inside ``leaf``."""
    found: list[Tensor] = []
    row = [leaf]
    seen = {id(leaf)}
    keep = []  # what is made on the way must not lend its id to something else
    for _ in range(_DEPTH):
        below = []
        for holder in row:
            for value in _entries(holder):
                if type(value) in INNOCENT or id(value) in seen:
                    continue
                if len(seen) == _COUNT:
                    return found
                seen.add(id(value))
                keep.append(value)
                if not isinstance(value, Tensor):
                    below.append(value)
                elif value.requires_grad:
                    found.append(value)
        row = below
    return found


def _entries(holder: Any) -> Iterator[Any]:
    if callable(holder) or isinstance(holder, types.ModuleType):
        return
    for _, value in (*items("", holder), *attributes("", holder)):
        yield value


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
