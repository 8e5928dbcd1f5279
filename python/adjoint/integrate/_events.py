"""Events along a solution: their times and states, with derivatives.

A `Watcher` has told in which steps they happen. Where in a step is found on the solution itself,
and the time is the answer of an equation: the event is zero there. Each event has so many *places*.
Of a single eager solution there are as many as there were events; of samples of a `vmap` and in a
program the number is fixed, and what is not met, or would come after the end, is NaN.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import has_tangent, somewhere
from adjoint.optimize._implicit import answer
from adjoint.optimize._unknowns import Unknowns

from ._crossing import crossing
from ._trajectory import Piece
from ._watch import Watcher

__all__ = ["Found", "Place", "found_events"]


@dataclasses.dataclass
class Place:
    """Room for one event.

    Attributes
    ----------
    piece, number
        The step in which it happens, and the number of that.
    met
        Whether it happens; None: it does.
    theta
        Where in the step.
    """

    piece: Piece
    number: Tensor
    met: Tensor | None
    theta: Tensor


@dataclasses.dataclass
class Found:
    """Events that were found.

    Attributes
    ----------
    times, states
        By event; see `solve_ivp`.
    last, until
        The time of the event that ended the solution, and the number of the step it is in.
    ended
        Whether there is one.
    """

    times: list[Tensor]
    states: list[Any]
    last: Tensor | None
    until: Tensor | None
    ended: Tensor | None


def found_events(
    watcher: Watcher,
    places: list[list[Place]],
    unknowns: Unknowns,
    is_padded: bool,
) -> Found:
    """Times and states of events, of those that happen before one of them ends the solution."""
    with ad.no_grad():
        for function, row in zip(watcher.functions, places, strict=True):
            for place in row:
                place.theta = _theta(function, place.piece.detached())
        end = _end(watcher, places)
        if end is not None:
            for which, row in enumerate(places):
                for place in row:
                    late = end.is_before(place, which)
                    place.met = ~late if place.met is None else place.met & ~late
    if not is_padded:
        places = [[p for p in row if p.met is None or bool(p.met)] for row in places]
        for row in places:
            for place in row:
                place.met = None
    times, states = [], []
    last: Tensor | None = None
    for which, row in enumerate(places):
        function, name = watcher.functions[which], watcher.names[which]
        at = [_time(function, place, name) for place in row]
        vectors = [place.piece.at(t) for place, t in zip(row, at, strict=True)]
        most = watcher.most[which]
        if end is not None and most and len(row) >= most:
            here = at[most - 1]
            last = here if last is None else ad.where(end.which == which, here, last)
        times.append(_padded(at, row, unknowns.start))
        states.append(_states(vectors, row, unknowns))
    if end is None or last is None:
        return Found(times, states, None, None, None)
    return Found(times, states, last, end.number, end.ended)


@dataclasses.dataclass
class _End:
    ended: Tensor
    number: Tensor
    theta: Tensor
    which: Tensor

    def is_before(self, place: Place, which: int) -> Tensor:
        """Whether the solution has ended before an event, in the same step."""
        later = (place.theta > self.theta) | ((place.theta == self.theta) & (self.which < which))
        return self.ended & (place.number == self.number) & later


def _end(watcher: Watcher, places: list[list[Place]]) -> _End | None:
    """The event that ends the solution: the first of those that may, in the last step."""
    end: _End | None = None
    for which, (most, row) in enumerate(zip(watcher.most, places, strict=True)):
        if not most or len(row) < most:
            continue
        place = row[most - 1]
        met = ad.ones((), dtype=ad.bool) if place.met is None else place.met
        number = ad.as_tensor(place.number)
        here = ad.tensor(which)
        if end is None:
            end = _End(met, number, place.theta, here)
            continue
        closer = met & (~end.ended | (place.theta < end.theta))
        end = _End(
            end.ended | met,
            ad.where(closer, number, end.number),
            ad.where(closer, place.theta, end.theta),
            ad.where(closer, here, end.which),
        )
    return end


def _theta(function: Callable[..., Tensor], piece: Piece) -> Tensor:
    def value(theta: Tensor) -> Tensor:
        return function(piece.t + theta * piece.h, piece.part(theta)).detach().to(theta.dtype)

    return crossing(value, piece.y)


def _time(function: Callable[..., Tensor], place: Place, name: str) -> Tensor:
    """The time of an event, which is that of the middle of a step where it is not met."""
    piece, met = place.piece, place.met
    plain = piece.detached()
    theta = place.theta if met is None else ad.where(met, place.theta, 0.5)
    start = plain.t + theta * plain.h

    def event(t: Tensor) -> Tensor:
        return function(t[0], piece.at(t[0])).reshape(1)

    def residual(t: Tensor) -> Tensor:
        # What is not met has a time of its own, whose derivatives are zero and not NaN.
        made = event(t)
        return made if met is None else ad.where(met, made, t - start)

    found = answer(residual, start.detach()[None])[0]
    if not ad._core._is_recording() and (found.requires_grad or has_tangent(found)):
        _warn_if_it_grazes(event, place, start, name)
    return found


def _warn_if_it_grazes(
    event: Callable[[Tensor], Tensor], place: Place, at: Tensor, name: str
) -> None:
    """The derivative of the time divides by how fast the event passes zero."""
    with ad.no_grad():
        piece = place.piece.detached()
        near = 1e-3 * piece.h
        first, last = (event(t[None]).detach()[0] for t in (piece.t, piece.t + piece.h))
        beside = (event((at + near)[None]) - event((at - near)[None])).detach()[0]
        grazes = beside.abs() <= 1e-5 * (last - first).abs()
        if place.met is not None:
            grazes = grazes & place.met
    if somewhere(grazes):
        where = "for a sample" if ad._core._batch_level((grazes,)) else f"at t = {float(at):.6g}"
        warnings.warn(
            f"solve_ivp(): the event {name} hardly passes zero {where}, but grazes it: "
            "the derivative of its time is not defined there, or lost in rounding\n"
            "  fix: an event whose value changes where it is zero",
            stacklevel=2,
        )


def _padded(at: list[Tensor], row: list[Place], like: Tensor) -> Tensor:
    if not at:
        return ad.empty(0, dtype=like.dtype)
    return ad.stack(
        [t if p.met is None else _nan_unless(p.met, t) for p, t in zip(row, at, strict=True)]
    )


def _states(vectors: list[Tensor], row: list[Place], unknowns: Unknowns) -> Any:
    made = [
        unknowns.tree(v if p.met is None else _nan_unless(p.met, v))
        for p, v in zip(row, vectors, strict=True)
    ]
    plain = made and all(isinstance(state, Tensor) for state in made)
    return ad.stack(made) if plain else made


def _nan_unless(met: Tensor, t: Tensor) -> Tensor:
    return ad.where(met, t, ad.nan)
