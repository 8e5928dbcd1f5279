"""Second derivatives with an estimate of their error: other steps where it is large, or a word.

A product by the usual steps has two errors. Its rounding is known (_roughness.py); that it is no
other one by other steps is seen along one more direction. Where either is too large, it is taken
at two longer steps h and 2h and extrapolated, A(h) + (A(h) - A(2h)) / 3: an error of fourth order
allows steps of noise**(1/6), with far less rounding, and what the two are apart tells of the rest.

What is too large is relative to the largest second derivative: by itself, and with every input in
units of its length. A hundredth of the slopes in those units counts as one, or functions that are
nearly linear would be warned of for no more than rounding. Read next: _second.py.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from ._errors import EvaluationError
from ._second import Curvature, Product

__all__ = ["FLAT", "TRIES", "SecondDerivatives", "accuracy", "warn_of_second"]

TRIES = 4  # pairs of steps for an extrapolation, at most
_GOAL = 0.2  # of what is allowed: no other steps are tried
_SURE = 4.0  # standard deviations of rounding
_LEAST, _TIMES = 1e-5, 30.0  # what is accurate enough: so much, or so many noise**0.5
FLAT = 0.01  # of a slope: counts as a second derivative
_OTHER = 0.01  # of the largest output: what an output counts as
_SHORTER = 0.3  # steps of the check
_UNSEEN = 4.0  # times what one direction shows: errors may cancel there
_UNLIKE = 30.0  # times: lengths that one check does not serve
_LONGEST = 0.1  # of the length: a step of an extrapolation
_FASTER = 3.0  # than the share of the second order falls that of the fourth


def accuracy(noise: float) -> float:
    """The relative error of second derivatives that nobody is warned of."""
    return float(max(_LEAST, _TIMES * noise**0.5))


class Judged(NamedTuple):
    """A second derivative and how far it may be off."""

    value: Any
    doubt: float
    noisy: bool  # whether that is because of rounding
    step: float  # of an extrapolation; of one to try next
    second: float = 0.0  # how far apart the two are of which an extrapolation is made


class SecondDerivatives:
    """The second derivatives of a function at one point, as exact as they can be had."""

    def __init__(self, curvature: Curvature, allowed: float) -> None:
        self.curvature, self.allowed = curvature, allowed
        # In float64 more is asked for than a function of float32 is warned of.
        self.goal = _GOAL * accuracy(curvature.steps.noise)
        self.careful = False  # whether a check along one direction is not enough
        self.step: float | None = None  # of an extrapolation, where that is what suits
        self._with: dict[float, Curvature] = {}
        self._whole: dict[float, Any] = {}

    def fits(self, direction: Any) -> bool:
        """Whether all places are inside the bounds."""
        return self.curvature.fits(direction)

    def pull(self, u: Any, w: Any) -> tuple[Any, bool]:
        """The derivative of J'u along w; and whether it is known to be accurate."""
        return self._found(_Pull(u, w, self.curvature))

    def push(self, v: Any, w: Any) -> tuple[Any, bool]:
        """The derivative of Jv along w, likewise."""
        return self._found(_Push(v, w, self.curvature, self._whole))

    def _found(self, asked: _Pull | _Push) -> tuple[Any, bool]:
        plain = self._plain(asked) if self.step is None else None
        step = (self.step or 0.0) if plain is None else plain.step
        if plain is not None and not asked.moves(self.curvature):
            return plain.value, True  # flat, whatever there is farther away
        if plain is not None and self.careful:
            plain = None
        elif plain is not None and plain.doubt <= self.goal:
            return plain.value, True
        made = self._tried(asked, step)
        if not made:
            plain = plain or self._plain(asked)
            return plain.value, plain.doubt <= self.allowed
        doubts = [self._doubt(asked, one, made) for one in made]
        best = int(np.argmin(doubts))
        if plain is not None:
            # Its error of second order is what the two would be apart by its steps.
            shorter = [one.second / 3 * (self.curvature.size / one.step) ** 2 for one in made]
            if max(plain.doubt, *shorter) <= doubts[best]:
                return plain.value, max(plain.doubt, *shorter) <= self.allowed
        self.step = made[best].step
        return made[best].value, doubts[best] <= self.allowed

    def _tried(self, asked: _Pull | _Push, step: float) -> list[Judged]:
        """Extrapolations, until one of them will do."""
        made: list[Judged] = []
        for _ in range(TRIES):
            one = self._extrapolated(asked, step)
            if one is not None:
                made.append(one)
                if one.doubt <= self.goal or (one.noisy and step >= _LONGEST):
                    break
            noisy = one is not None and one.noisy
            step = min(2.5 * step, _LONGEST) if noisy else step / 5
        return made

    def _doubt(self, asked: _Pull | _Push, one: Judged, made: list[Judged]) -> float:
        """How far one may be off, knowing those by shorter steps."""
        at = self._at(one.step)
        return max(
            asked.judge(at, one.value, other.value - one.value) - other.doubt
            if other.step < one.step
            else one.doubt
            for other in (*made, one)
        )

    def _plain(self, asked: _Pull | _Push) -> Judged:
        """By the steps of second differences, and a check along one more direction."""
        at = self.curvature
        found = asked.of(at)
        gap = asked.gap(at, found.value)
        rounding = asked.judge(at, found.value, _SURE * found.rounding)
        if gap is None:
            return Judged(found.value, np.inf, True, at.size)
        if gap > 10 * rounding:  # steps are too long, by far perhaps
            return Judged(found.value, gap, False, at.size)
        # Both errors of an extrapolation are about alike.
        step = float(np.clip((rounding * at.size**2) ** (1 / 6) / 2, at.size, _LONGEST))
        return Judged(found.value, max(gap, rounding), True, step)

    def _at(self, step: float) -> Curvature:
        if step not in self._with:
            self._with[step] = self.curvature.with_steps(step / self.curvature.size)
        return self._with[step]

    def _extrapolated(self, asked: _Pull | _Push, step: float) -> Judged | None:
        near, far = self._at(step), self._at(2 * step)
        if not far.fits(asked.reach):
            return None
        try:
            with np.errstate(all="ignore"):
                one, two = asked.of(near), asked.of(far)
        except EvaluationError:
            return None
        if not np.isfinite(one.value[np.isfinite(two.value)]).all():
            return None
        if not asked.moves(near):
            return None  # between two steps of a staircase
        apart = one + two.times(-1.0)
        found = one + apart.times(1 / 3)
        rounding = np.hypot(one.rounding * 4 / 3, two.rounding / 3)
        beyond = np.maximum(np.abs(apart.value) - apart.rounding, 0.0)
        noise = asked.judge(near, found.value, _SURE * rounding)
        second = asked.judge(near, found.value, beyond)
        fourth = second / 3 * min(1.0, _FASTER * second)
        return Judged(found.value, noise + fourth, noise > fourth, step, second)


