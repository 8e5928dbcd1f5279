"""How one function is differenced: the method, what its user said of it, what was learnt so far.

`Plan.jacobian` is the whole of a numerical derivative: is the function repeatable, which steps suit
it, which coordinates move together; then the method does its work. Read next: _step_choice.py,
_steps.py and the file of each method; docs/guides/externals.md explains when to choose which.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._difference_tally import count_differences
from ._directional import directional
from ._elementwise import elementwise, masks_needed, verify_elementwise
from ._errors import ExternalError
from ._jacobians import Jacobian
from ._method import Method, Stencil
from ._point import Point
from ._repeatability import looks_at_repeats, verify_repeats
from ._second import Curvature
from ._sparse_jacobian import (
    AnyPattern,
    ColouredPattern,
    ElementPattern,
    SamplePattern,
    coloured,
    verify_pattern,
)
from ._step_choice import PAIRS, ROUGH, probe
from ._steps import Steps

__all__ = ["Plan", "Price"]


class Price(NamedTuple):
    """Evaluations that derivatives will take; ``most`` if fewer may do."""

    vjp: int
    jvp: int
    first: int  # more, once: the checks and the choice of steps at the first derivative
    most: bool


class Plan:
    """The differences of one function.

    ``exact`` if its derivative is given; only second derivatives are differences then.
    """

    def __init__(
        self,
        method: Method,
        *,
        exact: bool = False,
        elementwise: bool = False,
        sparsity: Any = None,
        bounds: Any = None,
        noise: float | None = None,
    ) -> None:
        self.method = method
        self.differences = not exact
        self.elementwise, self.sparsity = elementwise, sparsity
        self.bounds, self.noise = bounds, noise
        # What was learnt.
        self.verified: set[str] = set()  # what was found to hold at the first derivative
        self.steps_found: dict[str, tuple[float, float, float]] = {}  # by _step_choice.py
        self.rng = self.generator()  # of methods that draw anew for each Jacobian
        self.error: Any = None  # of the entries of the last Jacobian, if the method tells
        self.reuses = False  # whether the function returns the same memory in each call
        self._pattern: Any = None

    def generator(self) -> Any:
        """Random numbers from the start: those that a verification draws never change."""
        return np.random.default_rng(self.method.seed)

    # --- what a derivative is -------------------------------------------------------------------

    def steps(self, point: Point) -> Steps:
        """The steps of all inputs, from the settings."""
        return Steps(point, self.method.step, self.method.scale, self.bounds, self.noise)

    def jacobian(self, point: Point, steps: Steps, batch: tuple[int, ...] = ()) -> Jacobian:
        """The Jacobian at a point; ``batch`` are its leading axes of independent samples."""
        count_differences(self.expected_error(steps.noise), point.evaluator)
        method = self.method
        stencil = method if isinstance(method, Stencil) else None
        settled = not method.probe or not np.isnan(steps.given).any()
        if stencil is not None and settled:
            # Nothing else is found out first: workers need not wait for it.
            point.meanwhile = functools.partial(verify_repeats, self, point, steps)
        else:
            verify_repeats(self, point, steps)
        if stencil is not None and self.elementwise:
            return self._elementwise(stencil, point, steps)
        if stencil is not None and _has_samples(point, batch):
            count = math.prod(batch)
            pattern = SamplePattern(point, count)
            return self._coloured(stencil, point, steps, pattern, "batched" if count > 1 else "")
        if stencil is not None and self.sparsity is not None:
            return self._coloured(stencil, point, steps, self.pattern(point), "sparsity")
        if not method.needs_complex:
            probe(self, point, steps)
        found = method.jacobian(point, steps, self)
        self.error = getattr(found, "error", None)
        return found

    def _elementwise(self, stencil: Stencil, point: Point, steps: Steps) -> Jacobian:
        self._verify_elementwise(point, steps)
        probe(self, point, steps)
        return elementwise(stencil, point, steps)

    def _verify_elementwise(self, point: Point, steps: Steps) -> None:
        names = point.inputs.names
        if not self.verified.issuperset(f"elementwise {name}" for name in names):
            verify_elementwise(point, steps)
            # Of a single element nothing was learned.
            sizes = zip(names, point.inputs.sizes, strict=True)
            self.verified.update(f"elementwise {name}" for name, size in sizes if size > 1)

    def _coloured(
        self, stencil: Stencil, point: Point, steps: Steps, pattern: AnyPattern, kind: str
    ) -> Jacobian:
        """Coordinates that share no output move together; a ``kind`` of claim is verified once."""
        probe(self, point, steps)
        found = coloured(stencil, point, steps, pattern)
        key = f"{kind} {' '.join(point.inputs.names)}"
        if kind and key not in self.verified:
            verify_pattern(point, steps, found, self.generator(), batched=kind == "batched")
            self.verified.add(key)
        return found

    def pattern(self, point: Point) -> ColouredPattern:
        """The coloured sparsity pattern, restricted to the inputs that are asked for."""
        key = (point.outputs.size, point.inputs.size, tuple(point.inputs.names))
        if self._pattern is None or self._pattern[0] != key:
            given = point.own_columns(self.sparsity)
            self._pattern = (key, ColouredPattern(given, key[:2], point.name))
        pattern: ColouredPattern = self._pattern[1]
        return pattern

    # --- one direction, and second derivatives --------------------------------------------------

    @property
    def directional(self) -> bool:
        """Whether a jvp takes a pair of evaluations instead of a Jacobian."""
        return self.differences and self.method.directional and not self.elementwise

    @property
    def quick(self) -> bool:
        """Whether _elementwise_array.py can do it: elementwise, no settings of steps."""
        method = self.method
        plain = method.step is None and method.scale is None and self.bounds is None
        near = isinstance(method, Stencil) and method.offsets in ((1,), (1, -1))
        return self.elementwise and plain and near

    def push(self, point: Point, steps: Steps, v: Any) -> Any:
        """Jv by itself, of a plan that is `directional`."""
        verify_repeats(self, point, steps)
        probe(self, point, steps)
        return directional(point, steps.together(), v)

    def allow_second(self, name: str) -> None:
        """Refuse second derivatives of what is an estimate itself."""
        if self.differences and not self.method.repeatable:
            raise ExternalError(
                f"{name} has no second derivative: derivative={self.method.name!r} is an "
                "estimate, whose differences are noise. fix: derivative='central' or "
                "'complex-step', or give jacobian= or a vjp= with arrays='tensor'"
            )

    def curvature(
        self, point: Point, steps: Steps, batch: tuple[int, ...] = ()
    ) -> Curvature | None:
        """Second derivatives by differences of values; None if those of derivatives are better."""
        if not isinstance(self.method, Stencil) or not self.differences:
            return None
        count_differences(self.expected_error(steps.noise), point.evaluator)
        verify_repeats(self, point, steps)
        probe(self, point, steps)
        pattern: AnyPattern | None = None
        if self.elementwise:
            self._verify_elementwise(point, steps)
            pattern = ElementPattern(point)
        elif _has_samples(point, batch):
            pattern = SamplePattern(point, math.prod(batch))
        elif self.sparsity is not None:
            pattern = self.pattern(point)
        order = self.method.order
        length = steps.length(order)
        with np.errstate(divide="ignore"):
            told = steps.given / (steps.scale * steps.rounding ** (1 / (order + 1)))
        length = np.where(np.isnan(told), length, np.fmin(told, 1.0))
        return Curvature(point, steps, length, pattern, self.method.seed)

    def second_steps(self, point: Point, first: Steps) -> Steps:
        """The steps by which derivatives are differenced: those of a value are too small."""
        steps = Steps(point, None, self.method.scale, self.bounds, None)
        if self.differences:
            probe(self, point, first)
        steps.noise = steps.rounding = self.expected_error(first.rounding)
        if first.relative is not None:
            steps.relative = first.length(self.method.order) * steps.noise ** (1 / 3)
        return steps

    def expected_error(self, noise: float) -> float:
        """The relative error of an entry of the Jacobian."""
        return self.method.error(noise) if self.differences else noise

    # --- what it costs --------------------------------------------------------------------------

    def price(self, sizes: Sequence[int], tiny: Sequence[int], colours: int | None) -> Price:
        """Of derivatives by inputs of some sizes, of which so many elements are tiny."""
        method, arrays, again = self.method, len(sizes), sum(tiny)
        moved = arrays if self.elementwise else sum(sizes) if colours is None else colours
        vjp = method.evaluations(moved)
        if again and self.elementwise:
            vjp += 2 * sum(k > 0 for k in tiny)
        elif again:
            vjp += method.evaluations(again if colours is None else min(colours, again))
        jvp = (4 if again else 2) if self.directional else vjp
        first = int(looks_at_repeats(self))
        if self.elementwise:
            first += sum(masks_needed(size) for size in sizes)
        else:
            first += method.checks if self.sparsity is None else 2
        chosen = method.probe and method.step is None and not method.needs_complex
        if chosen and (self.noise or 0.0) < ROUGH:
            first += 2 * PAIRS * arrays * (1 if self.bounds is None else 2)  # elements at a bound
        return Price(vjp, jvp, first, method.at_most or again > 0)


def _has_samples(point: Point, batch: tuple[int, ...]) -> bool:
    shapes = [*point.inputs.shapes, *point.outputs.shapes]
    sizes = [*point.inputs.sizes, *point.outputs.sizes]
    return bool(batch) and all(sizes) and all(s[: len(batch)] == batch for s in shapes)
