"""Which elements are wrong: one by one if they are few, by halving the suspects if not.

Note [Screened sharply, judged mildly]. Along a random direction an error of 1e-4 in one of 1e5
elements is 1e-7 of the derivative, so lines are screened for anything above their doubt. But a
derivative that is right to eight digits (an external's by differences, an iteration's) must pass:
what is judged in the end is an element, or a whole input, against the tolerance.
Read next: _run.py.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from adjoint.autograd._gradcheck.numerical import FORWARD
from adjoint.autograd._gradcheck.problem import Vector
from adjoint.numeric._richardson import extrapolated

from ._line import Estimate, Line, Shape
from ._results import Element
from ._subject import Indices, Subject, Weight, norm

__all__ = ["FEW", "Search"]

FEW = 64  # coordinates: so many are looked at one by one, whatever the lines say
BUDGET = 300  # groups measured for one combination
SURE = 3.0  # times the doubt is beyond doubt


class Search:
    """Measures groups of coordinates, and judges them."""

    def __init__(
        self,
        subject: Subject,
        weights: Sequence[Weight],
        tolerance: float,
        scales: Sequence[Vector],
        signs: Vector,
    ) -> None:
        self.subject = subject
        self.weights = weights
        self.tolerance = tolerance
        self.scales = scales  # how far each coordinate moves for t = 1: relative, and typical
        self.signs = signs
        self.noise: Vector = np.zeros(len(weights))
        self.level = 12
        self.unresolved: set[int] = set()  # elements whose derivative no step can show

    # --- measuring ------------------------------------------------------------------------------

    def direction(self, chosen: Indices, scale: Vector) -> Vector:
        """The random direction restricted to some coordinates."""
        direction = np.zeros(self.subject.x.size)
        direction[chosen] = (self.signs * scale)[chosen]
        return direction

    def floor(self, w: int) -> float:
        """Rounding inside the derivative, which nobody is to blame for."""
        share = max(16 * self.subject.unit, self.subject.blur)
        return share * norm(self.weights[w].gradient * self.scales[0])

    def measure(self, chosen: Indices, w: int, scale: Vector) -> Estimate | None:
        """The error of a group of coordinates, from a few evaluations."""
        direction = self.direction(chosen, scale)
        weight = self.weights[w]
        line = Line(self.subject, direction, [weight], self.noise[w : w + 1])
        # Steps larger than 1/64 add little, in particular where there is nothing to be seen.
        enough = max(self.tolerance / 30 * self.size(weight, direction), 64 * line.noise[0])
        return line.estimate(0, self.level, enough)

    def size(self, weight: Weight, direction: Vector) -> float:
        """What the derivative along a direction is of the order of."""
        with np.errstate(all="ignore"):
            return norm(weight.gradient * direction)

    # --- judging --------------------------------------------------------------------------------

    def suspicious(self, found: Estimate | None, w: int) -> bool:
        """An error above the doubt, however small."""
        return found is not None and abs(found.error) > SURE * found.doubt + self.floor(w)

    def wrong(self, found: Estimate | None, w: int, size: float) -> bool:
        """An error above the doubt and the tolerance."""
        if found is None:
            return False
        if not np.isfinite(found.said):
            return True
        allowed = self.tolerance * max(abs(found.said), abs(found.slope), size)
        return abs(found.error) > allowed + SURE * found.doubt + self.floor(w)

    # --- elements -------------------------------------------------------------------------------

    def one_by_one(self, indices: Iterable[int]) -> tuple[list[Element], Vector]:
        """Wrong or kinked elements among these, and all gradients by differences (per weight)."""
        found: list[Element] = []
        gradients = np.full((len(self.weights), self.subject.x.size), np.nan)
        for i in indices:
            for w in range(len(self.weights)):
                best = self._best(i, w)
                if best is None:
                    continue
                estimate, scale = best
                gradients[w, i] = estimate.slope / scale[i] / self.signs[i]
                element = self.element(i, w, best)
                if element is not None:
                    found.append(element)
        return found, gradients

    def _best(self, i: int, w: int) -> tuple[Estimate, Vector] | None:
        """The better estimate of the two scales; the second is only tried if the first is poor."""
        best: tuple[Estimate, Vector] | None = None
        for scale in self.scales:
            found = self.measure(np.array([i]), w, scale)
            if found is None:
                continue
            if best is None or self._better(found, best[0], float(scale[i] / best[1][i])):
                best = (found, scale)
            if SURE * found.doubt <= self.tolerance * max(abs(found.said), abs(found.slope)):
                break
        return best

    def _better(self, found: Estimate, best: Estimate, ratio: float) -> bool:
        """Whether an estimate with ``ratio`` times longer steps has less doubt, and no quarrel."""
        error, doubt = found.error / ratio, found.doubt / ratio
        apart = abs(error - best.error) > 10 * (doubt + best.doubt)
        return doubt < best.doubt and not apart

    def element(self, i: int, w: int, best: tuple[Estimate, Vector]) -> Element | None:
        """What is to be said of a coordinate: wrong, a kink or a jump; None if it is right."""
        estimate, scale = best
        if not self.wrong(estimate, w, 0.0):
            return None
        weight = self.weights[w]
        line = Line(self.subject, self.direction(np.array([i]), scale), [weight])
        shape = line.shape(0)
        estimate = line.estimate(0) or estimate  # from all steps
        unit = float(scale[i] * self.signs[i])
        kind, slopes = "wrong", None
        if shape.kind == "kink":
            slopes = _sides(shape, unit)
            if abs(estimate.error) <= 0.55 * shape.amount + SURE * estimate.doubt:
                kind = "kink"
        elif shape.kind == "jump":
            kind, slopes = "jump", (shape.left, shape.right)
        elif not self.wrong(estimate, w, 0.0):
            return None
        elif line.unresolved(0, estimate):
            self.unresolved.add(i)
            return None
        return Element(
            place=self.subject.x.label(i),
            output=self._combination(weight),
            derivative=float(weight.gradient[i]),
            differences=estimate.slope / unit,
            doubt=abs(estimate.doubt / unit),
            kind=kind,
            slopes=slopes,
            index=i,
            weight=w,
            step=2.0**-estimate.level * unit,
        )

    def kinks(self, indices: Iterable[int]) -> list[Element]:
        """Those among these elements that lie on a kink, though their derivative is in order."""
        found: list[Element] = []
        for i in indices:
            scale = self.scales[0]
            line = Line(self.subject, self.direction(np.array([i]), scale), self.weights)
            for w, weight in enumerate(self.weights):
                shape = line.shape(w)
                if shape.kind == "kink":
                    unit = float(scale[i] * self.signs[i])
                    slopes = _sides(shape, unit)
                    name = self._combination(weight)
                    value = float(weight.gradient[i])
                    label = self.subject.x.label(i)
                    middle, step = sum(slopes) / 2, 2.0**-16 * unit
                    found.append(
                        Element(label, name, value, middle, 0.0, "kink", slopes, i, w, step)
                    )
                    break
        return found

    def _combination(self, weight: Weight) -> str:
        name = self.subject.outputs[weight.output].name
        return name if weight.vector.size == 1 else f"a random combination of {name}"

    def precise(self, found: Element) -> Element:
        """The same for one element of the output, the one in which the two differ most."""
        subject, weight = self.subject, self.weights[found.weight]
        if found.step == 0 or weight.vector.size == 1:
            return found
        part, i = subject.y.part(weight.output), found.index

        def slopes_at(step: float) -> list[Vector]:
            sides = []
            for moved in (subject.at[i] - step, subject.at[i] + step):
                place = subject.at.copy()
                place[i] = moved
                point, value = subject.near(place)
                with np.errstate(all="ignore"):
                    way = [point[i] - subject.at[i]]
                    sides.append(FORWARD.combine(way, [value[part]], subject.value[part]))
            return sides

        step = abs(found.step)
        slopes, wide = slopes_at(step), slopes_at(2 * step)
        middle = extrapolated((slopes[0] + slopes[1]) / 2, (wide[0] + wide[1]) / 2, 4)
        # Where the output answers most, and the element that has the input's own place.
        places = set(np.argsort(-np.abs(np.nan_to_num(middle)))[:3].tolist())
        own = i - subject.x.offsets[subject.x.owner(i)]
        places |= {own} if own < middle.size else set()
        best = found
        for j in sorted(places):
            unit = np.zeros(weight.vector.size)
            unit[j] = 1.0
            derivative = float(subject.gradient(weight.output, unit)[i])
            label = subject.y.label(part.start + j)
            sides = (float(slopes[0][j]) + 0.0, float(slopes[1][j]) + 0.0)
            new = replace(found, output=label, derivative=derivative, differences=float(middle[j]))
            new = replace(new, slopes=sides) if found.slopes else new
            apart = abs(sides[1] - sides[0]) if found.kind == "kink" else new.error
            before = -1.0 if best is found else _apart(best)
            if apart > max(before, self.tolerance * abs(new.differences)):
                best = new
        return best

    # --- halving --------------------------------------------------------------------------------

    def halving(self, w: int, scale: Vector, chosen: Indices, most: int = 8) -> list[Element]:
        """The elements behind a suspicious line, the most suspicious halves first."""
        count = itertools.count()
        groups: list[tuple[float, int, Indices]] = []
        measured = 0
        for k in range(len(self.subject.inputs)):
            part = self.subject.x.part(k)
            inside = chosen[(chosen >= part.start) & (chosen < part.stop)]
            if inside.size:
                heapq.heappush(groups, (-np.inf, next(count), inside))
        found: list[Element] = []
        seen = 0
        while groups and measured < BUDGET and seen < most:
            _, _, group = heapq.heappop(groups)
            if group.size == 1:
                seen += 1
                best = self._best(int(group[0]), w)
                element = None if best is None else self.element(int(group[0]), w, best)
                if element is not None:
                    found.append(element)
                continue
            for half in (group[: group.size // 2], group[group.size // 2 :]):
                measured += 1
                estimate = self.measure(half, w, scale)
                if estimate is not None and self.suspicious(estimate, w):
                    # Per element: straight down to one, rather than all groups in turn.
                    density = abs(estimate.error) / half.size
                    heapq.heappush(groups, (-density, next(count), half))
        return found


def _sides(shape: Shape, unit: float) -> tuple[float, float]:
    """The slopes to the left and to the right of a coordinate that moves by ``unit`` for t = 1."""
    sides = (shape.left / unit, shape.right / unit)
    return sides if unit > 0 else (sides[1], sides[0])


def _apart(e: Element) -> float:
    return abs(e.slopes[1] - e.slopes[0]) if e.kind == "kink" and e.slopes else e.error
