"""Newton's method with a line search, on all samples of a `vmap` at once.

After a whole step the factors of the matrix serve once more, for the residual at its end: that
costs one evaluation instead of a matrix and its factors, and makes the order three. It also tells
how far away the answer is.
"""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, somewhere

from ._iteration import Iteration, Stop, norm
from ._linear import Dense, Linear, Residual

__all__ = ["newton", "whole_step"]

_SHORTEST = 2.0**-12  # of a step along Newton's direction
_ENOUGH = 1e-4  # of the decrease that the direction promises
_NATURAL = 0.25  # the same for the next step with the same matrix (Deuflhard)


def newton(
    residual: Residual,
    x: Tensor,
    linear: Linear,
    run: Iteration,
    recorded: Callable[..., tuple[Tensor, ...]] | None = None,
) -> Tensor:
    """Solve ``residual(x) = 0``; steps are halved until the residual decreases.

    ``recorded`` computes a `whole_step`, which most steps are, as one program.
    """
    r = run.call(residual, x)
    size, begun = norm(r), x.abs()
    done = size == 0
    while run.goes_on(done, x, r):
        run.jacobians += 1
        if recorded is not None:
            is_good, *following = recorded(x, r, size, run.tolerance)
            if is_good:
                run.evaluations += 2
                x, r, size, done = following
                continue
        factored = linear.factored(residual, x)
        if factored is None:
            direction, solved = linear.newton_step(residual, x, r)
        else:
            solve, solved = factored
            direction = solve(r)
        if somewhere(~solved & ~done):
            raise Stop("the derivative of the residual is singular there", x, r)
        if not everywhere(done | ad.isfinite(norm(direction))):
            raise Stop("the derivative of the residual is not finite there", x, r)
        # So short that nothing is left: it is the last, whether the residual, of rounding errors
        # alone, becomes smaller or not.
        if factored is None:
            short = norm(direction) <= run.tolerance * norm(x)
        else:
            short = _is_little(direction, x, run.tolerance)
        length = ad.where(done, 0.0, 1.0).to(x.dtype)
        while True:
            trial = x - length * direction
            r_trial = run.call(residual, trial)
            size_trial = norm(r_trial)
            # NaN is not below anything: such a step is halved too.
            good = (
                done
                | (short & ad.isfinite(size_trial))
                | (size_trial <= (1 - _ENOUGH * length) * size)
            )
            if factored is not None and somewhere(~good):
                # One large equation may hide what the others gain; what is left to go, in the unit
                # of each unknown, does not depend on how they are scaled.
                unit = ad.maximum(ad.maximum(x.abs(), begun), direction.abs())
                unit = ad.where(unit > 0, unit, 1.0)
                left, whole = norm(solve(r_trial) / unit), norm(direction / unit)
                good = good | (left <= (1 - _NATURAL * length) * whole)
            rounding = ~good & run.is_rounding(size_trial, x)
            good = good | rounding
            if everywhere(good) or not somewhere(~good & (length > _SHORTEST)):
                break
            length = ad.where(good, length, length / 2)
        stuck = ~good
        x, r = ad.where(stuck, x, trial), ad.where(stuck, r, r_trial)
        size = ad.where(stuck, size, size_trial)
        # A short step would leave its square; if that is no gain, the rest is rounding.
        least = ad.maximum(run.rounding * ad.maximum(norm(x), norm(begun)), run.smallest)
        settled = stuck & (norm(direction) <= least)
        if somewhere(stuck & ~settled):
            raise Stop("no step along Newton's direction makes the residual smaller", x, r)
        whole = length == 1
        done = done | (size == 0) | settled | rounding | (short & whole)
        if factored is not None and somewhere(whole & ~done):
            more = solve(r)
            near = whole & _is_little(more, x, run.tolerance)
            x_more = x - more
            r_more = run.call(residual, x_more)
            size_more = norm(r_more)
            better = whole & ~done & (size_more < size)
            x, r = ad.where(better, x_more, x), ad.where(better, r_more, r)
            size = ad.where(better, size_more, size)
            done = done | (size == 0) | near
    return x


def _is_little(step: Tensor, x: Tensor, tolerance: float) -> Tensor:
    """Whether nothing is left after a step; unknowns may have units of any size."""
    return (step.abs() <= tolerance * x.abs()).all()


def whole_step(
    residual: Residual, linear: Dense, x: Tensor, r: Tensor, size: Tensor, tolerance: float
) -> tuple[Tensor, ...]:
    """What `newton` does in a step that is not halved, without branches.

    Returns whether it is one and not the last resort at the rounding of the residual, then ``x``,
    ``r`` and its size at the end, and whether that is the answer.
    """
    solve, solved = linear.factored(residual, x)
    direction = solve(r)
    trial = x - direction
    r_trial = residual(trial)
    size_trial = norm(r_trial)
    is_good = (
        solved
        & (size_trial <= (1 - _ENOUGH) * size)
        & (size_trial > 0)
        & (norm(direction) > tolerance * norm(x))
    )
    more = solve(r_trial)
    near = _is_little(more, trial, tolerance)
    x_more = trial - more
    r_more = residual(x_more)
    size_more = norm(r_more)
    better = size_more < size_trial
    size = ad.where(better, size_more, size_trial)
    x, r = ad.where(better, x_more, trial), ad.where(better, r_more, r_trial)
    return is_good, x, r, size, (size == 0) | near