class _Pull:
    """The derivative of J'u along w."""

    def __init__(self, u: Any, w: Any, usual: Curvature) -> None:
        self.u, self.w = u, w
        self.usual = usual  # by the steps of second differences
        self.reach = w

    def of(self, at: Curvature) -> Product:
        return at.pull(self.u, self.w)

    def judge(self, at: Curvature, value: Any, error: Any) -> float:
        """The largest error, relative to what counts."""
        scaled, plain = self._sizes(at, value)
        with np.errstate(all="ignore"):
            return _most(error / np.minimum(scaled, plain))

    def _sizes(self, at: Curvature, value: Any) -> tuple[Any, Any]:
        """What each entry is compared with: the largest in units of the lengths, and as it is."""
        slopes, diagonal = at.sizes(self.u)
        if at is not self.usual and self.usual.has_sides:
            # What longer steps lead across (a jump) makes none of these large.
            diagonal = np.fmin(np.abs(diagonal), np.abs(self.usual.sizes(self.u)[1]))
        length, along = at.length, at.along(self.w, at.length)
        with np.errstate(all="ignore"):
            units, flat = length * along, FLAT * np.abs(slopes * length)
            scaled = max(_most(value * units), _most(diagonal * length**2)) + _most(flat)
            plain = max(_most(value), _most(diagonal) * _most(self.w))
            mine = np.fmax(flat, FLAT * _most(slopes * self.w) * along)
            return scaled / units, plain + mine / units

    def moves(self, at: Curvature) -> bool:
        """Whether anything has moved by the steps that were taken, if it could."""
        return not self.u.any() or any(_most(sizes) > 0 for sizes in at.sizes(self.u))

    def gap(self, at: Curvature, value: Any) -> float | None:
        """How far it is from a difference along one more direction, with other steps."""
        rng = np.random.default_rng(at.seed)
        n = at.point.inputs.size
        signs = rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1, n)
        used = (self.u != 0) & at.point.finite
        if not used.any():
            return 0.0
        length = at.furthest()
        scaled, plain = self._sizes(at, value)
        size = float(np.max(scaled * at.length))
        gaps = [self._apart(at, value, length * signs, used, size)]
        if np.min(length) * _UNLIKE < np.max(length):  # each entry has to be seen as it is, too
            gaps.append(self._apart(at, value, signs, used, float(np.max(plain))))
        return None if None in gaps else max(g for g in gaps if g is not None)

    def _apart(self, at: Curvature, value: Any, r: Any, used: Any, size: float) -> float | None:
        try:
            theirs = self.u[used] @ at.with_steps(_SHORTER).push(r, self.w).value[used]
        except EvaluationError:
            return None  # it may leave the domain where no step of ours does
        gap = abs(float(r @ value) - float(theirs))
        return _UNSEEN * gap / size if gap > 0 else 0.0


