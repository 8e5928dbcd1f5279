"""The arguments of one call of an external: taken apart, named, and put together again.

Every float in the arguments (a tensor, an array or a number, in any composite) that is not static
is an *input*; derivatives are taken with respect to inputs. All other leaves are handed on as they
are. Read next: `adjoint.numeric._coordinates`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor

__all__ = ["Arguments", "Static"]


class Static:
    """Which arguments are static, by position or by name; and what the function calls them all."""

    __slots__ = ("given", "names", "positional", "positions", "rest")

    def __init__(self, function: Callable[..., Any], given: Any) -> None:
        items = list(given) if isinstance(given, (tuple, list, set, frozenset)) else [given]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, (str, int)):
                raise TypeError(
                    f"static= takes names or positions of arguments, got {item!r} in {given!r}"
                )
        names = parameters(function)
        self.given = given
        self.positional, self.rest = _positional(function)
        self.names = {item for item in items if isinstance(item, str)}
        self.positions = {item for item in items if isinstance(item, int)}
        unknown = sorted(self.names - set(names)) if names and "*" not in names else []
        if unknown:
            raise ValueError(
                f"static={given!r}: {name_of(function)} has no argument {unknown[0]!r}; "
                f"it has {', '.join(map(repr, names))}"
            )
        self.positions |= {i for i, name in enumerate(names) if name in self.names}

    def __bool__(self) -> bool:
        return bool(self.names or self.positions)

    def roots(self, count: int) -> list[str]:
        """What the function calls its first ``count`` positional arguments."""
        start = len(self.positional)
        if self.rest is None:
            more = [f"argument {i}" for i in range(start, count)]
        else:
            more = [f"{self.rest}[{i - start}]" for i in range(start, count)]
        return (self.positional + more)[:count]


def name_of(function: Callable[..., Any]) -> str:
    """What messages call a function."""
    name = getattr(function, "__name__", None)
    return str(name) if name and name != "<lambda>" else getattr(function, "label", "the function")


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's positional arguments; ``*`` last for one that takes any number."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["*"]
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found)
    keyword = [p.name for p in found if p.kind is p.KEYWORD_ONLY]
    return names + keyword + (["*"] if open_ended else [])


def _positional(function: Callable[..., Any]) -> tuple[list[str], str | None]:
    """The names of a function's positional arguments, and of ``*args`` if it has that."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        found = []
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names, next((p.name for p in found if p.kind is p.VAR_POSITIONAL), None)


def is_input(leaf: Any) -> bool:
    """Whether a leaf is a float, which a derivative may be taken by."""
    if isinstance(leaf, Tensor):
        dtype: Any = leaf.dtype
        return bool(dtype.is_floating_point or dtype.is_complex)
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, (float, complex))


class Arguments:
    """The leaves of ``(args, kwargs)``, which of them are inputs, and how they are put together.

    Slots only: `Function.apply` looks into objects that have a ``__dict__`` for hidden tensors.
    """

    __slots__ = ("choice", "count", "inputs", "keywords", "leaves", "specs", "static")

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], static: Static) -> None:
        self.choice = static
        self.keywords = tuple(kwargs)
        self.count = len(args)
        self.leaves: list[Any] = []
        self.specs: list[Any] = []  # one per argument; None for one that is a leaf itself
        self.inputs: list[int] = []  # positions among the leaves
        self.static: set[int] = set()  # likewise
        for i, value in enumerate((*args, *kwargs.values())):
            fixed = i in static.positions if i < self.count else False
            fixed = fixed or (i >= self.count and self.keywords[i - self.count] in static.names)
            self._add(value, fixed)

    @classmethod
    def of_tensors(cls, count: int, static: Static) -> Arguments:
        """The arguments of every call with so many floating tensors and nothing else."""
        made: Arguments = object.__new__(cls)
        made.choice, made.count, made.keywords = static, count, ()
        made.leaves, made.specs = [None] * count, [None] * count
        made.inputs, made.static = list(range(count)), set()
        return made

    def _add(self, value: Any, fixed: bool) -> None:
        at = len(self.leaves)
        if fixed or isinstance(value, (Tensor, float, np.ndarray)):
            self.leaves.append(value)
            self.specs.append(None)
        else:
            found, spec = _tree.flatten(value)
            self.leaves += found
            self.specs.append(None if spec.is_leaf() else spec)
        if fixed:
            self.static.add(at)
        else:
            self.inputs += [k for k in range(at, len(self.leaves)) if is_input(self.leaves[k])]

    def rebuild(self, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """``args, kwargs`` with other leaves."""
        values: list[Any] = []
        at = 0
        for spec in self.specs:
            if spec is None:
                values.append(leaves[at])
                at += 1
            else:
                values.append(_tree.unflatten(spec, leaves[at : at + spec.num_leaves]))
                at += spec.num_leaves
        named = dict(zip(self.keywords, values[self.count :], strict=True))
        return values[: self.count], named

    def roots(self) -> list[str]:
        """What the function calls its arguments."""
        return [*self.choice.roots(self.count), *self.keywords]

    def names(self) -> list[str]:
        """Where each leaf stands: ``params.k``."""
        found: list[str] = []
        for root, spec in zip(self.roots(), self.specs, strict=True):
            found += [root] if spec is None else _tree.paths(spec, root)
        return found

    def leaves_of(self, trees: Sequence[Any]) -> list[Any]:
        """One item per leaf from one tree per argument, built like the arguments."""
        roots = self.roots()
        found: list[Any] = []
        for root, spec, tree in zip(roots, self.specs, trees, strict=True):
            found += [tree] if spec is None else _tree.leaves_like(spec, tree, root)
        return found


def as_array(tensor: Tensor) -> Any:
    """A tensor's memory as a NumPy array that cannot be written to."""
    if tensor.dtype == _core.bfloat16:
        raise TypeError(
            f"NumPy has no bfloat16: an external got a tensor of shape {list(tensor.shape)} of it; "
            "fix: pass x.float()"
        )
    # Not .numpy(), which notes on the node that its values left the graph: here they come back.
    buffer: Any = tensor.detach().resolve_conj().resolve_neg()
    return np.asarray(memoryview(buffer).toreadonly())
