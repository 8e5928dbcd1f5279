"""The whole check of one order of derivative, from lines to a verdict.

`examine` first looks along random directions, then at elements, then compares forward mode with
backward; the pictures come from the evaluations made on the way.
"""

from __future__ import annotations

import math

import numpy as np

from adjoint.autograd._gradcheck.problem import Vector, unchanged
from adjoint.numeric._difference_tally import difference_tally

from ._bounds import towards_the_inside
from ._cause import likely_cause
from ._directions import combinations, scales, signs
from ._dot import dot_product, symmetry
from ._line import Estimate, Line, Shape
from ._notes import UNRESOLVED, jump_note, notes
from ._results import Element, InputResult, Part
from ._search import FEW, SURE, Search
from ._subject import Indices, Subject, dot
from ._taylor import sweep, taylor

__all__ = ["examine"]


def examine(
    subject: Subject, order: int, tolerance: float, seed: int, before: Part | None = None
) -> Part:
    """Check the derivative of a subject; ``order`` says whose derivative it is.

    What the part ``before`` set aside (kinks) has no higher derivative either.
    """
    part = Part(order)
    part.aside = np.zeros(subject.x.size, bool) if before is None else before.aside.copy()
    part.inputs = [
        InputResult(item.name, tuple(item.tensor.shape), item.tensor.dtype)
        for item in subject.inputs
    ]
    if not _sound(subject, part):
        part.verdict = "undecided"
        for item in part.inputs:
            item.status = "undecided"
        part.evaluations = subject.evaluations
        return part
    with np.errstate(all="ignore"):  # sizes at the ends of the range; what is not finite is told
        _Examination(subject, part, tolerance, seed).run()
    part.evaluations = subject.evaluations
    return part


def _sound(subject: Subject, part: Part) -> bool:
    """Whether the function can be compared with anything at all."""
    with unchanged(subject) as changed:
        values = [subject.here() for _ in range(2)]
    if changed:
        part.notes.append(
            f"the function changes its input {', '.join(changed)} in place, so every evaluation "
            "starts from other values; let it work on a clone()"
        )
        return False
    for value in values:
        if not np.array_equal(value, subject.value, equal_nan=True):
            apart = float(np.nanmax(np.abs(value - subject.value), initial=0.0))
            part.notes.append(
                f"the function is random: evaluations at the same inputs differ by {apart:.3g}; "
                "fix its random numbers (call manual_seed inside it, or draw them outside)"
            )
            return False
    bad = np.flatnonzero(~np.isfinite(subject.value))
    if bad.size:
        part.notes.append(
            f"{subject.y.label(int(bad[0]))} is {subject.value[bad[0]]} at the inputs "
            f"({bad.size} of {subject.y.size} output elements are not finite)"
        )
        return False
    return True