class _Push:
    """The derivative of Jv along w."""

    def __init__(self, v: Any, w: Any, usual: Curvature, whole: dict[float, Any]) -> None:
        self.v, self.w = v, w
        self.usual = usual
        self.reach = np.abs(v) + np.abs(w)
        self.whole = whole  # by the steps: what outputs bend altogether
        self._seen: dict[float, Any] = {}

    def of(self, at: Curvature) -> Product:
        return at.push(self.v, self.w)

    def judge(self, at: Curvature, value: Any, error: Any) -> float:
        """The largest error, relative to what counts for its output."""
        units = at.along(self.v, at.length) * at.along(self.w, at.length)
        with np.errstate(all="ignore"):
            seen = np.fmin(self._sizes(at), self._sizes(self.usual))
            size = np.fmax(np.abs(value) * units, seen)
            return _most(error * units / np.fmax(size, _OTHER * _most(size)))

    def _sizes(self, at: Curvature) -> Any:
        """What counts along either direction, and along one of all inputs."""
        if at.size not in self._seen:
            if at.size not in self.whole:
                n = at.point.inputs.size
                signs = np.random.default_rng(at.seed).choice([-1.0, 1.0], n)
                self.whole[at.size] = at.sizes_along(at.length * signs, FLAT)
            sizes = [at.sizes_along(d, FLAT) for d in (self.v, self.w)]
            self._seen[at.size] = np.fmax.reduce([*sizes, self.whole[at.size]])
        return self._seen[at.size]

    def moves(self, at: Curvature) -> bool:
        """Whether anything has moved by the steps that were taken."""
        return _most(self._sizes(at)) > 0

    def gap(self, at: Curvature, value: Any) -> float | None:
        """How far it is from the same with other steps."""
        try:
            theirs = at.with_steps(_SHORTER).push(self.v, self.w).value
        except EvaluationError:
            return None
        with np.errstate(invalid="ignore"):
            return self.judge(at, value, np.abs(value - theirs))


def _most(values: Any) -> float:
    """The largest magnitude that is a number."""
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def warn_of_second(name: str, allowed: float) -> None:
    """Say that second derivatives are not to be trusted."""
    warnings.warn(
        f"{name}: its second derivative may be wrong, by more than {allowed:.0e} of its largest "
        "entry: differences with other steps lead to another one, or it is lost in rounding. The "
        "function may have jumps or kinks near this input, or too much noise.\n"
        "  fix: noise= (how far its outputs are off), scale= (over which length it changes), "
        "float64, or give jacobian= or vjp=",
        stacklevel=2,
    )
