"""Names for tensors that a custom function read although they are none of its arguments.

Asked for the message when such a tensor loses its gradient
(``src/bindings/function/function_hidden_reads.cpp``).
The search goes where a program finds tensors: containers, attributes, modules' parameters,
closures, defaults, partials, bound methods, and the globals that a function names.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

from adjoint._core import Tensor

from ._tensors_in_objects import INNOCENT, attributes, items

__all__ = ["describe"]

_DEPTH = 5
_COUNT = 1000  # things looked at, so that a large object costs little


def describe(
    roots: list[tuple[str, Any]],
    forward: Any,
    tensors: Sequence[Tensor | None],
    name: str = "forward",
) -> list[str]:
    """Each tensor as a message says it: ``net.0.weight (argument 'net', float32 [3, 2])``.

    ``name`` is what messages call ``forward``. None stands for one that is not known.
    """
    wanted = {id(tensor) for tensor in tensors if tensor is not None}
    found: dict[int, tuple[str, str]] = {}
    row = [(name, f"argument '{name}'", value) for name, value in roots]
    row.append((name, "", forward))
    seen = {id(value) for _, _, value in row}
    keep = []  # what is made on the way must not lend its id to something else
    for _ in range(_DEPTH):
        below = []
        for path, where, holder in row:
            for inner, place, value in _entries(path, where, holder):
                if isinstance(value, Tensor):
                    if id(value) in wanted:
                        found.setdefault(id(value), (inner, place))
                elif type(value) not in INNOCENT and id(value) not in seen:
                    seen.add(id(value))
                    keep.append(value)
                    below.append((inner, place, value))
            if len(found) == len(wanted) or len(seen) > _COUNT:
                break
        row = below
    return [_text(tensor, *found.get(id(tensor), ("a tensor", ""))) for tensor in tensors]


def _text(tensor: Tensor | None, path: str, where: str) -> str:
    if tensor is None:
        return path
    kind = f"{str(tensor.dtype).rpartition('.')[2]} {list(tensor.shape)}"
    return f"{path} ({where}, {kind})" if where else f"{path} ({kind})"


def _entries(path: str, where: str, holder: Any) -> Iterator[tuple[str, str, Any]]:
    """What can be reached from ``holder``: its path, where that begins, and itself."""
    if isinstance(holder, types.FunctionType):
        yield from _variables(path, holder)
    elif isinstance(holder, types.MethodType):
        yield f"{path}.__self__", where, holder.__self__
        yield path, where, holder.__func__
    elif isinstance(holder, functools.partial):
        yield f"{path}.func", where, holder.func
        yield f"{path}.args", where, holder.args
        yield f"{path}.keywords", where, holder.keywords
    elif isinstance(holder, types.ModuleType | type):
        return
    elif callable(getattr(holder, "named_parameters", None)):
        for name, value in (*holder.named_parameters(), *holder.named_buffers()):
            yield f"{path}.{name}", where, value
    else:
        for inner, value in (*items("{0}", holder), *attributes("{0}", holder)):
            yield inner.format(path), where, value


def _variables(path: str, function: types.FunctionType) -> Iterator[tuple[str, str, Any]]:
    """The variables of a function that it does not make itself."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, f"a variable of {path}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        yield name, f"a default of {path}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name, f"a default of {path}", value
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Tensor) or callable(getattr(value, "named_parameters", None)):
            yield name, f"a global of {path}", value