class _Examination:
    """The state of one `examine`."""

    def __init__(self, subject: Subject, part: Part, tolerance: float, seed: int) -> None:
        self.subject = subject
        self.part = part
        self.tolerance = tolerance
        self.seed = seed
        self.elements: list[Element] = []
        scale = scales(subject)
        self.signs = towards_the_inside(subject, signs(subject, seed), scale[-1])
        with difference_tally() as tally:
            weights = [
                subject.weight(k, v) for k, v in combinations(subject, self.signs * scale[0], seed)
            ]
        subject.slack = min(128 * tally.error, 0.3)
        self.search = Search(subject, weights, tolerance, scale, self.signs)
        self.aside = part.aside  # coordinates that lines leave out
        self.lines: list[Line] = []
        self.best: list[list[Estimate | None]] = []
        self.shapes: list[list[Shape]] = []

    def run(self) -> None:
        self._set_aside_infinite()
        self._look_along()
        if self.subject.x.size <= FEW:
            self._look_at_all()
        else:
            self._look_for_wrong()
        self._judge_inputs()
        self._forward_mode()
        self._pictures()
        self._verdict()

    # --- gradients that are not numbers ---------------------------------------------------------

    def _set_aside_infinite(self) -> None:
        infinite: set[int] = set()
        for w, weight in enumerate(self.search.weights):
            bad = np.flatnonzero(~np.isfinite(weight.gradient))
            for i in bad[:8].tolist():
                kind = "wrong" if math.isnan(weight.gradient[i]) else "infinite"
                name = self.subject.outputs[weight.output].name
                label = self.subject.x.label(i)
                value = float(weight.gradient[i])
                self.elements.append(Element(label, name, value, math.nan, 0.0, kind, None, i))
            infinite.update(bad.tolist())
            self.search.weights[w].gradient = np.where(
                np.isfinite(weight.gradient), weight.gradient, 0.0
            )
        for element in [e for e in self.elements if e.kind == "infinite"][:1]:
            self.part.notes.append(
                f"the derivative by {element.place} is {element.derivative}: not compared"
            )
        self.aside[list(infinite)] = True

    # --- along random directions ----------------------------------------------------------------

    def _look_along(self) -> None:
        search = self.search
        chosen = np.flatnonzero(~self.aside)
        self.lines, self.best, self.shapes = [], [], []
        noise = np.zeros(len(search.weights))
        for scale in search.scales:
            line = Line(self.subject, search.direction(chosen, scale), search.weights)
            self.lines.append(line)
            each = range(len(search.weights))
            self.best.append([line.estimate(w) for w in each])
            self.shapes.append([line.shape(w) for w in each])
            # The noise of a combination is the same on every line; a kink or jump is not noise.
            mine = np.array(
                [
                    0.0 if shape.kind == "jump" else float(n)
                    for shape, n in zip(self.shapes[-1], line.noise, strict=True)
                ]
            )
            noise = mine if not noise.any() else np.minimum(noise, mine)
        search.noise = noise
        found = [e.level for e in self.best[0] if e is not None]
        search.level = int(np.median(found)) if found else search.level

    # --- elements -------------------------------------------------------------------------------

    def _look_at_all(self) -> None:
        chosen = np.flatnonzero(~self.aside)
        found, self.gradients = self.search.one_by_one(chosen.tolist())
        if self._on_kink():
            found += self.search.kinks([i for i in chosen.tolist() if i not in _indices(found)])
        self.elements += found
        for k, item in enumerate(self.part.inputs):
            item.looked_at = self.subject.x.sizes[k]
        kinks = [e.index for e in found if e.kind in ("kink", "jump")]
        if kinks:
            self.aside[kinks] = True
            self._look_along()

    def _look_for_wrong(self) -> None:
        """Halve what is suspicious; leave kinks aside and look again."""
        for _ in range(4):
            found = self._halve()
            self.elements += found
            kinks = [e.index for e in found if e.kind in ("kink", "jump")]
            if any(e.kind == "wrong" for e in found):
                break
            zeros = (self.subject.at == 0) & ~self.aside
            if not kinks and not (zeros.any() and self._on_kink()):
                break
            self.aside[kinks] = True
            zeros &= ~self.aside
            if zeros.any():  # where one zero is a kink, all are likely to be
                self._sample_zeros(zeros)
            self._look_along()

    def _on_kink(self) -> bool:
        return any(shape.kind == "kink" for shapes in self.shapes for shape in shapes)

    def _halve(self) -> list[Element]:
        found: list[Element] = []
        chosen = np.flatnonzero(~self.aside)
        for scale, estimates in zip(self.search.scales, self.best, strict=True):
            for w, estimate in enumerate(estimates):
                if self.search.suspicious(estimate, w):
                    found += self.search.halving(w, scale, chosen)
        return list({(e.index, e.output): e for e in found}.values())

    def _sample_zeros(self, zeros: Indices) -> None:
        where = np.flatnonzero(zeros)
        sample = where[:: max(1, where.size // 8)][:8].tolist()
        found, _ = self.search.one_by_one(sample)
        found += self.search.kinks([i for i in sample if i not in _indices(found)])
        self.elements += found
        kinks = [e for e in found if e.kind == "kink"]
        if len(_indices(kinks)) < len(sample) / 2:
            return
        self.aside |= zeros
        self.part.notes.append(
            f"{where.size} more elements are exactly 0, where the function has kinks: "
            f"{len(sample)} of them were looked at, the others left out"
        )

    # --- inputs ---------------------------------------------------------------------------------

    def _judge_inputs(self) -> None:
        several = len(self.part.inputs) > 1
        for k, item in enumerate(self.part.inputs):
            inside = self.subject.x.part(k)
            item.worst = self._worst_of(inside)
            item.wrong = len({e.index for e in item.worst if e.kind == "wrong"})
            item.worst[:5] = [self.search.precise(e) for e in item.worst[:5]]
            chosen = np.flatnonzero(~self.aside[inside]) + inside.start
            states = [self._state(w, chosen, several) for w in range(len(self.search.weights))]
            item.relative = max((s[1] for s in states), default=0.0)
            item.doubt = max((s[2] for s in states), default=0.0)
            hidden = any(s[0] == "unresolved" for s in states)
            hidden |= any(inside.start <= i < inside.stop for i in self.search.unresolved)
            if hidden:
                self.part.notes.append(UNRESOLVED)
            if item.wrong or any(s[0] == "wrong" for s in states):
                item.status = "wrong"
                item.cause = likely_cause(self.subject, k, item, self._numbers(k))
            elif k not in self.subject.findings.reached and self._unused(chosen):
                item.status = "unused"
            elif hidden or self._undecided(states):
                item.status = "undecided"

    def _worst_of(self, inside: slice) -> list[Element]:
        found = [e for e in self.elements if inside.start <= e.index < inside.stop]
        worst: dict[int, Element] = {}
        for e in sorted(found, key=lambda e: (e.kind == "wrong", _or_infinite(e.error))):
            worst[e.index] = e
        return sorted(worst.values(), key=lambda e: (e.kind != "wrong", -_or_infinite(e.error)))

    def _state(self, w: int, chosen: Indices, several: bool) -> tuple[str, float, float]:
        """An input and a combination along a direction: status, relative error and doubt."""
        search, weight = self.search, self.search.weights[w]
        best: Estimate | None = None
        status = "undecided"
        relative, doubt = 0.0, math.inf
        for n, scale in enumerate(search.scales):
            if not chosen.size:
                return "right", 0.0, 0.0
            direction = search.direction(chosen, scale)
            best = search.measure(chosen, w, scale) if several else self.best[n][w]
            if best is None:
                continue
            norm = search.size(weight, direction)
            size = max(norm, abs(best.slope))
            # Zero but for rounding, beside other derivatives: nothing is to be seen there.
            largest = self._largest(scale)
            nothing = norm <= max(100 * self.subject.unit, self.subject.blur) * largest
            if nothing and abs(best.error) <= SURE * best.doubt:
                size = norm = 0.0
            # Long steps may be too long for small elements: they do not overrule short ones.
            if status != "right" and self.search.wrong(best, w, norm):
                judged = self._confirmed(direction, w, norm, best)
                if judged:
                    return judged, abs(best.error) / size, best.doubt / size
            shown = max(size, 1e-6 * largest)  # a tiny derivative beside large ones is no worry
            if size == 0 or best.doubt / shown < doubt:
                relative, doubt = (
                    (abs(best.error) / shown, best.doubt / shown) if size else (0.0, 0.0)
                )
            if SURE * best.doubt <= max(0.3, 2 * self.tolerance) * size or norm == 0:
                status = "right"
        return status, relative, doubt

    def _largest(self, scale: Vector) -> float:
        """The largest derivative of all combinations by all inputs."""
        direction = self.search.signs * scale
        return max(self.search.size(weight, direction) for weight in self.search.weights)

    def _confirmed(self, direction: Vector, w: int, norm: float, best: Estimate) -> str:
        """Whether a whole input is "wrong", by all steps, and no kink or jump explains it.

        "unresolved" if steps cannot tell; else an empty string.
        """
        line = Line(self.subject, direction, [self.search.weights[w]])
        whole, shape = line.estimate(0) or best, line.shape(0)
        if not self.search.wrong(whole, w, norm):
            return ""
        if shape.kind == "jump":
            self.part.notes.append(jump_note(shape))
            return ""
        if shape.kind == "kink" and abs(whole.error) <= 0.55 * shape.amount + SURE * whole.doubt:
            return ""
        return "unresolved" if line.unresolved(0, whole) else "wrong"

    def _unused(self, chosen: Indices) -> bool:
        return all(
            not self.search.wrong(self.search.measure(chosen, w, self.search.scales[-1]), w, 0.0)
            for w in range(len(self.search.weights))
        )

    def _undecided(self, states: list[tuple[str, float, float]]) -> bool:
        """An output none of whose combinations could be seen."""
        outputs: dict[int, list[str]] = {}
        for weight, state in zip(self.search.weights, states, strict=True):
            outputs.setdefault(weight.output, []).append(state[0])
        return any(all(s == "undecided" for s in found) for found in outputs.values())

    def _numbers(self, k: int) -> tuple[Vector, Vector] | None:
        """Gradients of one input by differences and by backward, if all were looked at."""
        inside = self.subject.x.part(k)
        if self.subject.x.size > FEW:
            wrong = [e for e in self.part.inputs[k].worst if e.kind == "wrong"]
            if len(wrong) < 2:
                return None
            return (
                np.array([e.differences for e in wrong]),
                np.array([e.derivative for e in wrong]),
            )
        numerical = self.gradients[:, inside]
        analytical = np.array([w.gradient[inside] for w in self.search.weights])
        known = np.isfinite(numerical)
        return numerical[known], analytical[known]

    # --- the rest -------------------------------------------------------------------------------

    def _forward_mode(self) -> None:
        if self.part.order == 2:
            self.part.dot = symmetry(self.subject, self.seed, self.tolerance)
            return
        infinite = next((e for e in self.elements if not math.isfinite(e.derivative)), None)
        if infinite is not None:
            self.part.dot_note = f"not made: the derivative by {infinite.place} is not finite"
            return
        chosen = np.flatnonzero(~self.aside)
        direction = self.search.direction(chosen, self.search.scales[-1])
        self.part.dot, self.part.dot_note = dot_product(self.search, direction)

    def _pictures(self) -> None:
        """Of the line with the largest error relative to its doubt."""
        pairs = [(n, w) for n in range(len(self.lines)) for w in range(len(self.search.weights))]

        def interest(pair: tuple[int, int]) -> float:
            best = self.best[pair[0]][pair[1]]
            if best is None or not self.search.suspicious(best, pair[1]):
                return 0.0
            return abs(best.error) / (best.doubt or 1e-300)

        n, w = max(pairs, key=interest)
        line, best, weight = self.lines[n], self.best[n][w], self.search.weights[w]
        size = max(
            self.search.size(weight, line.direction), 0.0 if best is None else abs(best.slope)
        )
        self.part.sweep = sweep(line, w, size)
        self.shown = (line, w)
        self.part.taylor = taylor(line, w, self._curvature(line.direction, w))

    def _curvature(self, direction: Vector, w: int) -> float | None:
        if self.part.order == 2 or not self.subject.second:
            return None
        weight = self.search.weights[w]
        product = self.subject.hessian_product(weight.output, weight.vector, direction)
        if product is None:
            return None
        curvature = dot(product, direction)
        return curvature if math.isfinite(curvature) else None

    def _verdict(self) -> None:
        part = self.part
        statuses = {item.status for item in part.inputs}
        for shapes in zip(*self.shapes, strict=True):  # of one combination on all lines
            if all(shape.kind == "jump" for shape in shapes):
                statuses.add("undecided")
                part.notes.append(jump_note(shapes[0]))
        if any(e.kind == "jump" for e in self.elements):
            statuses.add("undecided")
        if part.dot is not None and part.dot.status == "wrong":
            statuses.add("wrong")
        order = ("wrong", "undecided", "right")
        part.verdict = next((s for s in order if s in statuses), "right")
        if any(e.kind == "infinite" for e in self.elements):
            part.no_second = "the first one is infinite"
        elif self._on_kink():
            part.no_second = "the inputs lie on a kink, where there is none"
        part.notes += notes(part, self.search, self.elements, self._on_kink(), *self.shown)
        part.notes = list(dict.fromkeys(part.notes))


def _indices(elements: list[Element]) -> set[int]:
    return {e.index for e in elements}


def _or_infinite(value: float) -> float:
    return math.inf if math.isnan(value) else value
