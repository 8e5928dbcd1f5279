"""A loop inside a transform: tensors that are batched, or have tangents, as plain ones.

Programs know nothing of transforms: they are recorded below them. So a step of a loop inside `vmap`
or `jvp` becomes a step on plain tensors: it puts the parts that it is given together (a batch, a
value and its tangents), calls the step of the user, and takes its results apart. Tangents so ride
along in the carry, and a batched carry is a carry with one more axis.

Which parts there are may change in the first steps (a carry without a tangent gets one): these run
as Python, until a step gives back the parts that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = [
    "Form",
    "Unsuited",
    "apart",
    "count_of",
    "is_transformed",
    "rows_apart",
    "rows_together",
    "together",
]

# The levels that a tensor is batched at, and its tangents by level, which have forms of their own.
Form = tuple[tuple[int, ...], tuple[tuple[int, Any], ...]]


class Unsuited(Exception):
    """A loop inside a transform cannot run by parts.

    Attributes
    ----------
    result
        What its first step gave, where that has run and must not run again.
    """

    def __init__(self, result: list[Tensor] | None = None) -> None:
        super().__init__()
        self.result = result


def is_transformed(t: Tensor) -> bool:
    """Whether a tensor is batched or has tangents."""
    return apart(t)[1] != ((), ())


def apart(t: Tensor) -> tuple[list[Tensor], Form]:
    """The plain tensors that a tensor consists of, and how."""
    levels, value, tangents = _core._plain_parts(t)
    parts, forms = [value], []
    for level, tangent in tangents:
        more, form = apart(tangent)
        parts += more
        forms.append((level, form))
    return parts, (tuple(levels), tuple(forms))


def together(form: Form, parts: Iterator[Tensor]) -> Tensor:
    """The tensor of a form, with the next parts."""
    levels, forms = form
    value = next(parts)
    tangents = [(level, together(inner, parts)) for level, inner in forms]
    if not levels and not tangents:
        return value
    found: Tensor = _core._of_plain_parts(levels, value, tangents)
    return found


def count_of(form: Form) -> int:
    """How many parts there are."""
    return 1 + sum(count_of(inner) for _, inner in form[1])


def _axes(form: Form, before: int = 0) -> list[int]:
    """By part: how many axes of batches stand before those of the tensor."""
    levels, forms = form
    here = before + len(levels)
    return [here, *(n for _, inner in forms for n in _axes(inner, here))]


def rows_apart(t: Tensor) -> tuple[list[Tensor], Form]:
    """The same of a stack, with the axis of rows in front."""
    parts, form = apart(t)
    axes = _axes(form)
    return [p.movedim(n, 0) if n else p for p, n in zip(parts, axes, strict=True)], form


def rows_together(form: Form, parts: Sequence[Tensor]) -> Tensor:
    """The stack of a form."""
    axes = _axes(form)
    moved = [p.movedim(0, n) if n else p for p, n in zip(parts, axes, strict=True)]
    return together(form, iter(moved))
