"""Where a function may be evaluated: `check` takes bounds as `external` does.

A point outside is not evaluated at all; a line then sees one side of the inputs only, as it does
at the edge of a domain that the function itself refuses to leave. Read next: _subject.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.autograd._gradcheck.problem import Vector, to_tensor, to_vector

from ._subject import Subject

__all__ = ["keep_within", "towards_the_inside"]


def keep_within(subject: Subject, bounds: Any) -> None:
    """Let a subject be evaluated inside ``bounds`` only: a pair, or a dict of pairs by name."""
    if bounds is None:
        return
    low, high = np.full(subject.x.size, -np.inf), np.full(subject.x.size, np.inf)
    for k, pair in enumerate(_pairs(subject, bounds)):
        if pair is None:
            continue
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                "check(): bounds= takes (low, high), with None for no bound, or a dict of such "
                f"pairs by argument; got {pair!r}"
            )
        for vector, value in zip((low, high), pair, strict=True):
            if value is not None:
                # As the input's dtype has it: 0.1 is a number between two of float32.
                like = subject.inputs[k].tensor.detach()
                held = to_tensor(_spread(value, subject, k), like)
                vector[subject.x.part(k)] = to_vector(held)
    outside = np.flatnonzero((subject.at < low) | (subject.at > high))
    if outside.size:
        i = int(outside[0])
        raise ValueError(
            f"check(): {subject.x.label(i)} = {subject.at[i]:.6g} is outside its bounds "
            f"[{low[i]:.6g}, {high[i]:.6g}]"
        )
    subject.low, subject.high = low, high


def _pairs(subject: Subject, bounds: Any) -> list[Any]:
    roots, paths = subject.argument_names, subject.x.names
    for key in bounds if isinstance(bounds, dict) else ():
        if key not in roots and key not in paths:
            raise ValueError(
                f"check(): bounds= names {key!r}, but the inputs are "
                f"{', '.join(repr(p) for p in dict.fromkeys([*roots, *paths]))}"
            )
    return subject.x.by_name(bounds, roots)


def _spread(value: Any, subject: Subject, k: int) -> Vector:
    try:
        spread: Vector = subject.x.spread(k, value)
    except ValueError:
        raise ValueError(
            f"check(): bounds= for {subject.x.names[k]} have shape {list(np.shape(value))}, the "
            f"input {list(subject.x.shapes[k])}"
        ) from None
    return spread


def towards_the_inside(subject: Subject, signs: Vector, scale: Vector) -> Vector:
    """Signs of a direction, turned where a bound is nearer than the other way is."""
    above, below = subject.high - subject.at, subject.at - subject.low
    near = np.minimum(above, below) < 0.25 * scale
    inwards = np.where(above >= below, 1.0, -1.0)
    return np.where(near, inwards * np.abs(signs), signs)
