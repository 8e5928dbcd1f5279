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

from ._bends import Bends, mended, mended_along
from ._coordinates import real_dtype
from ._difference_tally import count_differences
from ._directional import CENTRAL, common_size, directional
from ._elementwise import elementwise, masks_needed, verify_elementwise
from ._errors import ExternalError
from ._extrema import EXTREMUM, right_at_extremum
from ._jacobians import Jacobian, undefined
from ._method import Method, Stencil
from ._point import Move, Point
from ._repeatability import looks_at_repeats, verify_repeats
from ._roughness import LINE
from ._second import Curvature, Effort
from ._second_error import TRIES, SecondDerivatives, accuracy
from ._sparse_jacobian import (
    AnyPattern,
    ColouredPattern,
    ElementPattern,
    SamplePattern,
    coloured,
)
from ._step_choice import MOST_PAIRS, PAIRS, ROUGH, forget, probe
from ._steps import Steps
from ._verification import (
    PAIR,
    gap_along,
    has_few_digits,
    look_for_loss,
    look_for_loss_along,
    pair_agrees,
    random_direction,
    refuse_nonlinear,
    refuse_pattern,
    settle,
    settling,
    warn_of_digits,
    warn_of_direction,
    warn_unsettled,
)

__all__ = ["REFUSED", "Plan", "Price"]

REFUSED = "refuses float64"  # in Plan.verified: of a function of float32
_FLOAT64 = float(np.finfo(float).eps)
_FEW, _NOISY = 1e-8, 16.0  # rounding of few digits, and how much more looks like noise


