"""`_foreach_add(tensors, ...)` and its like: any op on each tensor of a list.

There is no list of these functions: a name after `_foreach_` is looked up among the ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import Tensor, _core

__all__ = ["foreach_function"]

PREFIX = "_foreach_"
# What lists of arguments are called: they stand for the op's next argument.
_LISTS = frozenset({"scalar", "scalars", "tensors1", "weights"})


def foreach_names() -> list[str]:
    """All names that `foreach_function` knows, in order."""
    names = {f"{PREFIX}{op}{end}" for op in _schemas() for end in ("", "_")} | _OWN.keys()
    return sorted(name for name in names if foreach_function(name) is not None)


def foreach_function(name: str) -> Callable[..., Any] | None:
    """The function of that name, or None if there is no such op."""
    if name in _OWN:
        return _OWN[name]
    op = name.removeprefix(PREFIX)
    inplace = op.endswith("_") and not op.endswith("__")
    schema = _schemas().get(op.removesuffix("_"))
    if schema is None or not (schema["method"] or inplace):
        return None

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, list | tuple):  # pow(2.0, exponents)
            first, *rest = args
            each = [
                getattr(_core, op)(self, entry, *rest, **kwargs) for entry in _tensors(name, first)
            ]
            return tuple(each)
        tensors = _tensors(name, self)
        columns = _columns(schema, tensors, args, kwargs)
        results = [
            _apply(op, x, {key: column[i] for key, column in columns.items()}, inplace)
            for i, x in enumerate(tensors)
        ]
        return list(tensors) if inplace else tuple(results)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{op}` of each tensor; the other arguments are shared or lists as long."
    return function


@functools.cache
def _schemas() -> dict[str, Any]:
    """The first form of each op."""
    found: dict[str, Any] = {}
    for row in _core.op_table():
        if row["name"] == row["full_name"] and row["arguments"]:
            found.setdefault(row["name"], row)
    return found


def _tensors(name: str, given: Any) -> Sequence[Tensor]:
    if not isinstance(given, list | tuple):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not "
            f"{type(given).__name__}"
        )
    if not given:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for index, entry in enumerate(given):
        if not isinstance(entry, Tensor):
            raise TypeError(
                f"expected Tensor as element {index} in argument 0, but got {type(entry).__name__}"
            )
    return given


def _columns(
    schema: Any, tensors: Sequence[Tensor], args: Any, kwargs: dict[str, Any]
) -> dict[str, list[Any]]:
    """Each argument by its name in the op, as a list with one entry for each tensor."""
    arguments = {row["name"]: row for row in schema["arguments"][1:]}
    names = list(arguments)
    if len(args) > len(names):
        raise TypeError(
            f"{PREFIX}{schema['name']}() takes {len(names) + 1} positional arguments but "
            f"{len(args) + 1} were given"
        )
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        left = [n for n in names if n not in given]
        if name not in left and not (name in _LISTS and left):
            raise TypeError(
                f"{PREFIX}{schema['name']}() got an unexpected keyword argument '{name}'"
            )
        given[name if name in left else left[0]] = value
    return {name: _column(arguments[name]["type"], value, tensors) for name, value in given.items()}


def _column(kind: str, value: Any, tensors: Sequence[Tensor]) -> list[Any]:
    size = len(tensors)
    if isinstance(value, Tensor):
        if kind == "Scalar" and value.dim() == 1:  # numbers for all tensors in one
            if len(value) != size:
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {size} but got "
                    f"{len(value)} instead."
                )
            return list(value.tolist())
        if value.dim() != 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and "
                f"{value.numel()} elements."
            )
        return [value] * size
    if not isinstance(value, list | tuple):
        column = [value] * size
    elif len(value) == size:
        column = list(value)
    elif value and isinstance(value[0], Tensor):
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {size} and {len(value)}"
        )
    else:
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    if kind == "Tensor":  # of numbers tensors that do not decide the dtype
        column = [
            entry if isinstance(entry, Tensor) else x.new_tensor(entry)
            for entry, x in zip(column, tensors, strict=True)
        ]
    return column


def _apply(op: str, x: Tensor, arguments: dict[str, Any], inplace: bool) -> Any:
    method = getattr(x, op, None)
    if method is not None:
        return method(**arguments)
    return x.copy_(getattr(x, op.removesuffix("_"))(**arguments))


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor, taken as a vector."""
    return tuple(_core.norm(x, ord, dtype=dtype) for x in _tensors("_foreach_norm", self))


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of the powers of the sizes of each tensor's elements."""
    found = []
    for x in _tensors("_foreach_powsum", self):
        sizes = x.abs() if dtype is None else x.to(dtype).abs()
        found.append(sizes.pow(ord).sum())
    return tuple(found)


_OWN: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (_foreach_norm, _foreach_powsum)
}
