"""Richardson extrapolation of central differences, adaptive, with an error estimate.

Ridders' method: central differences at steps that shrink by a constant factor, extrapolated to zero
in a Neville table. The best entry is the one that changed least, and that change is its error
estimate. Every round evaluates all inputs that are not done together. Read next: _plan.py.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._directional import CENTRAL
from ._errors import EvaluationError
from ._jacobians import Dense
from ._method import Method
from ._point import Point
from ._steps import Steps
from ._tiny_elements import choose, lost, sizes_of_rows, tiny_in_tiny, warn, widened

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["Richardson", "extrapolated"]

_SHRINK = 2.0
_EXACT = 1e9  # roundings that a difference has to be, to be as exact as the method promises


def extrapolated(fine: Any, coarse: Any, factor: Any) -> Any:
    """Remove an error that is ``factor`` times smaller in ``fine`` than in ``coarse``."""
    return fine + (fine - coarse) / (factor - 1)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Richardson(Method, name="richardson"):
    """Extrapolated central differences: nearly exact, with an estimate of the error.

    Up to ``2 * rounds`` evaluations per input; an input is done when its error stops falling. The
    estimates for the entries of the last Jacobian are in ``.error`` of the external.

    Parameters
    ----------
    step
        The first and longest step; one for all inputs, or a dict by argument or path. Default:
        chosen.
    scale
        The typical magnitude of the input, for values near zero. Likewise.
    probe
        Whether the first derivative looks at the function to choose its steps.
    rounds
        How often the step is halved, at most.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> f = ad.external(np.exp, derivative=ad.differences.Richardson())
    >>> x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    >>> f(x).backward()
    >>> bool(abs(x.grad.item() - np.exp(1.0)) < 1e-11)
    True
    """

    at_most = True
    directional = True
    recovers = True
    directional_check = True

    step: Any = None
    scale: Any = None
    probe: bool = True
    rounds: int = 8

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds= must be at least 1, got {self.rounds}")

    def evaluations(self, inputs: int) -> int:
        """A pair for each input in each round."""
        return 2 * self.rounds * inputs

    def error(self, noise: float) -> float:
        """About 1e-12 for float64."""
        return float(noise**0.8)

    def jacobian(self, point: Point, steps: Steps, plan: Plan) -> Dense:
        """The Jacobian with an estimate of the error of each entry."""
        return _jacobian(point, steps, self.rounds)


def _jacobian(point: Point, steps: Steps, rounds: int) -> Dense:
    size = _first_steps(steps)
    best, error = _table(point, steps, np.arange(point.inputs.size), size, rounds)
    wide = widened(steps)
    if wide is None:
        return Dense(best, error)
    # Elements that are tiny in their array: again, as if they were not, where they are lost.
    whole = sizes_of_rows(steps, best.T)[:, None]
    bad = lost(steps, best, 2 * size, whole, _EXACT) & (wide.scale != steps.scale)
    unseen = (bad | ~point.finite[:, None]).all(axis=0)
    bad &= unseen | ~tiny_in_tiny(steps, wide)
    columns = np.flatnonzero(bad.any(axis=0))
    if columns.size:
        far = _first_steps(wide)
        again = np.full_like(best, np.nan), error
        with contextlib.suppress(EvaluationError), np.errstate(all="ignore"):
            again = _table(point, wide, columns, far, rounds)
        whole = np.fmax(whole, np.abs(again[0]) * wide.scale)
        for i in columns:
            found = choose(steps, best[:, i], 2 * size[i], whole[:, i], again[0][:, i])
            take, unsure = (bad[:, i] & mask for mask in found)
            warn(point, int(i), unsure, far[i])
            best[take, i], error[take, i] = again[0][take, i], again[1][take, i]
    return Dense(best, error)


def _table(point: Point, steps: Steps, active: Any, size: Any, rounds: int) -> tuple[Any, Any]:
    """The columns ``active`` of the Jacobian and of the errors, from first steps."""
    n, m = point.inputs.size, point.outputs.size
    best, error = np.zeros((m, n)), np.full((m, n), np.inf)
    row: list[Any] = []  # the last row of the table, one (m, n) matrix per column
    for level in range(rounds):
        above, below = steps.both_sides(size)
        slopes = _slopes(point, active, above, below)
        rounding = steps.rounding * np.abs(point.y)[:, None] / np.abs(above - below)
        new = [np.full((m, n), np.nan)]
        new[0][:, active] = slopes
        # On both sides the error has powers 2, 4, 6, ...; on one, at a bound, 2, 3, 4, ...
        two_sided = (above > point.x) != (below > point.x)
        for j in range(level):
            factor = _SHRINK ** np.where(two_sided, 2 * j + 2, j + 2)
            new.append(extrapolated(new[j], row[j], factor))
            change = np.maximum(np.abs(new[j + 1] - new[j]), np.abs(new[j + 1] - row[j]))
            change = np.maximum(change, rounding)  # rounded outputs may agree by luck
            better = change < error
            best[better], error[better] = new[j + 1][better], change[better]
        if level == 0:
            best[:, active] = slopes
        elif level >= 2:
            active = active[~_settled(new, row, error, best, active, point, rounding)]
        row = new
        if not active.size:
            break
        size = size / _SHRINK
    return best, error


def _first_steps(steps: Steps) -> Any:
    """Large: extrapolation removes the truncation error, and large steps have little rounding."""
    rule = steps.rounding ** (1 / 9) * steps.length(2) * steps.scale
    size = np.where(np.isnan(steps.given), rule, steps.given)
    room = np.maximum(steps.high - steps.point.x, steps.point.x - steps.low)
    return np.minimum(size, room / 2)


def _slopes(point: Point, active: Any, above: Any, below: Any) -> Any:
    ends = (above, below)
    distances = [end - point.x for end in ends]
    moves = ((int(i), end[i]) for i in active for end in ends)
    values = point.values(moves, 2 * len(active))
    columns = [
        CENTRAL.combine([d[i] for d in distances], pair, point.y)
        for i, pair in zip(active, zip(values, values, strict=True), strict=True)
    ]
    return np.stack(columns, 1) if columns else np.zeros((point.outputs.size, 0))


def _settled(
    new: list[Any], row: list[Any], error: Any, best: Any, active: Any, p: Point, rounding: Any
) -> Any:
    """Which inputs are done: their errors have reached rounding, or have begun to grow."""
    grown = np.abs(new[-1] - row[-1])[:, active] >= 2 * error[:, active]
    least = np.fmax(4 * p.epsilon() * np.abs(best), 2 * rounding)
    tiny = error[:, active] <= least[:, active]
    return (grown | tiny).all(axis=0)
