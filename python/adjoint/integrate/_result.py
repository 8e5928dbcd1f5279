"""What `solve_ivp` returns, made of a solution and of what was seen of events."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import batch_of, is_batched, must_hold
from adjoint.optimize._unknowns import Unknowns

from ._control import Plan
from ._events import Found, Place, found_events
from ._gradients import Choice
from ._methods import Method
from ._problem import OdeResult
from ._trajectory import Trajectory
from ._watch import Watch, Watcher
from ._ways import Path

__all__ = [
    "as_trees",
    "before_the_end",
    "check_room",
    "missed",
    "nan_after",
    "places_for",
    "result",
]


def result(
    path: Path,
    plan: Plan,
    unknowns: Unknowns,
    watcher: Watcher | None,
    max_events: int | None,
    t_eval: Any,
    dense: bool,
    method: Method,
    way: Choice,
) -> OdeResult:
    """The result of an eager call."""
    found, is_padded = None, False
    if watcher is not None:
        assert isinstance(path, Trajectory)  # as of all solutions with events
        found, is_padded = _events(path, plan, unknowns, watcher, max_events)
    ended = None if found is None else found.ended
    if t_eval is None:
        times, states = _at_steps(path, found, is_padded)
    else:
        times, states = _at_times(path, plan, found, is_padded, t_eval, method)
    tried = plan.steps + plan.rejected
    return OdeResult(
        t=times,
        y=as_trees(states, unknowns),
        sol=(lambda t: as_trees(path.at(ad.as_tensor(t, dtype=states.dtype)), unknowns))
        if dense
        else None,
        t_events=None if found is None else found.times,
        y_events=None if found is None else found.states,
        nfev=method.slopes * tried + 3,
        njev=method.matrices * tried,
        nlu=method.matrices * tried,
        nsteps=plan.steps,
        rejected=plan.rejected,
        status=plan.status if ended is None or not is_padded else ended.to(ad.int64),
        message=plan.message,
        success=True,
        method=method.name,
        gradient=way.name,
        gradient_reason=way.reason,
        events_missed=missed(watcher, plan.watch, plan.times[0], plan.times[-1]),
    )


def places_for(watcher: Watcher, max_events: int | None) -> list[int | None]:
    """How many places each event has, where that is known beforehand."""
    return [most or max_events for most in watcher.most]


def check_room(watcher: Watcher, watch: Watch, places: list[int]) -> None:
    """Raise if an event happened more often than there are places for."""
    room = ad.tensor(places, dtype=ad.int64)

    def error(_: Tensor, counts: Tensor) -> ValueError:
        rows = counts.reshape(-1, len(places))
        row, k = ad.nonzero(rows > room)[0].tolist()
        return ValueError(
            f"solve_ivp(): the event {watcher.names[k]} happens {int(rows[row, k])} times, more "
            f"than max_events={places[k]}\n  fix: a larger max_events="
        )

    must_hold(watch.counts <= room, error, watch.counts)


def _events(
    path: Trajectory, plan: Plan, unknowns: Unknowns, watcher: Watcher, max_events: int | None
) -> tuple[Found, bool]:
    watch = plan.watch
    assert watch is not None
    is_padded = max_events is not None or is_batched(watch.counts, path.states)
    if plan.rows is None:
        return _none(path, unknowns, places_for(watcher, max_events), is_padded), is_padded
    hits = plan.rows.watched[0]
    if not is_padded:
        numbers = [ad.nonzero(hits[:, e])[:, 0] for e in range(hits.shape[1])]
        rows = [
            [Place(path.piece(int(k)), k, None, k) for k in row] if len(row) else []
            for row in numbers
        ]
        return found_events(watcher, rows, unknowns, False), False
    whole = batch_of(watch.counts).whole(watch.counts)
    largest = whole.reshape(-1, whole.shape[-1]).amax(0).tolist()
    places = [n or most for n, most in zip(places_for(watcher, max_events), largest, strict=True)]
    check_room(watcher, watch, places)
    ranks = hits.to(ad.int64).cumsum(0)
    rows = []
    for e, count in enumerate(places):
        rows.append([])
        for j in range(count):
            here = hits[:, e] & (ranks[:, e] == j + 1)
            number = here.to(ad.int64).argmax(0)
            rows[e].append(Place(path.piece(number), number, here.any(), number))
    return found_events(watcher, rows, unknowns, True), True


def _none(path: Trajectory, unknowns: Unknowns, places: list[int | None], is_padded: bool) -> Found:
    """No events, as there are no steps."""
    counts = [n or 0 if is_padded else 0 for n in places]
    nothing = path.states[0].detach() * ad.nan
    times = [ad.full((n,), ad.nan, dtype=nothing.dtype) for n in counts]
    states = [[unknowns.tree(nothing) for _ in range(n)] for n in counts]
    plain = isinstance(unknowns.tree(nothing), Tensor)
    return Found(times, [ad.stack(s) if plain and s else s for s in states], None, None, None)


def _at_steps(path: Path, found: Found | None, is_padded: bool) -> tuple[Tensor, Tensor]:
    """The ends of steps, the last of which is the event that ended the solution."""
    times, states = path.times, path.states
    if found is None or found.last is None:
        return times, states
    assert isinstance(path, Trajectory) and found.until is not None and found.ended is not None
    last, n = found.last, states.shape[0] - 1
    if not is_padded:
        end = path.at_step(n - 1, last)
        return ad.cat([times[:-1], last[None]]), ad.cat([states[:-1], end[None]])
    k = ad.where(found.ended, found.until, n)
    index = ad.arange(n + 1)
    before, here = index <= k, index == k + 1
    end = path.at_step(found.until, last)
    times = ad.where(before, times, ad.where(here, last, ad.nan))
    states = ad.where(before[:, None], states, ad.where(here[:, None], end, ad.nan))
    return times, states


def _at_times(
    path: Path,
    plan: Plan,
    found: Found | None,
    is_padded: bool,
    t_eval: Any,
    method: Method,
) -> tuple[Tensor, Tensor]:
    times = ad.as_tensor(t_eval, dtype=path.times.dtype).reshape(-1)
    if found is None or found.last is None:
        return times, path.at(times) if method.between else _at_ends(path, times)
    assert isinstance(path, Trajectory)
    inside = before_the_end(times, found, path.forward)
    if not is_padded:
        times = times[: int(inside.sum())]
        return times, path.at(times)
    # Samples share the times: what lies after the end of all of them has no step.
    first, end = (ad.tensor(plan.times[k], dtype=times.dtype) for k in (0, -1))
    here = (times <= end) if path.forward else (times >= end)
    states = path.at(ad.where(here, times, first))
    return nan_after(times, states, inside)


def before_the_end(times: Tensor, found: Found, forward: Any) -> Tensor:
    """Which times lie before the event that ended the solution."""
    assert found.last is not None and found.ended is not None
    last, at = found.last.detach(), times.detach()
    return ~found.ended | ad.where(ad.as_tensor(forward), at <= last, at >= last)


def nan_after(times: Tensor, states: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """Times and states, NaN where the solution has ended before."""
    return ad.where(inside, times, ad.nan), ad.where(inside[:, None], states, ad.nan)


def missed(
    watcher: Watcher | None, watch: Watch | None, t0: float | None, t1: float | None
) -> list[str]:
    """That an event did not happen again, in words, for each."""
    if watcher is None or watch is None:
        return []
    plain = t0 is not None and not is_batched(watch.values)
    values = watch.values.tolist() if plain else watcher.names
    return [
        f"the event {name} was not met"
        + (f" between t = {t0:g} and {t1:g}, where its value is {value:.6g}" if plain else "")
        for name, value in zip(watcher.names, values, strict=True)
    ]


def _at_ends(path: Path, times: Tensor) -> Tensor:
    """The states at times that are those of the beginning or of the end."""
    if not times.numel():
        return path.states[:0]
    first = (times == path.times[0].detach()).tolist()
    return ad.stack([path.states[0 if on else -1] for on in first])


def as_trees(states: Tensor, unknowns: Unknowns) -> Any:
    """States in rows as the structure of the state, with time as the last axis of every tensor."""
    if states.ndim == 1:
        return unknowns.tree(states)
    if not len(states):
        return ad.map(lambda t: t.detach()[..., None][..., :0], unknowns.tree(unknowns.start))
    return unknowns.stacked(states)
