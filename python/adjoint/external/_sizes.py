"""The sizes in the shapes of a C or Fortran routine: ``n``, ``3``, ``n-1``, ``2*n*m``.

A size whose name stands in the shape of an input is read off that input, also where the shape has
``n-1`` or ``2*n``; every other axis is then compared with what the text says, since the routine
reads as far as that, whatever memory there is. Read next: _ctypes.py.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Size", "read_off"]

_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class Size:
    """The size along one axis, as a text."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            self.tree = ast.parse(self.text, mode="eval").body
            self.names = sorted(_names(self.tree))
        except (SyntaxError, ValueError):
            raise ValueError(
                f"the size {self.text!r} is not understood; sizes are names, whole numbers, and "
                "what +, -, * and // make of them: 'double[n-1]', 'double[2*n,m]'"
            ) from None
        self.tells = self._tells()

    def _tells(self) -> str | None:
        """The name that an axis of this size determines: it stands alone, and linearly."""
        if len(self.names) != 1:
            return None
        (name,) = self.names
        try:
            a, b, c = (_evaluate(self.tree, {name: k}) for k in range(3))
        except ZeroDivisionError:
            return None
        return name if b - a == c - b != 0 else None

    def solve(self, size: int) -> int | None:
        """What `tells` is if the axis has this size; None if no number fits."""
        assert self.tells is not None
        low, high = (_evaluate(self.tree, {self.tells: k}) for k in range(2))
        found, rest = divmod(size - low, high - low)
        fits = rest == 0 and found >= 0 and _evaluate(self.tree, {self.tells: found}) == size
        return found if fits else None

    def value(self, sizes: Mapping[str, int], routine: str, of: str) -> int:
        """The number, for these sizes."""
        for name in self.names:
            if name not in sizes:
                raise ValueError(
                    f"{routine}: no input tells the size {name} of {of}; fix: write it into the "
                    f"shape of an input, as in double[{name}], or make it a parameter, 'int {name}'"
                )
        try:
            found = _evaluate(self.tree, sizes)
        except ZeroDivisionError:
            found = -1
        if found < 0:
            given = ", ".join(f"{name} = {sizes[name]}" for name in self.names)
            raise ValueError(f"{routine}: {of} cannot have the size {self.text} with {given}")
        return found


def read_off(
    axes: Iterable[tuple[str, Size, int]], sizes: dict[str, int], routine: str
) -> dict[str, int]:
    """All sizes, from those given as arguments and the axes of the inputs, which must agree.

    ``axes`` are the name of an input, what an axis should be, and what it is.
    """
    axes = list(axes)
    # A name by itself says what is meant best; in messages the other axes are then the odd ones.
    for name, axis, size in sorted(axes, key=lambda a: a[1].text != a[1].tells):
        if axis.tells is not None and axis.tells not in sizes:
            found = axis.solve(size)
            if found is None:
                raise ValueError(
                    f"{routine}: {name} has {size} along {axis.text}, which fits no {axis.tells}"
                )
            sizes[axis.tells] = found
    for name, axis, size in axes:
        wanted = axis.value(sizes, routine, name)
        if wanted != size:
            why = ", ".join(f"{n} = {sizes[n]}" for n in axis.names)
            raise ValueError(
                f"{routine}: {name} has {size} along {axis.text}, which is {wanted} elsewhere"
                + (f" ({why})" if axis.text not in sizes else "")
            )
    return sizes


def _names(tree: ast.AST) -> set[str]:
    if isinstance(tree, ast.Name):
        return {tree.id}
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return set()
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _names(tree.left) | _names(tree.right)
    raise ValueError(ast.dump(tree))


def _evaluate(tree: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(tree, ast.Name):
        return sizes[tree.id]
    if isinstance(tree, ast.Constant):
        return int(tree.value)  # type: ignore[arg-type]
    left, right = _evaluate(tree.left, sizes), _evaluate(tree.right, sizes)
    return int(_OPERATORS[type(tree.op)](left, right))