class Price(NamedTuple):
    """Evaluations that derivatives will take; ``most`` if fewer may do."""

    vjp: int
    jvp: int
    first: int  # more, once: the checks and the choice of steps at the first derivative
    first_most: int  # the same at most: kinks, jumps, and other inputs than the steps suit
    most: bool
    second: int  # of a second derivative along a direction, by differences of values
    second_most: int  # the same at most


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
        verify: bool = True,
    ) -> None:
        self.method = method
        self.verify = verify
        self.differences = not exact
        self.elementwise, self.sparsity = elementwise, sparsity
        self.bounds, self.noise = bounds, noise
        # What was learnt.
        self.verified: set[str] = set()  # what was found to hold at the first derivative
        self.steps_found: dict[str, tuple[float, float, float]] = {}  # by _step_choice.py
        self.rng = self.generator()  # of methods that draw anew for each Jacobian
        self.error: Any = None  # of the entries of the last Jacobian, if the method tells
        self.reuses = False  # whether the function returns the same memory in each call
        self.tangents_differenced = False  # of a function whose vjp is given
        self.bends: Bends | None = None  # of the Jacobian that is being made
        self._bent_at: Any = None  # the last input with second derivatives by other steps than:
        self.bowl: Any = None  # an input, and how far it may move next to the extremum there
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
        stencil = self.method if isinstance(self.method, Stencil) else None
        settled = not self.method.probe or not np.isnan(steps.given).any()
        if stencil is not None and settled:
            # Nothing else is found out first: workers need not wait for it.
            point.meanwhile = functools.partial(verify_repeats, self, point, steps)
        else:
            verify_repeats(self, point, steps)
        if point.finite.all():
            return self._settled(stencil, point, steps, batch)
        with np.errstate(invalid="ignore"):  # differences of infinities
            found = self._settled(stencil, point, steps, batch)
        return undefined(found, point.outputs, ~point.finite)

    def _settled(
        self, stencil: Stencil | None, point: Point, steps: Steps, batch: tuple[int, ...]
    ) -> Jacobian:
        kind, pattern = self._together(stencil, point, steps, batch)
        found = self._differenced(stencil, point, steps, kind, pattern)
        if not self.verifies:
            return found
        if kind == "elementwise" and max(point.inputs.sizes, default=0) < 2:
            return found
        held = self._held(stencil, point, steps, kind, pattern, found)
        if stencil is not None and self.noise is None and self._chooses(steps):
            look_for_loss(point, steps, stencil, held)
        return held

    def _together(
        self, stencil: Stencil | None, point: Point, steps: Steps, batch: tuple[int, ...]
    ) -> tuple[str, AnyPattern | None]:
        """What is claimed of the function, and which inputs move together because of it."""
        if stencil is None:
            return "", None
        if self.elementwise:
            self._verify_elementwise(point, steps)
            return "elementwise", ElementPattern(point)
        if _has_samples(point, batch):
            count = math.prod(batch)
            return "batched" if count > 1 else "", SamplePattern(point, count)
        if self.sparsity is not None:
            return "sparsity", self.pattern(point)
        return "linear" if self.method.flat else "", None

    def _differenced(
        self,
        stencil: Stencil | None,
        point: Point,
        steps: Steps,
        kind: str,
        pattern: AnyPattern | None,
    ) -> Jacobian:
        """The Jacobian, as the steps are."""
        if not self.method.needs_complex:
            probe(self, point, steps)
        looks = self.verifies and self._chooses(steps)
        self.bends = Bends(steps) if looks else None
        if stencil is not None and kind == "elementwise":
            return elementwise(stencil, point, steps, self.bends)
        if stencil is not None and pattern is not None:
            return coloured(stencil, point, steps, pattern, self.bends)
        found = self.method.jacobian(point, steps, self)
        self.error = getattr(found, "error", None)
        return found

    def _held(
        self,
        stencil: Stencil | None,
        point: Point,
        steps: Steps,
        kind: str,
        pattern: AnyPattern | None,
        found: Jacobian,
    ) -> Jacobian:
        """The Jacobian, if it is seen to hold here; else one by steps that are chosen here."""
        method = self.method
        chosen = self._chooses(steps)
        if not chosen and not kind:
            return found  # steps that the user gave are the user's
        rough = chosen and self.noise is None and has_few_digits(point, steps.rounding)
        if rough and "few digits" not in self.verified:
            return self._rough(point, steps, pattern, found)
        noisy = chosen and self.noise is None and _FEW < steps.noise < steps.rounding / _NOISY
        if noisy and not rough and "noisy" not in self.verified:
            # Of few digits, a kink beside the input looks like noise: short steps tell.
            settled, _, close = settle(point, steps, pattern)
            if close:
                forget(self, point, steps)
                return settled
            self.verified.add("noisy")
        agrees, seen = pair_agrees(point, steps, method, found, method.seed)
        if rough and not self._right(point, steps, found).all():
            warn_of_digits(point, steps.rounding)
        if agrees:
            self.verified.add(kind)
            return found if rough else self._straight(point, steps, pattern, found)
        if chosen and not rough:
            forget(self, point, steps)
            probe(self, point, steps)
            if self.noise is None and has_few_digits(point, steps.rounding):
                forget(self, point, steps)  # noise here alone is a jump
            else:
                found = self._differenced(stencil, point, steps, kind, pattern)
                agrees, seen = pair_agrees(point, steps, method, found, method.seed)
        if agrees:
            return self._straight(point, steps, pattern, found)
        unsettled: list[tuple[int, int]] = []
        if chosen and not rough:
            steps.suit = False
            found, unsettled, _ = settle(point, steps, pattern)
            self._tell_unsettled(point, steps, found, unsettled)
            if kind:
                _, seen = pair_agrees(point, steps, method, found, method.seed)
        if kind and seen is not None and not unsettled:  # else it is a jump that is seen
            refuse_pattern(point, steps, seen, kind)
        return found

    def _straight(
        self, point: Point, steps: Steps, pattern: AnyPattern | None, found: Jacobian
    ) -> Jacobian:
        """The Jacobian, with what lies between the ends of a step told from a smooth function."""
        if self.bends is None or not self.bends.seen:
            return found
        steps.suit = False
        made, unsettled = mended(point, steps, pattern, found, self.bends)
        self._tell_unsettled(point, steps, made, unsettled)
        return made

    def _rough(
        self, point: Point, steps: Steps, pattern: AnyPattern | None, found: Jacobian
    ) -> Jacobian:
        """What to do with a function that is seen to be rough at its first derivative."""
        noise = steps.rounding
        settled, _, close = settle(point, steps, pattern)
        if close:  # a jump nearby, which short steps do not reach
            forget(self, point, steps)
            return settled
        if self._right(point, steps, found).all():
            forget(self, point, steps)  # what looks rough here is not elsewhere
            return found
        self.verified.add("few digits")
        warn_of_digits(point, noise)
        return found

    def _right(self, point: Point, steps: Steps, found: Jacobian) -> Any:
        """Which outputs are next to an extremum, and have the right derivatives."""
        v = random_direction(steps, np.random.default_rng(self.method.seed))
        return self._right_along(point, steps, v, found.push(v))

    def _right_along(self, point: Point, steps: Steps, v: Any, found: Any) -> Any:
        """The same of a product with a direction."""
        # What second derivatives by short steps made of this input is not called right.
        beyond = self._bent_at is None or not np.array_equal(self._bent_at, point.x)
        right, far = right_at_extremum(point, steps, v, found, beyond)
        if far is not None:
            self.bowl = point.x.copy(), far
        return right

    def _tell_unsettled(
        self, point: Point, steps: Steps, found: Jacobian, unsettled: list[tuple[int, int]]
    ) -> None:
        """Warn of what has not settled, but for slopes that are next to nothing as they should."""
        if unsettled:
            right = self._right(point, steps, found)
            warn_unsettled(point, [entry for entry in unsettled if not right[entry[0]]])

    def _chooses(self, steps: Steps) -> bool:
        """Whether steps are chosen here, and not by the user or by a rule."""
        return self.method.probe and bool(np.isnan(steps.given).any()) and steps.noise < ROUGH

    def _verify_elementwise(self, point: Point, steps: Steps) -> None:
        names = point.inputs.names
        if not self.verified.issuperset(f"elementwise {name}" for name in names):
            verify_elementwise(point, steps)
            # Of a single element nothing was learned.
            sizes = zip(names, point.inputs.sizes, strict=True)
            self.verified.update(f"elementwise {name}" for name, size in sizes if size > 1)

    @property
    def verifies(self) -> bool:
        """Whether each Jacobian is compared with a pair of evaluations."""
        method = self.method
        return self.verify and method.directional_check and not method.needs_complex

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
        count_differences(self.method.error(steps.noise), point.evaluator)
        verify_repeats(self, point, steps)
        if point.finite.all():
            return self._pushed(point, steps, v)
        with np.errstate(invalid="ignore"):
            return np.where(point.finite, self._pushed(point, steps, v), np.nan)

    def _pushed(self, point: Point, steps: Steps, v: Any) -> Any:
        if self.method.flat:
            return self._push_linear(point, steps, v)
        probe(self, point, steps)
        bends: list[Any] = []
        found = directional(point, steps.together(), v, bends)
        told = not self.verifies or self.noise is not None
        if not told and self._chooses(steps) and has_few_digits(point, steps.rounding):
            if v.any() and self._right_along(point, steps, v, found).all():
                forget(self, point, steps)  # what looks rough here is not elsewhere
                return found
            self.verified.add("few digits")
            warn_of_digits(point, steps.rounding)
        if self._push_agrees(point, steps, v, found, bends=bends):
            return self._straight_along(point, steps, v, found, bends)
        forget(self, point, steps)
        probe(self, point, steps)
        bends.clear()
        again = directional(point, steps.together(), v, bends)
        if not self._push_agrees(point, steps, v, again, True, bends):
            if not self._right_along(point, steps, v, again).all():
                warn_of_direction(point)
            return again
        return self._straight_along(point, steps, v, again, bends)

    def _straight_along(
        self, point: Point, steps: Steps, v: Any, found: Any, bends: list[Any]
    ) -> Any:
        """Jv, with what lies between the ends of a step told from a smooth function."""
        if not self.verifies or not self._chooses(steps):
            return found
        if self.noise is None and v.any():
            look_for_loss_along(point, steps, v, common_size(steps.together(), v), found)
        made, settled = mended_along(point, steps, v, found, bends)
        if not settled and not self._right_along(point, steps, v, made).all():
            warn_of_direction(point)
        return made

    def _push_linear(self, point: Point, steps: Steps, v: Any) -> Any:
        used = v != 0
        if not used.any():
            return np.zeros(point.outputs.size)
        t = float(np.exp(np.mean(np.log(steps.scale[used] / np.abs(v[used])))))
        moves: list[Move] = [(point.x + t * v, lambda: "x + a direction")]
        (there,) = point.values(moves, 1)
        found = (there - point.y) / t
        if self.verifies and "linear" not in self.verified:
            (there,) = point.values([(point.x - 2 * t * v, lambda: "x - a direction")], 1)
            size = np.abs(point.y) + np.abs(found * t) + np.abs(there)
            if (np.abs((point.y - there) / (2 * t) - found) * t > 1e4 * steps.noise * size).any():
                refuse_nonlinear(point)
            self.verified.add("linear")
        return found

    def _push_agrees(
        self,
        point: Point,
        steps: Steps,
        v: Any,
        found: Any,
        wrong: bool = False,
        bends: list[Any] | None = None,
    ) -> bool:
        if not self.verifies or not self._chooses(steps) or not v.any():
            return True
        seen = gap_along(point, steps.together(), CENTRAL, v, found, np.abs(found), bends)
        if seen is None:
            return True
        gap, allowed, theirs = seen
        if wrong:  # what is warned of
            size = np.abs(theirs) + 1e-6 * np.max(np.abs(theirs), initial=0.0)
            allowed = allowed + 1e-3 * size
        return not bool((gap > allowed).any())

    def allow_second(self, name: str) -> None:
        """Refuse second derivatives of what is an estimate itself."""
        if self.differences and not self.method.repeatable:
            raise ExternalError(
                f"{name} has no second derivative: derivative={self.method.name!r} is an "
                "estimate, whose differences are noise. fix: derivative='central' or "
                "'complex-step', or give jacobian= or a vjp= with arrays='tensor'"
            )

    def curvature(
        self, point: Point, steps: Steps, batch: tuple[int, ...] = (), noise: float = 0.0
    ) -> SecondDerivatives | None:
        """Second derivatives by differences of values; None if those of derivatives are better.

        ``noise`` is the rounding of a function that is evaluated with more digits than its own.
        """
        if not isinstance(self.method, Stencil) or not self.differences:
            return None
        count_differences(self.expected_error(steps.noise), point.evaluator)
        if noise:
            self._suit(point, steps)
        else:
            verify_repeats(self, point, steps)
            probe(self, point, steps)
        _, pattern = self._together(self.method, point, steps, batch)
        rule = steps.rounding ** (1 / (self.method.order + 1))
        relative = np.full(point.inputs.size, rule) if steps.relative is None else steps.relative
        with np.errstate(divide="ignore"):
            told = np.where(np.isnan(steps.given), relative, steps.given / steps.scale)
        length = np.where(np.isnan(told), 1.0, told / rule)
        # Where the function was seen to be straight, steps of that length may do; not longer ones.
        if steps.suit:
            length = np.fmin(length, np.fmax(told / steps.rounding**0.25, 1.0))
        else:
            length = np.fmin(length, 1.0)
        if self.bowl is not None and np.array_equal(self.bowl[0], point.x):
            # Second differences over the magnitudes of the inputs would be lost in rounding.
            length = np.fmax(length, self.bowl[1] / steps.scale)
        else:
            self._bent_at = point.x.copy()
        found = Curvature(point, steps, length, pattern, self.method.seed)
        # A number of Python's that is made of float32 has no more digits than these.
        made = SecondDerivatives(found, accuracy(max(steps.noise, noise, *found.given)))
        # Where first derivatives took steps of their own, values at common steps say little.
        made.careful = not steps.suit
        return made

    def _suit(self, point: Point, steps: Steps) -> None:
        """Choose steps, or see along a direction that those chosen elsewhere suit this point."""
        known = dict(self.steps_found)
        probe(self, point, steps)
        if known != self.steps_found or not self.verifies or not self._chooses(steps):
            return
        v = random_direction(steps, self.generator())
        for again in (True, False):
            with np.errstate(all="ignore"):
                found = directional(point, steps.together(), v)
            if self._push_agrees(point, steps, v, found):
                return
            if again:
                forget(self, point, steps)
                probe(self, point, steps)
        steps.suit = False

    def second_steps(self, point: Point, first: Steps) -> Steps:
        """The steps by which derivatives are differenced: those of a value are too small."""
        steps = Steps(point, None, self.method.scale, self.bounds, None)
        if self.differences:
            probe(self, point, first)
        # Moves are rounded to the dtypes of the inputs, and so is what is between them.
        moved = [float(np.finfo(real_dtype(d)).eps) for d in point.inputs.dtypes]
        steps.noise = steps.rounding = self.expected_error(max(first.rounding, *moved))
        if first.relative is not None:
            steps.relative = first.length(self.method.order) * steps.noise ** (1 / 3)
        return steps

    def expected_error(self, noise: float) -> float:
        """The relative error of an entry of the Jacobian."""
        return self.method.error(noise) if self.differences else noise

    # --- what it costs --------------------------------------------------------------------------

    def price(
        self,
        sizes: Sequence[int],
        tiny: Sequence[int],
        colours: int | None,
        effort: Effort,
        single: bool = False,
    ) -> Price:
        """Of derivatives by inputs of some sizes, of which so many elements are tiny.

        ``single`` if they are of float32: second derivatives take more digits where they can.
        """
        method, arrays, again = self.method, len(sizes), sum(tiny)
        moved = arrays if self.elementwise else sum(sizes) if colours is None else colours
        vjp = method.evaluations(moved)
        if again and self.elementwise:
            vjp += 2 * sum(k > 0 for k in tiny)
        elif again:
            vjp += method.evaluations(again if colours is None else min(colours, again))
        chosen = method.probe and method.step is None and not method.needs_complex
        chosen = chosen and (self.noise or 0.0) < ROUGH
        claimed = self.elementwise or self.sparsity is not None
        pair = PAIR if self.verifies and (chosen or claimed) else 0
        vjp += 0 if self.elementwise and max(sizes, default=0) < 2 else pair
        each = 2 * effort.first_parts + (2 * min(again, effort.first_parts))
        jvp = each + (pair if chosen else 0) if self.directional else vjp
        if method.flat:
            vjp, jvp = vjp + (0 if claimed else PAIR * self.verifies), 1
        first, more = int(looks_at_repeats(self)), 0
        if self.elementwise:
            first += sum(masks_needed(size) for size in sizes)
        else:
            first += method.checks
        if chosen:
            directions = arrays * (1 if self.bounds is None else 2)  # elements at a bound
            first += 2 * PAIRS * directions
            more = 2 * (MOST_PAIRS - PAIRS) * directions
        if self.verified or self.steps_found:
            first = more = 0  # that has been done
            if chosen and not self.steps_found:  # but for steps that suit no other input
                more = 2 * MOST_PAIRS * directions
        if chosen and self.verifies:  # steps chosen anew, and entries settled on their own
            more += 2 * MOST_PAIRS * directions + vjp * (2 if self.elementwise else 1)
            more += 2 * PAIR  # where derivatives are lost in rounding
            more += 2 * EXTREMUM  # before a warning
            more += settling(self.noise or _FLOAT64) * moved + PAIR * (4 if claimed else 1)
            more += PAIR * moved  # much shorter ones, where second differences are large
        if isinstance(method, Stencil):
            second = 4 * moved + 2 + 4 + LINE
            if single and REFUSED not in self.verified:
                known = any(f" float64 {_FLOAT64:.0e}" in key for key in self.steps_found)
                look = (2 + PAIR if self.verifies else 0) if known else 2 * PAIRS * arrays
                second += 1 + (look if chosen else 0)
        else:
            second = 2 * vjp
            if method.needs_complex:  # steps are first chosen here, and verified
                second += PAIR + (0 if self.steps_found else 2 * PAIRS * arrays)
        second = 0 if method.flat else second
        at_most = method.at_most or again > 0
        limit = self._second_most(moved, vjp + more, effort) if second else 0
        if single and limit:
            limit += 1 + 2 * (2 + PAIR) + 4 * MOST_PAIRS * arrays
        return Price(vjp, jvp, first, first + more, at_most, second, limit + first + more)

    def _second_most(self, moved: int, vjp: int, effort: Effort) -> int:
        """Evaluations of a second derivative along a direction: a bound."""
        # Differences of two derivatives: of both halves of it in a corner, and once more further.
        by_derivatives = 3 * (2 * 2 * vjp) + 2 * vjp
        if not isinstance(self.method, Stencil):
            return by_derivatives
        parts = effort.parts
        moved, parts = moved + effort.rungs, parts * effort.reaches
        once = 2 * moved + parts * (2 + 2 * moved) + 2 * 4 * parts * parts
        once *= 3 if effort.rungs else 1  # where steps leave the domain of some output
        by_values = LINE + 6 * (1 + TRIES) + 4 * effort.rungs + (1 + 2 * TRIES) * once
        return by_values if self.bounds is None else by_values + by_derivatives


def _has_samples(point: Point, batch: tuple[int, ...]) -> bool:
    shapes = [*point.inputs.shapes, *point.outputs.shapes]
    sizes = [*point.inputs.sizes, *point.outputs.sizes]
    return bool(batch) and all(sizes) and all(s[: len(batch)] == batch for s in shapes)
