"""Second derivatives along a direction, by mixed differences of values.

The derivative of a Jacobian along w is made of the values at seven places: with a step a of some
inputs and a step b along w,

    a'f''b  =  (f(a+b) - f(a) - f(b) + 2 f(0) - f(-a) - f(-b) + f(-a-b)) / 2  +  fourth order.

The values at a and -a serve all directions. Rounding weighs by the product of both steps, so they
are longer than those of a first derivative: noise**(1/4) of the length over which the function
changes. That length is the magnitude of an input only as long as nothing better is known: for an
element that is small in its array, steps are lengthened while the slopes by it stay what they are:
output by output, since one that follows the element closely must not leave the others to rounding.
Every product comes with an estimate of its rounding, from the roughness of the function along a
line (_roughness.py). What is made of it, and what is warned of: _second_error.py. Read next:
_steps.py, _plan.py.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._coordinates import real_dtype
from ._errors import EvaluationError
from ._point import Move, Point
from ._roughness import roughness
from ._steps import Steps, grouped, root_mean_square
from ._tiny_elements import attempts

if TYPE_CHECKING:
    from ._sparse_jacobian import AnyPattern

__all__ = ["Curvature", "Effort", "Product", "effort_of"]

_SMALL = 0.3  # of the typical magnitude of an array: elements below may be stepped further
_RUNG = 10.0  # by which steps are lengthened
_ROUNDINGS = 16.0  # by which slopes may differ that are the same
_DECADES = 2.0  # within which inputs of one direction move together
_OF_SEVEN = 1.6  # roundings of one value in a sum over seven places: (10 / 4)**0.5
_OF_FOUR = 0.5  # the same of four corners: (4 / 16)**0.5


class Product(NamedTuple):
    """A second derivative along one or two directions, and its rounding: one standard deviation."""

    value: Any
    rounding: Any

    def __add__(self, other: Any) -> Product:
        return Product(self.value + other.value, np.hypot(self.rounding, other.rounding))

    def times(self, factor: float) -> Product:
        """A multiple."""
        return Product(factor * self.value, abs(factor) * self.rounding)


class Effort(NamedTuple):
    """What the sizes of elements make of the number of evaluations, at most."""

    rungs: int  # by which steps of small elements are lengthened
    reaches: int  # of one element: how many lengths its outputs may ask for
    parts: int  # of a direction whose elements are of one size
    first_parts: int  # the same for a first derivative, whose steps are not lengthened


def effort_of(arrays: Sequence[Any]) -> Effort:
    """For inputs with these magnitudes."""
    rungs, reaches, low, high = 0, 1, np.inf, 0.0
    sizes = []
    for array in arrays:
        size = np.abs(array[np.isfinite(array) & (array != 0)])
        typical = root_mean_square(size) if size.size else 1.0
        goal = max(typical, 1.0)
        size = np.where(np.isfinite(array) & (array != 0), np.abs(array), typical)
        small = size[size < _SMALL * goal]
        climbs = np.ceil(np.log(goal / small) / np.log(_RUNG))
        rungs += int(climbs.sum())
        reaches = max(reaches, 1 + int(np.max(climbs, initial=0)))
        low = min(low, float(np.min(size, initial=np.inf)))
        high = max(high, float(np.max(size, initial=0.0)), goal)
        sizes.append(size)
    spread = np.log10(high / low) if 0 < low <= high < np.inf else 0.0
    first = len(grouped(np.concatenate([np.zeros(0), *sizes]), _DECADES))
    return Effort(rungs, reaches, int(spread / _DECADES) + max(len(arrays), 1), max(first, 1))


class Reaches(NamedTuple):
    """Over which lengths one input may move, where they differ from output to output."""

    lengths: Any  # the shortest first
    of: Any  # for each output, which of them


def _reaches(lengths: Any, wide: float) -> Reaches | None:
    """The few lengths that suit all outputs; None where the shortest serves them as well."""
    if np.min(lengths, initial=np.inf) * _RUNG >= wide:
        return None
    levels: list[float] = []
    of = np.zeros(lengths.size, int)
    for k in np.argsort(lengths, kind="stable"):
        # The longest is for the outputs that all steps suit.
        if not levels or lengths[k] > 1.5 * _RUNG * levels[-1] or (lengths[k] >= wide > levels[-1]):
            levels.append(float(lengths[k]))
        of[k] = len(levels) - 1
    return Reaches(np.array(levels), of) if len(levels) > 1 else None


class Curvature:
    """The second derivatives of a function at one point.

    ``groups`` holds for each input the set it moves with: of one set no two share an output.
    ``rows`` and ``columns`` are the entries of the Jacobian; None if each input moves alone.
    ``length`` is how far each input may move for all outputs, ``further`` what else some outputs
    allow.
    """

    def __init__(
        self, point: Point, steps: Steps, length: Any, pattern: AnyPattern | None, seed: int
    ) -> None:
        self.point, self.steps, self.pattern, self.seed = point, steps, pattern, seed
        # Moves are rounded to the dtypes of the inputs, which shows like noise of the outputs.
        self.given = [float(np.finfo(real_dtype(d)).eps) for d in point.inputs.dtypes]
        self.noise = max(steps.rounding, *self.given)
        self.size = float(self.noise**0.25)  # of steps, in units of the length
        n = point.inputs.size
        self.groups = np.arange(n) if pattern is None else pattern.colours
        self.count = int(self.groups.max(initial=-1)) + 1
        # Over which distance each input may move before the function changes in kind.
        self.length = np.broadcast_to(length, (n,)) * steps.scale
        self.further: dict[int, Reaches] = {}
        self._sides: dict[tuple[int, int], list[Any]] = {}  # the values at both ends of a group
        self._rough: Any = None
        self._lengthen()

    # --- how far --------------------------------------------------------------------------------

    def _lengthen(self) -> None:
        """Find longer steps for small elements."""
        point = self.point
        wide = self.length.copy()
        for k in range(len(point.inputs.shapes)):
            part = point.inputs.part(k)
            inside = np.abs(point.x[part])
            used = inside[(inside > 0) & np.isfinite(inside)]
            if not used.size:
                continue
            typical = root_mean_square(used)
            # A factor that was found for the array holds for its typical element.
            factor = float(np.median(self.length[part] / self.steps.scale[part]))
            # Where all are small, as if 1.0 were among them.
            goal = factor * max(typical, 1.0)
            small = self.steps.free[part] & (self.length[part] < _SMALL * goal)
            wide[part] = np.where(small, goal, self.length[part])
        if self.pattern is not None:
            self._lengthen_entries(self.pattern, wide)
            return
        chosen = np.flatnonzero(wide > self.length)
        ways = {int(i): np.full(point.outputs.size, self.length[i]) for i in chosen}
        while chosen.size:
            chosen = self._climb(chosen, wide, ways)
        for i, lengths in ways.items():
            known = np.where(point.finite, lengths, wide[i])
            self.length[i] = np.min(known, initial=wide[i])
            if (reaches := _reaches(known, wide[i])) is not None:
                self.further[i] = reaches

    def _lengthen_entries(self, pattern: AnyPattern, wide: Any) -> None:
        """The same where inputs of a group move together: each has outputs of its own."""
        rows, columns = pattern.rows, pattern.columns
        shortest, chosen = self.length.copy(), wide > self.length
        way, finite, size = (
            self.length[columns],
            self.point.finite[rows],
            np.abs(self.point.y)[rows],
        )
        going = chosen.copy()
        while going.any():
            length = shortest.copy()
            np.maximum.at(length, columns, way)
            longer = np.minimum(length * _RUNG, wide)
            near, far = (self._entry_slopes(pattern, going, reach) for reach in (length, longer))
            with np.errstate(all="ignore"):
                rounding = self.noise * size / (self.size * length[columns])
                whole = np.maximum(np.abs(near), np.abs(far)) + size / longer[columns]
                same = np.abs(near - far) <= _ROUNDINGS * rounding + 4 * self.noise**0.5 * whole
            same &= going[columns] & (way == length[columns])
            left = going[columns] & finite & ~(np.isfinite(near) & np.isfinite(far))
            back = np.maximum(length / _RUNG, shortest)[columns]
            way = np.where(left, np.minimum(way, back), np.where(same, longer[columns], way))
            going = np.zeros_like(going)
            going[columns[same & finite]] = True
            going[columns[left]] = False
            going &= longer < wide
        known = np.where(finite, way, wide[columns])
        least, most = wide.copy(), np.zeros_like(wide)
        np.minimum.at(least, columns, known)
        np.maximum.at(most, columns, known)
        self.length = np.where(chosen, least, self.length)
        for i in map(int, np.flatnonzero(chosen & (most > least))):
            lengths, mine = np.full(self.point.outputs.size, wide[i]), columns == i
            lengths[rows[mine]] = known[mine]
            if (reaches := _reaches(lengths, wide[i])) is not None:
                self.further[i] = reaches

    def _entry_slopes(self, pattern: AnyPattern, chosen: Any, length: Any) -> Any:
        """The slopes of entries by some inputs; NaN where the function fails or has no room."""
        point, step = self.point, self.size * length
        up, down = (point.representable(point.x + s * step) for s in (1, -1))
        room = chosen & (self.steps.low <= down) & (up <= self.steps.high) & (down < up)
        found = np.full(len(pattern.rows), np.nan)
        used = np.unique(self.groups[room])
        moves: list[Move] = [
            (np.where(room & (self.groups == group), end, point.x), lambda: "x + steps")
            for group in used
            for end in (up, down)
        ]
        values = list(attempts(point, moves))
        for group, a, b in zip(used, values[::2], values[1::2], strict=True):
            if a is not None and b is not None:
                mine = (room & (self.groups == group))[pattern.columns]
                rows, columns = pattern.rows[mine], pattern.columns[mine]
                with np.errstate(all="ignore"):
                    found[mine] = (a - b)[rows] / (up - down)[columns]
        return found

    def _climb(self, chosen: Any, wide: Any, ways: dict[int, Any]) -> Any:
        """Lengthen the steps of some inputs by one rung; those that may go on for some output."""
        length = self.length.copy()  # as far as some output went
        for i in map(int, chosen):
            length[i] = ways[i].max()
        longer = np.minimum(length * _RUNG, wide)
        near, far = (self._slopes(chosen, reach) for reach in (length, longer))
        size = np.abs(self.point.y)
        going = []
        for k, i in enumerate(map(int, chosen)):
            a, b = near[k], far[k]
            if a is None or b is None or not np.isfinite(b[self.point.finite]).all():
                # The domain of some output ends there, and two steps at once may reach as far.
                ways[i] = np.minimum(ways[i], max(length[i] / _RUNG, self.length[i]))
                continue
            with np.errstate(all="ignore"):
                rounding = self.noise * size / (self.size * length[i])
                whole = np.maximum(np.abs(a), np.abs(b)) + size / longer[i]
                same = np.abs(a - b) <= _ROUNDINGS * rounding + 4 * self.noise**0.5 * whole
            same &= ways[i] == length[i]  # and not stopped before
            if (same & self.point.finite).any():
                ways[i][same] = longer[i]
                going.append(i)
        found = np.asarray(going, int)
        return found[longer[found] < wide[found]]

    def _slopes(self, chosen: Any, length: Any) -> list[Any]:
        """The slopes by some inputs; None where the function fails."""
        point, step = self.point, self.size * length
        up, down = (point.representable(point.x + s * step) for s in (1, -1))
        room = (self.steps.low <= down) & (up <= self.steps.high) & (down < up)
        asked = [int(i) for i in chosen if room[i]]
        moves: list[Move] = [(i, end[i]) for i in asked for end in (up, down)]
        values = list(attempts(point, moves))
        slopes = {
            i: None if a is None or b is None else (a - b) / (up[i] - down[i])
            for i, a, b in zip(asked, values[::2], values[1::2], strict=True)
        }
        return [slopes.get(int(i)) for i in chosen]

    # --- mixed differences ----------------------------------------------------------------------

    def fits(self, direction: Any) -> bool:
        """Whether all places are inside the bounds."""
        furthest = self.furthest()
        reach = self.size * (furthest + np.abs(direction) * self.along(direction, furthest))
        x = self.point.x
        return bool(((x - reach >= self.steps.low) & (x + reach <= self.steps.high)).all())

    def furthest(self) -> Any:
        """How far each input may move for some output."""
        length = self.length.copy()
        for i, reaches in self.further.items():
            length[i] = reaches.lengths[-1]
        return length

    def along(self, direction: Any, length: Any) -> float:
        """The length of a direction, in multiples of it."""
        used = direction != 0
        if not used.any():
            return 1.0
        return float(np.min(length[used] / np.abs(direction[used])))

    def _of_outputs(self, direction: Any) -> list[tuple[float, Any]]:
        """The lengths of a direction, in multiples of it, and for which outputs each one is."""
        outputs = self.point.outputs.size
        split = [i for i in self.further if direction[i]]
        whole = self.along(direction, self.furthest())
        if not split or not outputs:
            return [(self.along(direction, self.length), np.ones(outputs, bool))]
        lengths = np.full(outputs, whole)
        for i in split:
            reaches = self.further[i]
            lengths = np.minimum(lengths, reaches.lengths[reaches.of] / abs(direction[i]))
        found = _reaches(lengths, whole)
        if found is None:
            return [(float(lengths.min()), np.ones(outputs, bool))]
        return [(float(t), found.of == k) for k, t in enumerate(found.lengths)]

    def _ends(self, group: int, level: int) -> Any:
        length = self.length
        if level:
            length = length.copy()
            for i, reaches in self.further.items():
                length[i] = reaches.lengths[min(level, len(reaches.lengths) - 1)]
        return np.where(self.groups == group, self.size * length, 0.0)

    def _levels(self) -> list[tuple[int, int, Any]]:
        """Groups and lengths to move them by, and for which outputs; None stands for all."""
        made: list[tuple[int, int, Any]] = []
        split: dict[int, list[int]] = {}
        for i in self.further:
            split.setdefault(int(self.groups[i]), []).append(i)
        for group in range(self.count):
            of = np.zeros(self.point.outputs.size, int)
            for i in split.get(group, ()):
                rows = slice(None)
                if self.pattern is not None:  # of a group no two share an output
                    rows = self.pattern.rows[self.pattern.columns == i]
                of[rows] = self.further[i].of[rows]
            used = np.unique(of) if group in split else (0,)
            made += [(group, int(k), of == k if len(used) > 1 else None) for k in used]
        return made

    def _values(self, moves: Sequence[Any], what: str) -> list[Any]:
        point = self.point
        named: list[Move] = [(point.representable(point.x + m), lambda: what) for m in moves]
        return list(point.values(named, len(named)))

    def _parts(self, direction: Any) -> list[Any]:
        """Directions that add up to one, each of inputs whose steps along it are about as long.

        One input that has to be stepped closely must not shorten the steps of all.
        """
        used = np.flatnonzero(direction)
        if not used.size:
            return [direction]
        with np.errstate(all="ignore"):
            ratio = np.log10(self.length[used] / np.abs(direction[used]))
        place = np.floor((ratio - ratio.min()) / _DECADES)
        parts = []
        for k in np.unique(place):
            part = np.zeros_like(direction)
            part[used[place == k]] = direction[used[place == k]]
            parts.append(part)
        return parts

    def pull(self, u: Any, w: Any) -> Product:
        """The derivative of J'u along a direction."""
        parts = self._parts(w)
        return self._inside(lambda: _sum([self._pull(u, part) for part in parts]))

    def _inside(self, whole: Callable[[], Product]) -> Product:
        """What it gives, with less far steps where two at once leave the domain."""
        for kept in (_RUNG, np.inf):
            try:
                with np.errstate(all="ignore" if self.further else None):
                    return whole()
            except EvaluationError:
                if not self.further:
                    raise
                self._retreat(kept)
        return whole()

    def _retreat(self, by: float) -> None:
        """Shorten the steps that only some outputs allow."""
        self._sides = {}
        for i, (lengths, of) in list(self.further.items()):
            shorter = np.maximum(lengths / by, lengths[0])
            self.further[i] = Reaches(shorter, of)
            if shorter[-1] == lengths[0]:
                del self.further[i]

    def _pull(self, u: Any, direction: Any) -> Product:
        nothing = np.zeros(self.point.inputs.size)
        found = Product(nothing, nothing)
        for along, outputs in self._of_outputs(direction):
            here = np.where(outputs, u, 0.0)
            if outputs.all() or here.any():
                found = found + self._pulled(here, direction, self.size * along)
        return found

    def _pulled(self, u: Any, direction: Any, t: float) -> Product:
        """The same with a step along the direction that suits all outputs that count."""
        groups = self._mixed(direction, t)
        return Product(self._weighted(u, groups) / t, _OF_SEVEN * self._rounding_by(u) / t)

    def _weighted(self, u: Any, groups: Any, power: int = 1) -> Any:
        """For each input, what its group makes of the outputs, by the steps of that input."""
        step = (self.size * self.length) ** power
        if self.pattern is None:
            used = u != 0  # outputs that nobody uses may be NaN
            if not self.further:
                return (groups[:, used] @ u[used]) / step
            steps = np.repeat(step[:, None], u.size, 1)
            for i, reaches in self.further.items():
                steps[i] = (self.size * reaches.lengths[reaches.of]) ** power
            return (groups[:, used] / steps[:, used]) @ u[used]
        rows, columns = self.pattern.rows, self.pattern.columns
        steps = step[columns]
        for i, reaches in self.further.items():
            mine = columns == i
            steps[mine] = (self.size * reaches.lengths[reaches.of[rows[mine]]]) ** power
        which = self.groups[columns] if len(groups) > 1 else 0
        entries = groups[which, rows] / steps
        entries = np.where(u[rows] == 0, 0.0, entries * u[rows])
        return np.bincount(columns, entries, len(step))

    def _rounding_by(self, u: Any) -> Any:
        """The noise of u'f, for each input in units of its step."""
        found = np.full(self.point.inputs.size, np.inf)
        with np.errstate(all="ignore"):
            for table in self.rough():
                rows = [self._weighted(u, row[None]) for row in table]
                found = np.fmin(found, np.sqrt(np.mean(np.square(rows), axis=0)))
        return found

    def rough(self) -> Any:
        """The noise of the outputs; see _roughness.py."""
        if self._rough is None:
            try:
                self._rough = roughness(self.point, self.size * self.length, self.seed)
            except EvaluationError:
                self._rough = [self.noise * np.abs(self.point.y)[None]]
        return self._rough

    @property
    def has_sides(self) -> bool:
        """Whether the values that pulls share are there."""
        return bool(self._sides)

    def sizes(self, u: Any) -> tuple[Any, Any]:
        """J'u and the diagonal of the second derivatives, from the values that pulls share."""
        slopes = np.zeros((self.count, self.point.outputs.size))
        bends = np.zeros_like(slopes)
        with np.errstate(all="ignore"):
            for group, level, outputs in self._levels():
                near, far = self._sides[group, level]
                here = slice(None) if outputs is None else outputs
                slopes[group, here] = ((near - far) / 2)[here]
                bends[group, here] = ((near - self.point.y) + (far - self.point.y))[here]
            return self._weighted(u, slopes), self._weighted(u, bends, 2)

    def _mixed(self, direction: Any, t: float) -> Any:
        """For each group, the mixed difference of its step and one of t along a direction."""
        point, b, levels = self.point, t * direction, self._levels()
        steps = [self._ends(group, level) for group, level, _ in levels]
        if not self._sides:
            sides = self._values([s * a for a in steps for s in (1, -1)], "x + steps")
            for k, (group, level, _) in enumerate(levels):
                self._sides[group, level] = sides[2 * k : 2 * k + 2]
        moved = [b, -b, *(s * (a + b) for a in steps for s in (1, -1))]
        up, down, *both = self._values(moved, "x + steps and a direction")
        found = np.empty((self.count, point.outputs.size))
        with np.errstate(invalid="ignore"):
            base = (up - point.y) + (down - point.y)
            for k, (group, level, outputs) in enumerate(levels):
                near, far = self._sides[group, level]
                mixed = ((both[2 * k] - near) + (both[2 * k + 1] - far) - base) / 2
                found[group] = mixed if outputs is None else np.where(outputs, mixed, found[group])
        return found

    def push(self, v: Any, w: Any) -> Product:
        """The derivative of Jv along w."""
        pairs = [(a, b) for a in self._parts(v) for b in self._parts(w)]
        return self._inside(lambda: _sum([self._push(a, b) for a, b in pairs]))

    def _push(self, v: Any, w: Any) -> Product:
        nothing = np.zeros(self.point.outputs.size)
        found = Product(nothing, nothing)
        for h, one in self._of_outputs(v):
            for t, other in self._of_outputs(w):
                outputs = one & other
                if outputs.any():
                    pushed = self._pushed(v, w, self.size * h, self.size * t)
                    both = zip(pushed, found, strict=True)
                    found = Product(*(np.where(outputs, new, old) for new, old in both))
        return found

    def _pushed(self, v: Any, w: Any, h: float, t: float) -> Product:
        moved = [p * h * v + q * t * w for p in (1, -1) for q in (1, -1)]
        a, b, c, d = self._values(moved, "x + two directions")
        with np.errstate(invalid="ignore"):
            value = ((a - b) - (c - d)) / (4 * h * t)
        return Product(value, _OF_FOUR * self.noise_of_outputs() / (h * t))

    def sizes_along(self, v: Any, flat: float) -> Any:
        """How large second differences along a direction are, or so much of slopes."""
        h = self.size * self.along(v, self.length)
        up, down = self._values([h * v, -h * v], "x + a direction")
        with np.errstate(invalid="ignore"):
            bends = np.abs((up - self.point.y) + (down - self.point.y)) / self.size**2
            return np.fmax(bends, flat * np.abs(up - down) / (2 * self.size))

    def noise_of_outputs(self) -> Any:
        """The noise of each output."""
        found = np.full(self.point.outputs.size, np.inf)
        with np.errstate(all="ignore"):
            for table in self.rough():
                found = np.fmin(found, np.sqrt(np.mean(np.square(table), axis=0)))
        return found

    def with_steps(self, times: float) -> Curvature:
        """The same with other steps for all inputs."""
        self.rough()
        made = copy.copy(self)
        made.size, made._sides = self.size * times, {}
        made.further = dict(self.further)
        return made


def _sum(products: Sequence[Product]) -> Product:
    return functools.reduce(Product.__add__, products)
