"""The function along one direction: what it does beside what its derivative says it does.

Note [What a line tells]. Along x + t·d, with steps t that halve, three numbers are looked at for a
combination w of the outputs, φ = w·f, with the gradient g that backward gives for it:

- e(t) = (φ(x+td) - φ(x-td) - g·(the way between)) / 2t, the error of the derivative as differences
  see it. For a right derivative it falls like t² until rounding makes it rise like 1/t: a V. For a
  wrong one it stops at the error.
- s(t) = |φ(x+td) - 2φ(x) + φ(x-td)|: falls like t² where φ is smooth, like t if x is a kink, not at
  all if φ jumps there, and ends at the noise of φ, whatever that comes from.
- the estimate: e at the step (or extrapolated from two) where what changes between neighbouring
  steps and the noise over t are together the smallest; that sum is its uncertainty.

"The way between" is taken after rounding to the inputs' dtypes, so that float32 inputs do no harm.
Read next: _search.py, _run.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adjoint.autograd._gradcheck.numerical import CENTRAL, FORWARD
from adjoint.autograd._gradcheck.problem import Vector
from adjoint.numeric._richardson import extrapolated

from ._subject import Subject, Weight, dot

__all__ = ["Estimate", "Line", "Shape"]

LARGEST = 2  # t = 2**-2 is the largest step
WINDOW = 5  # halvings over which noise does not fall


class Sample(NamedTuple):
    """Both sides at one step, for every weight: changes of the values, and those predicted."""

    t: float
    plus: Vector
    minus: Vector
    plus_said: Vector
    minus_said: Vector


class Estimate(NamedTuple):
    """The error of the derivative along a line, and how well it is known."""

    error: float  # differences minus derivative
    doubt: float
    level: int  # the step is 2**-level
    said: float  # what the derivative says

    @property
    def slope(self) -> float:
        """What differences say."""
        return self.said + self.error


@dataclass(frozen=True)
class Shape:
    """What is special about the function on a line."""

    kind: str  # "smooth", "kink", "jump" or "noisy"
    amount: float = 0.0  # of a kink: the difference of the slopes; of a jump: its height
    left: float = 0.0
    right: float = 0.0
    near: float | None = None  # a kink or jump at about this step away


class Line:
    """Evaluates along a direction, each step once; ``noise`` is that of every weight."""

    def __init__(
        self,
        subject: Subject,
        direction: Vector,
        weights: Sequence[Weight],
        noise: Vector | None = None,
    ) -> None:
        self.subject = subject
        self.direction = direction
        self.weights = weights
        self.last = levels(subject.unit)
        self._samples: dict[int, Sample] = {}
        self._known = noise
        self._noise: Vector | None = None
        self._along = [dot(w.gradient, direction) for w in weights]

    # --- values ---------------------------------------------------------------------------------

    def at(self, level: int) -> Sample:
        """Both sides at t = 2**-level."""
        if level not in self._samples:
            t = 2.0**-level
            subject = self.subject
            sides = []
            for sign in (t, -t):
                point, value = subject.near(subject.at + sign * self.direction)
                with np.errstate(all="ignore"):
                    change, moved = value - subject.value, point - subject.at
                    sides.append((self._combine(change), self._said(moved)))
            (plus, plus_said), (minus, minus_said) = sides
            self._samples[level] = Sample(t, plus, minus, plus_said, minus_said)
        return self._samples[level]

    def _combine(self, change: Vector) -> Vector:
        parts = (self.subject.y.part(w.output) for w in self.weights)
        return np.array(
            [dot(change[part], w.vector) for part, w in zip(parts, self.weights, strict=True)]
        )

    def _said(self, moved: Vector) -> Vector:
        return np.array([dot(w.gradient, moved) for w in self.weights])

    def sweep(self) -> list[Sample]:
        """All steps, the largest first."""
        return [self.at(level) for level in range(LARGEST, self.last + 1)]

    # --- noise ----------------------------------------------------------------------------------

    @property
    def noise(self) -> Vector:
        """How much the values of each combination are uncertain; from a sweep if not given."""
        if self._noise is None:
            least = np.array([self._least(w) for w in range(len(self.weights))])
            if self._known is not None:
                self._noise = np.maximum(least, self._known)
            else:
                samples, halfway = self.sweep(), round(0.57 * self.last) - LARGEST
                found = [_plateau(samples, w, halfway) for w in range(len(self.weights))]
                self._noise = np.maximum(least, found)
        return self._noise

    def _least(self, w: int) -> float:
        """What is noise by construction: rounding, and the error of values by differences."""
        return max(self.subject.unit, self.subject.rough) * self.weights[w].size

    # --- the error of the derivative ------------------------------------------------------------

    def errors(self, level: int, w: int, side: int) -> float:
        """e(t): by both sides (0), or by one (+1, -1)."""
        s = self.at(level)
        with np.errstate(all="ignore"):
            if side == 0:
                ends = (s.t, -s.t)
                seen = CENTRAL.combine(ends, (s.plus[w], s.minus[w]), 0.0)
                return float(seen - CENTRAL.combine(ends, (s.plus_said[w], s.minus_said[w]), 0.0))
            if side > 0:
                return float(FORWARD.combine((s.t,), (s.plus[w],), s.plus_said[w]))
            return float(FORWARD.combine((s.t,), (s.minus_said[w],), s.minus[w]))

    def _side(self, w: int) -> int:
        """Both sides where the function is defined on both."""
        probe = [self.at(k) for k in (LARGEST + 4, self.last // 2, self.last)]
        plus = any(math.isfinite(s.plus[w]) for s in probe)
        minus = any(math.isfinite(s.minus[w]) for s in probe)
        return 0 if plus == minus else (1 if plus else -1)

    def candidates(self, level: int, w: int, side: int) -> list[Estimate]:
        """Estimates from the steps at ``level`` and its two neighbours: plain, extrapolated."""
        order = 4.0 if side == 0 else 2.0
        a, b, c = (self.errors(k, w, side) for k in (level - 1, level, level + 1))
        grain = float(self.noise[w]) * 2.0 ** (level + 1)
        said = self._along[w]
        wide, narrow = extrapolated(b, a, order), extrapolated(c, b, order)
        found = (
            Estimate(c, max(abs(b - c), abs(a - b) / 2) + grain, level + 1, said),
            Estimate(narrow, abs(narrow - wide) + 2 * grain, level + 1, said),
        )
        return [f for f in found if math.isfinite(f.error) and math.isfinite(f.doubt)]

    def estimate(self, w: int, start: int | None = None, enough: float = 0.0) -> Estimate | None:
        """The best estimate: among all steps, or walking from ``start`` until ``enough``."""
        if start is None:
            self.sweep()
            side = self._side(w)
            every = range(LARGEST + 1, self.last)
            best = _trusted([c for k in every for c in self.candidates(k, w, side)])
        else:
            best = self._walk(w, min(max(start, LARGEST + 1), self.last - 1), enough)
        clear = best is not None and abs(best.error) > 10 * best.doubt
        if not clear and self._is_step(w):
            return Estimate(0.0, 0.0, self.last, 0.0)
        return best

    def _is_step(self, w: int) -> bool:
        """Whether the function is constant nearby, as a derivative of zero says it is."""
        with np.errstate(invalid="ignore"):
            if np.any(self.weights[w].gradient * self.direction):
                return False
        near = [self.at(level) for level in (self.last - 4, self.last - 2, self.last)]
        return all(s.plus[w] == 0 == s.minus[w] for s in near)

    def bottom(self, w: int) -> Estimate | None:
        """The best that plain differences give: the bottom of the V."""
        self.sweep()
        side = self._side(w)
        found = [c[0] for k in range(LARGEST + 1, self.last) if (c := self.candidates(k, w, side))]
        return _trusted(found)

    def _walk(self, w: int, level: int, enough: float) -> Estimate | None:
        side = 0
        s = self.at(level)
        if not (math.isfinite(s.plus[w]) and math.isfinite(s.minus[w])):
            side = self._side(w)
        best: Estimate | None = None
        seen: set[int] = set()
        while level not in seen and LARGEST < level < self.last and len(seen) < 14:
            seen.add(level)
            here = min(self.candidates(level, w, side), key=lambda c: c.doubt, default=None)
            if here is not None and (best is None or here.doubt < best.doubt):
                best = here
            if best is not None and (
                best.doubt <= enough or abs(best.error) > 30 * best.doubt + 30 * enough
            ):
                break
            grain = float(self.noise[w]) * 2.0 ** (level + 1)
            level += -3 if here is not None and here.doubt < 4 * grain else 3
        return best

    def unresolved(self, w: int, found: Estimate) -> bool:
        """Whether what contradicts the derivative may be no slope of the function at all.

        Values that scatter as much as they change at all may be noise, or a wave that is shorter
        than the steps, and then differences say nothing; but a function that is constant nearby
        is neither. A wave is certain if the smallest steps agree with the derivative. And a small
        error that the smallest steps see, where larger ones agreed, is the rounding of something
        inside the function.
        """
        samples, said, error = self.sweep(), abs(self._along[w]), abs(found.error)
        if not any(s.plus[w] != 0 or s.minus[w] != 0 for s in samples[-3:]):
            return False
        if float(self.noise[w]) >= 0.1 * _spread(samples, w):
            return True
        side = self._side(w)
        if error > 0.5 * said:
            last = range(max(found.level, self.last - 2) + 1, self.last + 1)
            return len(last) == 2 and self._agrees(last, w, side, 0.3 * said)
        late = error <= 1e-2 * said and found.level > 0.8 * self.last
        return late and self._agrees(range(LARGEST, found.level), w, side, 0.3 * error, 3)

    def _agrees(self, levels: range, w: int, side: int, error: float, run: int = 2) -> bool:
        """Whether so many steps in a row see no larger error."""
        seen = 0
        for level in levels:
            seen = seen + 1 if abs(self.errors(level, w, side)) <= error else 0
            if seen == run:
                return True
        return False

    # --- shape ----------------------------------------------------------------------------------

    def shape(self, w: int) -> Shape:
        """Whether the input is a kink or a jump on this line, or the function noisy."""
        samples = self.sweep()
        least = self._least(w)
        noise = float(self.noise[w])
        jump = _jump(samples, w, least)
        if jump is not None:
            return jump
        bends = [abs(float(s.plus[w] + s.minus[w])) for s in samples]
        clear = [
            (s, bend)
            for s, bend in zip(samples, bends, strict=True)
            if math.isfinite(bend) and bend > 8 * noise
        ]
        slopes = [bend / s.t for s, bend in clear[-4:]]
        if len(slopes) == 4 and max(slopes) < 1.3 * min(slopes):
            s = clear[-4][0]
            left, right = 0.0 - float(s.minus[w]) / s.t, 0.0 + float(s.plus[w]) / s.t
            return Shape("kink", slopes[-1], left, right)
        near = _fall(samples, bends, noise)
        if noise > 300 * max(least, self.subject.unit * _spread(samples, w)):
            return Shape("noisy", noise, near=near)
        return Shape("smooth", near=near)


def _trusted(found: list[Estimate]) -> Estimate | None:
    """The estimate of least doubt, unless a smaller step clearly contradicts it.

    Steps that are large compared with what the function does there agree with one another about
    something else: the chord over an oscillation or a peak.
    """
    best = min(found, key=lambda c: c.doubt, default=None)
    while best is not None:
        apart = [
            c
            for c in found
            if c.level > best.level and abs(c.error - best.error) > 10 * (c.doubt + best.doubt)
        ]
        if not apart:
            break
        best = min(apart, key=lambda c: c.doubt)
    return best


def levels(unit: float) -> int:
    """The level of the smallest step that is looked at: an eighth of the digits are left."""
    return max(LARGEST + WINDOW + 2, round(-0.87 * math.log2(unit)))


def _plateau(samples: list[Sample], w: int, halfway: int) -> float:
    """Where s(t) stops falling; see Note [What a line tells].

    Sought from the smallest step upwards, since a function that oscillates is flat at large ones.
    But a plateau that is left only at steps near the rounding of the inputs (beyond ``halfway``) is
    noise: between two roundings inside the function there is a smooth piece of something else.
    """
    bends = np.array([abs(s.plus[w] + s.minus[w]) for s in samples])
    bends = np.where(np.isfinite(bends), bends, 0.0)
    ahead = np.maximum.accumulate(bends[::-1])[::-1]  # the largest at this step or a smaller one
    runs: list[list[int]] = []
    for k in range(len(ahead) - WINDOW):
        if ahead[k] < 8 * ahead[k + WINDOW]:
            if runs and k - runs[-1][-1] <= 3:
                runs[-1].append(k)
            else:
                runs.append([k])
    if not runs:
        return _last_bend(samples, w, ahead)
    if runs[-1][-1] + WINDOW < len(ahead) - 3:  # it falls again, to the end
        early = runs[-1][-1] + WINDOW <= halfway
        return _last_bend(samples, w, ahead) if early else float(ahead[runs[-1][0]])
    if len(runs) > 1 and runs[-2][-1] + WINDOW > halfway:
        return float(ahead[runs[-2][0]])
    return float(ahead[runs[-1][0]])


def _last_bend(samples: list[Sample], w: int, ahead: Vector) -> float:
    """The noise where s(t) falls until nothing is left: it is straight there, or constant."""
    rest = [s for s, bend in zip(samples, ahead, strict=True) if bend == 0]
    moves = any(s.plus[w] != 0 and math.isfinite(s.plus[w]) for s in rest)
    if not rest:
        return float(ahead[-1])
    if moves or len(rest) == len(samples):
        return 0.0
    return float(ahead[max(0, len(samples) - len(rest) - WINDOW)])  # the height of its steps


def _jump(samples: list[Sample], w: int, least: float) -> Shape | None:
    """A change that stays the same however small the step, on one side at least."""
    tail = samples[-8:]
    for side in ("plus", "minus"):
        changes = np.array([getattr(s, side)[w] for s in tail])
        size = np.abs(changes)
        if not np.isfinite(size).all() or size.min() <= 1e3 * least:
            continue
        if size.max() < 1.05 * size.min() and abs(changes.sum()) > 0.9 * size.sum():
            sides = [float(getattr(tail[-1], name)[w]) for name in ("minus", "plus")]
            return Shape("jump", float(np.median(size)), *sides)
    return None


def _fall(samples: list[Sample], bends: list[float], noise: float) -> float | None:
    """A step at which s(t) falls off a cliff: something is passed there."""
    for k in range(len(bends) - 2):
        a, b, c = bends[k : k + 3]
        if a > 1e3 * noise and a > 40 * b and c < 1.5 * max(b, noise):
            return samples[k].t
    return None


def _spread(samples: list[Sample], w: int) -> float:
    values = np.array([s.plus[w] for s in samples])
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
