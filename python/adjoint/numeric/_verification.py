"""Does a Jacobian by differences hold here? One more pair of evaluations tells, at every input.

Steps are chosen, and claims (sparse, elementwise) looked at, at the first derivative; at another
input the function may change faster, jump, or depend on other things. So each Jacobian is compared
with a difference along one random direction, by shorter steps. Where they are apart, steps are
chosen anew; where they still are, every entry is settled on its own: slopes by steps from long to
short, of which the one that changes least is taken. What does not settle is warned of. Read next:
_plan.py, which calls this.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._directional import CENTRAL, along_parts, direction_size
from ._errors import EvaluationError, ExternalError
from ._jacobians import Dense, Diagonal, Jacobian, Sparse
from ._point import Move, Point
from ._steps import Steps
from ._tiny_elements import attempts, widened

if TYPE_CHECKING:
    from ._method import Method
    from ._sparse_jacobian import AnyPattern

__all__ = [
    "PAIR",
    "SHORT",
    "entries_of",
    "gap_along",
    "look_for_loss",
    "look_for_loss_along",
    "pair_agrees",
    "refuse_nonlinear",
    "refuse_pattern",
    "settle",
    "settling",
    "warn_of_direction",
    "warn_unsettled",
]

PAIR = 2  # evaluations of a check
_SHORTER = 1 / 3  # the steps of a check
_ROUNDINGS = 16.0
_WORSE = 300.0  # times the error that a method expects
_PART = 0.05  # of a slope: what noise may explain
_UNSETTLED = 0.03
_NOTHING = 1e-3
_DIGITS = 5e-6  # noise beyond which a function is told of, unless its user said so
_CLOSE, _EXACT = 1e-3, 1e-4  # steps, and changes of a slope, that no staircase has
_SEEN = 100.0  # roundings
_LOST = 0.05  # of the largest derivative of an output: rounding beyond which it is told of
_BENDS = 16.0  # roundings, of a second difference that is seen
SHORT = 0.75  # the power of rounding that the shortest steps are
_BENT = 0.1  # a second difference over the first, where a step is across something
_GROWS = 3.0  # a second difference over the square of its step, from one step to the next
_MISSED = 1e3  # times the root of rounding: what a missing entry changes at least


def random_direction(steps: Steps, rng: Any) -> Any:
    """A direction in which every input moves by about its magnitude."""
    n = steps.point.inputs.size
    v = rng.choice([-1.0, 1.0], n) * steps.scale * rng.uniform(0.5, 1, n)
    return np.where(np.isfinite(steps.point.x), v, 0.0)


def closer(steps: Steps) -> Steps:
    """Steps for a check: shorter than those for a direction."""
    made = copy.copy(steps)
    rule = steps.rounding ** (1 / 3)
    relative = np.full(steps.scale.size, rule) if steps.relative is None else steps.relative
    made.relative = _SHORTER * np.fmin(np.where(np.isnan(relative), rule, relative), rule)
    made.given = _SHORTER * steps.given
    return made


def nearest(steps: Steps) -> Steps:
    """Steps that are as short as they may be for a few digits of a slope."""
    made = copy.copy(steps)
    made.relative = np.full(steps.scale.size, steps.rounding**SHORT)
    made.given = np.full_like(steps.given, np.nan)
    return made


def _magnitude(found: Jacobian, v: Any) -> Any:
    """What the entries add to each output, without their signs."""
    v = np.abs(v)
    if isinstance(found, Sparse):
        return Sparse(found.rows, found.columns, np.abs(found.values), found.shape).push(v)
    if isinstance(found, Diagonal):
        blocks = [[np.abs(block) for block in row] for row in found.blocks]
        return Diagonal(blocks, found.inputs, found.outputs).push(v)
    return np.abs(found.dense()) @ v


def gap_along(
    point: Point,
    steps: Steps,
    method: Method,
    v: Any,
    ours: Any,
    whole: Any,
    bends: list[Any] | None = None,
) -> tuple[Any, Any, Any] | None:
    """How far a product is from a difference by shorter steps, what is allowed, the difference.

    None where it cannot be told.
    """
    short = closer(steps)
    try:
        with np.errstate(all="ignore"):
            theirs = along_parts(point, short, v, bends)
    except EvaluationError as error:
        if error.hung:
            raise
        return None  # a corner of the domain that no step of the Jacobian touched
    except ValueError:
        return None  # no room
    with np.errstate(all="ignore"):
        own = np.sqrt(np.sum((v / steps.sizes(method.order)) ** 2))
        both = _ROUNDINGS * (1 / direction_size(short, v, 2) + own)
        rounding = max(steps.noise * both, min(steps.rounding * both, _PART))
        share = rounding + _WORSE * method.error(steps.rounding)
        # Slopes that are others by shorter steps are those of a jump, or noise, whatever the
        # rounding of what they make may explain.
        allowed = rounding * np.abs(point.y) + min(share, _PART) * whole
        gap = np.abs(ours - theirs)
    return np.where(np.isfinite(gap) & point.finite, gap, 0.0), allowed, theirs


def pair_agrees(
    point: Point, steps: Steps, method: Method, found: Jacobian, seed: int
) -> tuple[bool, Any]:
    """Whether a Jacobian holds along a random direction; and what a refusal needs to know."""
    v = random_direction(steps, np.random.default_rng(seed))
    if not v.any():
        return True, None
    with np.errstate(all="ignore"):
        ours, whole = found.push(v), _magnitude(found, v)
    seen = gap_along(point, steps, method, v, ours, whole)
    if seen is None:
        return True, None
    gap, allowed, theirs = seen
    return not bool((gap > allowed).any()), (v, ours, theirs, whole)


def refuse_pattern(point: Point, steps: Steps, seen: Any, kind: str) -> None:
    """Raise if the difference is one that a missing entry makes."""
    v, ours, theirs, whole = seen
    with np.errstate(invalid="ignore"):
        gap, size = np.abs(ours - theirs), whole + np.abs(point.y) + np.abs(theirs)
        wrong = gap > _MISSED * steps.rounding**0.5 * size
    if not wrong.any():
        return
    # What goes to zero with the steps is the bend of a function that is flat here, or a kink near.
    for nearer in (closer(closer(steps)), nearest(steps)):
        with contextlib.suppress(EvaluationError, ValueError), np.errstate(all="ignore"):
            wrong &= np.abs(ours - along_parts(point, nearer, v)) > gap / 2
        if not wrong.any():
            return
    k = int(np.argmax(wrong))
    changes = (
        f"{point.outputs.label(k)} changes by {theirs[k]:.6g} along a random direction, "
        f"{ours[k]:.6g} if"
    )
    if kind == "linear":
        refuse_nonlinear(point)
    if kind == "batched":
        raise ExternalError(
            f"batched=True, but the samples that {point.name} gets are not independent: "
            f"{changes} other samples had no influence. fix: omit batched=True"
        )
    if kind == "elementwise":
        raise ExternalError(
            f"elementwise=True, but {point.name} is not elementwise here: {changes} its "
            "neighbours had no influence. fix: omit elementwise=, or give sparsity="
        )
    raise ExternalError(
        f"sparsity= misses entries: {point.outputs.label(k)} of {point.name} changes by "
        f"{theirs[k]:.6g} along a random direction, the Jacobian with that pattern says "
        f"{ours[k]:.6g}. fix: mark every input that row {k} depends on, here and elsewhere"
    )


def refuse_nonlinear(point: Point) -> None:
    """Say that a function is not what its user said."""
    raise ExternalError(
        f"linear=True, but {point.name} is not linear: over another distance its slopes are others."
        " fix: omit linear=True"
    )


# --- entries on their own -------------------------------------------------------------------------


def _rungs(noise: float) -> list[float]:
    """Relative steps from long to short."""
    lowest = max(3, round(-SHORT * np.log10(noise)))
    return [10.0**-k for k in range(1, lowest + 1)]


def settling(noise: float) -> int:
    """The evaluations of `settle`, for each input that moves."""
    return 2 * len(_rungs(noise))


def settle(
    point: Point, steps: Steps, pattern: AnyPattern | None, groups: Sequence[int] | None = None
) -> tuple[Jacobian, list[tuple[int, int]], bool]:
    """The Jacobian by steps that suit each entry; the entries that no step suits.

    And whether all have settled at short steps, as those near a jump do and a staircase does not.
    Of some columns (or colours) if ``groups`` are given: then these alone, or NaN elsewhere.
    """
    slopes, seconds, widths, taken = [], [], [], []
    for relative in _rungs(steps.noise):
        with contextlib.suppress(ValueError):
            ends = steps.both_sides(relative * steps.scale)
            slope, second, columns, rows = entries_of(point, pattern, ends, groups)
            slopes.append(slope)
            seconds.append(second)
            taken.append(relative)
            widths.append(np.abs(ends[0] - ends[1])[columns])
    found, width = np.stack(slopes), np.stack(widths)  # (steps, entries)
    with np.errstate(all="ignore"):
        gaps = np.abs(np.diff(found, axis=0))
        # An output near zero may be the difference of large numbers, with their rounding.
        sizes = np.abs(point.y)
        np.fmax.at(sizes, rows, np.abs(found[0]) * steps.scale[columns])
        second, grain = np.stack(seconds), steps.noise * sizes[rows]
        across, jumps = _across(second, width, grain)
        # Beyond them lies a kink or jump that is really there, unless it is bent there as well.
        across |= across.any(axis=0) & (
            second > np.maximum(_BENT * np.abs(found) * width, _SEEN * grain)
        )
        # Slopes of exactly zero are steps too small to be seen, unless all are, or a kink is seen.
        flat = ~across[1:] & across.any(axis=0) & ~jumps
        unseen = (found[1:] == 0) & (found != 0).any(axis=0) & ~flat
        gaps = np.where(np.isfinite(gaps) & ~unseen, gaps, np.inf)
        beyond = np.where(across[:-1] | across[1:], np.inf, gaps)
        gaps = np.where(np.isfinite(beyond).any(axis=0), beyond, gaps)
        further = np.concatenate([gaps[1:], np.full((1, gaps.shape[1]), np.inf)])
        doubt = np.maximum(gaps, np.where(np.isfinite(further), further, gaps) / 10)
        best = np.argmin(doubt, axis=0)
        every = np.arange(best.size)
        values, error = found[best, every], doubt[best, every]
        rounding = _ROUNDINGS * steps.noise * np.abs(point.y[rows]) / width[best + 1, every]
        # What is next to nothing beside the slope over a long step may well go to zero.
        least = np.maximum(_UNSETTLED * np.abs(values), _NOTHING * np.abs(found[0]))
        wrong = ~(error <= np.fmax(least, 0.0) + rounding) | (jumps & across[best, every])
        wrong &= point.finite[rows]
        close = (np.array(taken)[best] <= _CLOSE) & (error <= _EXACT * np.abs(values) + rounding)
        close |= (found == 0).all(axis=0) | ~point.finite[rows]
    unsettled = [(int(rows[k]), int(columns[k])) for k in np.flatnonzero(wrong)]
    m, n = point.outputs.size, point.inputs.size
    if pattern is None:
        count = n if groups is None else len(groups)
        return Dense(values.reshape(m, count)), unsettled, bool(close.all())
    every_value = np.full(len(pattern.rows), np.nan)
    every_value[_of_colours(pattern, groups)] = values
    made = Sparse(pattern.rows, pattern.columns, every_value, (m, n))
    return made, unsettled, bool(close.all())


def _across(seconds: Any, width: Any, rounding: Any) -> tuple[Any, Any]:
    """Which steps lead across a kink, a jump or a bump; and whether the last one is at x itself.

    The second differences of a smooth function fall with the square of the step, those across a
    kink with the step, and those of a jump or a bump at x not at all. (A kink at x is none to
    warn of: its slope is the mean of both sides, by steps of any length.)
    """
    bent = 4 * seconds / width**2
    seen = seconds > _SEEN * rounding
    grows = seen[1:] & (bent[1:] > _GROWS * bent[:-1])
    places = np.arange(1, len(seconds))[:, None]
    last = np.max(np.where(grows, places, 0), axis=0)
    across = (np.arange(len(seconds))[:, None] <= last) & (last > 0)
    every = np.arange(seconds.shape[1])
    before = np.maximum(last - 1, 0)
    growth = bent[last, every] / bent[before, every]
    longer = width[before, every] / width[last, every]
    return across, (last > 0) & (growth > longer**1.5)


def _of_colours(pattern: AnyPattern, groups: Sequence[int] | None) -> Any:
    """Which entries of a pattern belong to some colours."""
    if groups is None:
        return np.ones(len(pattern.rows), bool)
    return np.isin(pattern.colours[pattern.columns], groups)


def entries_of(
    point: Point, pattern: AnyPattern | None, ends: Sequence[Any], groups: Sequence[int] | None
) -> tuple[Any, Any, Any, Any]:
    """The slopes of entries between two ends of each input, and the second differences.

    And the columns and rows of the entries. NaN where the function fails, or at a bound.
    """
    n, m = point.inputs.size, point.outputs.size
    distances = [end - point.x for end in ends]
    if pattern is None:
        chosen = range(n) if groups is None else groups
        values = list(attempts(point, [(i, end[i]) for i in chosen for end in ends]))
        slopes, seconds = np.full((m, len(chosen)), np.nan), np.full((m, len(chosen)), np.nan)
        for k, i in enumerate(chosen):
            pair = values[2 * k : 2 * k + 2]
            if all(value is not None for value in pair):
                with np.errstate(all="ignore"):
                    apart = [d[i] for d in distances]
                    slopes[:, k] = CENTRAL.combine(apart, pair, point.y)
                    if (apart[0] > 0) != (apart[1] > 0):
                        seconds[:, k] = np.abs((pair[0] - point.y) + (pair[1] - point.y))
        columns, rows = np.tile(np.asarray(chosen), m), np.repeat(np.arange(m), len(chosen))
        return slopes.reshape(-1), seconds.reshape(-1), columns, rows
    colours = range(pattern.count) if groups is None else groups
    moves: list[Move] = [
        (np.where(pattern.colours == colour, end, point.x), lambda: "inputs of a colour")
        for colour in colours
        for end in ends
    ]
    values = list(attempts(point, moves))
    found, bent = np.full(len(pattern.rows), np.nan), np.full(len(pattern.rows), np.nan)
    for k, colour in enumerate(colours):
        pair = values[2 * k : 2 * k + 2]
        here = pattern.colours[pattern.columns] == colour
        if all(value is not None for value in pair):
            rows, columns = pattern.rows[here], pattern.columns[here]
            with np.errstate(all="ignore"):
                apart, y = [d[columns] for d in distances], point.y[rows]
                there = [value[rows] for value in pair]
                found[here] = CENTRAL.combine(apart, there, y)
                second = np.abs((there[0] - y) + (there[1] - y))
                bent[here] = np.where((apart[0] > 0) != (apart[1] > 0), second, np.nan)
    here = _of_colours(pattern, groups)
    return found[here], bent[here], pattern.columns[here], pattern.rows[here]


# --- what is lost in rounding ---------------------------------------------------------------------


def look_for_loss(point: Point, steps: Steps, method: Method, found: Jacobian) -> None:
    """Warn of a Jacobian that is hardly more than the rounding of the values it is made of."""
    taken = widened(steps, True) or steps  # a tiny element may have been stepped further
    with np.errstate(all="ignore"):
        whole = _magnitude(found, steps.scale)
        # Of the inputs that make the derivative, not of those that hardly count.
        size = taken.sizes(method.order)
        width = np.fmax(_magnitude(found, steps.scale**2 / size) / whole, 0.0)
        relative = float(np.max(size / taken.scale, initial=0.0))
    signs = np.random.default_rng(method.seed).choice([-1.0, 1.0], point.x.size)
    _tell_loss(point, taken, steps.rounding / 2 * width, whole, signs * taken.scale * relative)


def look_for_loss_along(point: Point, steps: Steps, v: Any, step: float, found: Any) -> None:
    """The same of a product with a direction, by one step along it.

    An input that hardly matters beside the others is no loss either.
    """
    if np.isfinite(step):
        rounding = np.full(found.size, steps.rounding / (2 * step))
        scale = float(np.min(steps.scale[v != 0] / np.abs(v[v != 0])))
        _tell_loss(point, steps, rounding, np.abs(found), v * step, step / scale, True)


def _tell_loss(
    point: Point,
    steps: Steps,
    rounding: Any,
    whole: Any,
    move: Any,
    relative: float | None = None,
    others: bool = False,
) -> None:
    """``rounding`` is that of derivatives whose size is ``whole``, of values of one.

    Arrays are looked at as they are: an element that hardly moves beside others is no loss. Nor is
    a slope that is small because the input is next to a minimum: the function bends there, as is
    seen over a step long enough.
    """
    if relative is None:
        relative = float(np.max(np.abs(move) / steps.scale, initial=0.0))
    off = rounding * np.abs(point.y)
    lost = []
    for k in range(len(point.outputs.names)):
        part = point.outputs.part(k)
        used = point.finite[part] & np.isfinite(off[part]) & np.isfinite(whole[part])
        most = np.max(whole[part], initial=0.0, where=used)
        share = np.max(off[part], initial=0.0, where=used)
        if share > _LOST * most > 0:
            lost.append((k, share / most))
    if not lost or relative <= 0:
        return
    length = float(np.sqrt(_BENDS * _LOST * relative))
    far = length / relative * move
    ends = [point.representable(point.x + sign * far) for sign in (1, -1)]
    if all(((steps.low <= end) & (end <= steps.high)).all() for end in ends):
        up, down = attempts(point, [(end, lambda: "x + a direction") for end in ends])
        if up is not None and down is not None:
            with np.errstate(all="ignore"):
                bend = np.abs((up - point.y) + (down - point.y))
                bend[~(bend > _BENDS / 2 * steps.rounding * np.abs(point.y))] = 0
            parts = [point.outputs.part(k) for k, _ in lost]
            small = [np.max(whole[p]) < _BENT * np.max(bend[p]) / length**2 for p in parts]
            lost = [one for one, bent in zip(lost, small, strict=True) if not bent]
    if others and lost:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], point.x.size)
        moved = _slopes_of_all(point, steps, signs * relative * steps.scale)
        seen = steps.rounding * np.abs(point.y) <= _LOST * moved
        lost = [one for one in lost if not seen[point.outputs.part(one[0])].any()]
    for k, share in lost:
        warn_of_loss(point, k, share)


def _slopes_of_all(point: Point, steps: Steps, move: Any) -> Any:
    """By how much each output changes between both ends of a move; zero where that fails."""
    ends = [point.representable(point.x + sign * move) for sign in (1, -1)]
    if not all(((steps.low <= end) & (end <= steps.high)).all() for end in ends):
        return np.zeros_like(point.y)
    up, down = attempts(point, [(end, lambda: "x + a direction") for end in ends])
    if up is None or down is None:
        return np.zeros_like(point.y)
    return np.nan_to_num(np.abs(up - down))


# --- what is told ---------------------------------------------------------------------------------


def warn_unsettled(point: Point, unsettled: Sequence[tuple[int, int]]) -> None:
    """Say which derivatives are not to be trusted, if some are."""
    if not unsettled:
        return
    row, column = unsettled[0]
    more = f" (and {len(unsettled) - 1} others)" if len(unsettled) > 1 else ""
    warnings.warn(
        f"{point.name}: the derivative of {point.outputs.label(row)} by "
        f"{point.inputs.label(column)} = {point.x[column]:.6g}{more} may be wrong: it is another "
        "one for each step. The function seems to have a jump there, or to be too noisy.\n"
        "  fix: noise= if its outputs have few digits, step= for a slope across the jump, or give "
        "a derivative (jacobian=, vjp=)",
        stacklevel=2,
    )


def warn_of_direction(point: Point) -> None:
    """Say that a derivative along a direction is not to be trusted."""
    warnings.warn(
        f"{point.name}: its derivative along a direction may be wrong: it is another one for each "
        "step. The function seems to have a jump there, or to be too noisy.\n"
        "  fix: noise= if its outputs have few digits, or give jvp=",
        stacklevel=2,
    )


def warn_of_loss(point: Point, k: int, share: float) -> None:
    """Say of which output the changes by a step are hardly more than its rounding."""
    part = point.outputs.part(k)
    size = np.max(np.abs(point.y[part]), where=point.finite[part], initial=0.0)
    warnings.warn(
        f"{point.name}: the derivatives of {point.outputs.names[k]} may be off by "
        f"{min(100 * share, 100):.0f} % and more: what a step changes is hardly more than the "
        f"rounding of values of {size:.3g}.\n"
        "  fix: float64, a result without the large part that does not change, scale= (over which "
        "length it changes), or give a derivative (jacobian=, vjp=)",
        stacklevel=2,
    )


def has_few_digits(point: Point, noise: float) -> bool:
    """Whether the noise that was seen is more than rounding or an inner tolerance."""
    return noise > max(_DIGITS, 300 * point.epsilon())


def warn_of_digits(point: Point, noise: float) -> None:
    """Say that a function moves in steps, of which differences can tell little."""
    warnings.warn(
        f"{point.name}: its outputs are known to about {noise:.0e} of their size only (a "
        "staircase, few digits, or noise): its derivatives are slopes over long steps, and rough.\n"
        f"  fix: noise={noise:.0e} if that is as it should be, more digits, or give a derivative "
        "(jacobian=, vjp=)",
        stacklevel=2,
    )
