"""Events while steps are chosen: functions of time and state that are watched for zeros.

Nothing here depends on values but by operations, so that a watch runs inside the loops that choose
steps, in programs, and for all samples of a `vmap`. Where zeros lie within their steps is found
afterwards (``_events.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold
from adjoint.optimize._unknowns import Unknowns

__all__ = ["Watch", "Watcher"]

_NEVER = 1 << 62


class Watch(NamedTuple):
    """What was seen so far, of each sample.

    Attributes
    ----------
    values, counts
        Of the events at the end of the last step, and how often each has happened.
    steps
        How many steps there were.
    until, since
        The number of the step that an event has ended, and the time at its end.
    done
        Whether there is one.
    lost
        Whether the value of an event is not finite; nothing is watched from there on.
    """

    values: Tensor
    counts: Tensor
    steps: Tensor
    until: Tensor
    since: Tensor
    done: Tensor
    lost: Tensor


class Watcher:
    """The events of a call.

    Attributes
    ----------
    functions
        Of time and state, both as vectors have them.
    names
        For messages.
    most
        After how many of each the solution ends; zero: it does not.
    """

    def __init__(self, given: Any, unknowns: Unknowns, args: tuple[Any, ...]) -> None:
        events = [given] if callable(given) or not isinstance(given, (list, tuple)) else given
        events = [] if given is None else list(events)
        for e in events:
            if not callable(e):
                raise TypeError(f"solve_ivp(): an event is a function, not {type(e).__name__}")
        self.functions = [_flat(e, unknowns, args) for e in events]
        self.names = [getattr(e, "__name__", repr(e)) for e in events]
        self._directions = [float(getattr(e, "direction", 0)) for e in events]
        self.most = [int(getattr(e, "terminal", 0) or 0) for e in events]

    def __bool__(self) -> bool:
        return bool(self.functions)

    @property
    def may_end(self) -> bool:
        """Whether one of them ends the solution."""
        return any(self.most)

    def start(self, t: Tensor, y: Tensor) -> Watch:
        """Look at the beginning."""
        no, zero = ad.zeros((), dtype=ad.bool), ad.zeros((), dtype=ad.int64)
        counts = ad.zeros(len(self.functions), dtype=ad.int64)
        never = ad.full((), _NEVER, dtype=ad.int64)
        return Watch(self._values(t, y), counts, zero, never, t.clone(), no, no.clone())

    def after(self, watch: Watch, taken: Tensor, t: Tensor, y: Tensor) -> tuple[Watch, Tensor]:
        """Look at the end of an attempt: what is known then, and which events happened in it."""
        looks = taken & ~(watch.done | watch.lost)
        values = self._values(t, y)
        hits = self._hits(watch, values) & looks
        counts = watch.counts + hits.to(ad.int64)
        lost = watch.lost | (looks & ~ad.isfinite(values).all())
        most = ad.tensor(self.most, dtype=ad.int64)
        done = watch.done | (((most > 0) & (counts >= most)).any() & ~lost)
        ends = looks & (done | lost)
        after = Watch(
            ad.where(looks, values, watch.values),
            counts,
            watch.steps + taken.to(ad.int64),
            ad.where(ends, watch.steps, watch.until),
            ad.where(ends, t, watch.since),
            done,
            lost,
        )
        return after, hits

    def _hits(self, watch: Watch, b: Tensor) -> Tensor:
        a, direction = watch.values, ad.tensor(self._directions, dtype=b.dtype)
        up, down = (a <= 0) & (b > 0), (a >= 0) & (b < 0)
        passes = (up & (direction >= 0)) | (down & (direction <= 0))
        arrives = (b == 0) & (a != 0) & (direction * (b - a) >= 0)
        # A zero at the beginning of a step was found at the end of the one before, or stays zero.
        known = (a == 0) & ((watch.steps > 0) | (b == 0))
        return (passes | arrives) & ~known

    def must_be_sound(self, watch: Watch) -> None:
        """Raise if the value of an event is not finite."""
        names = self.names

        def error(_: Tensor, values: Tensor, since: Tensor) -> ValueError:
            rows = values.reshape(-1, len(names))
            row, k = ad.nonzero(~ad.isfinite(rows))[0].tolist()
            at = since.reshape(-1)[row if since.ndim else 0]
            return ValueError(
                f"solve_ivp(): the event {names[k]} is {float(rows[row, k])} at t = {float(at):g}\n"
                "  fix: an event is finite along the solution"
            )

        samples = 0 * ad.isnan(watch.values[0])  # of all samples, a time for each
        must_hold(~watch.lost, error, watch.values, watch.since + samples)

    def _values(self, t: Tensor, y: Tensor) -> Tensor:
        made = ad.stack([f(t, y) for f in self.functions])
        return made.to(y.dtype).detach()


def _flat(
    event: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...]
) -> Callable[..., Tensor]:
    def flat(t: Tensor, v: Tensor) -> Tensor:
        return ad.as_tensor(event(t, unknowns.tree(v), *args)).reshape(())

    return flat
