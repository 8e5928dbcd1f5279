"""A loop inside a transform: tensors that are batched, or have tangents, as plain ones.

Programs know nothing of transforms: they are recorded below them. So a step of a loop inside `vmap`
or `jvp` becomes a step on plain tensors: it puts the parts that it is given together (a batch, a
value and its tangents), calls the step of the user, and takes its results apart. Tangents so ride
along in the carry, and a batched carry is a carry with one more axis.

Which parts there are may change in the first steps (a carry without a tangent gets one): these run
as Python, until a step gives back the parts that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._transforming import differentiated_once

__all__ = [
    "Form",
    "Unsuited",
    "apart",
    "can_have_gradients",
    "count_of",
    "is_transformed",
    "linearly",
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


def can_have_gradients(parts: Sequence[Tensor]) -> bool:
    """Whether a loop on parts can be differentiated as its parts are.

    A batch can: what is differentiated is a plain tensor with one more axis. So can values and
    tangents when forward mode is over; before, the gradient of a tensor with tangents has tangents
    itself, of which a loop on parts knows nothing. And the step can run no more when the transform
    is over, as a second derivative would.
    """
    needed = _core.is_grad_enabled() and any(t.requires_grad for t in parts)
    return not needed or differentiated_once(parts)


def together(form: Form, parts: Iterator[Tensor]) -> Tensor:
    """The tensor of a form, with the next parts."""
    levels, forms = form
    value = next(parts)
    tangents = [(level, together(inner, parts)) for level, inner in forms]
    if not levels and not tangents:
        return value
    found: Tensor = _core._of_plain_parts(levels, value, tangents)
    return found


Maybe = list[Tensor | None]


def linearly(run: Callable[[Sequence[Any]], Maybe], given: Sequence[Any]) -> Maybe:
    """Results of a linear function for tensors of transforms: of one plain part after the other."""
    level = _core._batch_level(tuple(given))
    if level:
        return _by_samples(run, given, level)
    pieces = [([], None, []) if t is None else _core._plain_parts(t) for t in given]
    tangents = [dict(moved) for _, _, moved in pieces]
    values = run([value for _, value, _ in pieces])
    levels = sorted({at for moved in tangents for at in moved})
    moved = {at: linearly(run, [some.get(at) for some in tangents]) for at in levels}

    def dual(k: int, value: Tensor | None) -> Tensor | None:
        there = [(at, moved[at][k]) for at in levels if moved[at][k] is not None]
        return _core._of_plain_parts((), value, there) if there else value

    return [dual(k, value) for k, value in enumerate(values)]


def _by_samples(run: Callable[[Sequence[Any]], Maybe], given: Sequence[Any], level: int) -> Maybe:
    size = next(
        _core._take_off(t, level, 0).shape[0]
        for t in given
        if t is not None and _core._batch_level((t,)) == level
    )
    batches = [None if t is None else _core._take_off(t, level, size) for t in given]
    found = [linearly(run, [None if t is None else t[k] for t in batches]) for k in range(size)]
    return [
        None if column[0] is None else _core._put_on(_core.stack(column), level)
        for column in zip(*found, strict=True)
    ]


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
