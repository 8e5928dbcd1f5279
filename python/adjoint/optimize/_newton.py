"""Newton's method with a line search, on all samples of a `vmap` at once.

After a whole step the factors of the matrix serve once more, for the residual at its end: that costs
one evaluation instead of a matrix and its factors, and makes the order three. It also tells how far
away the answer is.
"""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, somewhere

from ._iteration import Iteration, Stop, norm

__all__ = ["newton", "whole_step"]

Residual = Callable[[Tensor], Tensor]

_SHORTEST = 2.0**-12  # of a step along Newton's direction
_ENOUGH = 1e-4  # of the decrease that the direction promises


def newton(
    residual: Residual,
    x: Tensor,
    matrix: Residual,
    run: Iteration,
    recorded: Callable[..., tuple[Tensor, ...]] | None = None,
) -> Tensor:
    """Solve ``residual(x) = 0``; steps are halved until the residual decreases.

    ``recorded`` computes a `whole_step`, which most steps are, as one program.
    """
    r = run.call(residual, x)
    size = norm(r)
    done = size == 0
    while run.goes_on(done, x, r):
        run.jacobians += 1
        if recorded is not None:
            is_good, *following = recorded(x, r, size, run.tolerance)
            if is_good:
                run.evaluations += 2
                x, r, size, done = following
                continue
        lu, pivots, info = ad.linalg.lu_factor_ex(matrix(x))
        direction = _solved(lu, pivots, r)
        if somewhere((info != 0) & ~done):
            raise Stop("the derivative of the residual is singular there", x, r)
        if not everywhere(done | ad.isfinite(norm(direction))):
            raise Stop("the derivative of the residual is not finite there", x, r)
        # So short that nothing is left: it is the last, whether the residual, of rounding errors
        # alone, becomes smaller or not.
        short = norm(direction) <= run.tolerance * (1 + norm(x))
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
                | run.is_rounding(size_trial, x)
            )
            if everywhere(good) or not somewhere(~good & (length > _SHORTEST)):
                break
            length = ad.where(good, length, length / 2)
        stuck = ~good
        x, r = ad.where(stuck, x, trial), ad.where(stuck, r, r_trial)
        size = ad.where(stuck, size, size_trial)
        if somewhere(stuck):
            raise Stop("no step along Newton's direction makes the residual smaller", x, r)
        whole = length == 1
        done = done | (size == 0) | (short & whole)
        if somewhere(whole & ~done):
            more = _solved(lu, pivots, r)
            near = whole & (norm(more) <= run.tolerance * (1 + norm(x)))
            x_more = x - more
            r_more = run.call(residual, x_more)
            size_more = norm(r_more)
            better = whole & ~done & (size_more < size)
            x, r = ad.where(better, x_more, x), ad.where(better, r_more, r)
            size = ad.where(better, size_more, size)
            done = done | (size == 0) | near
    return x


def _solved(lu: Tensor, pivots: Tensor, b: Tensor) -> Tensor:
    found: Tensor = ad.linalg.lu_solve(lu, pivots, b[..., None])
    return found[..., 0]


def whole_step(
    residual: Residual, matrix: Residual, x: Tensor, r: Tensor, size: Tensor, tolerance: float
) -> tuple[Tensor, ...]:
    """What `newton` does in a step that is not halved, without branches.

    Returns whether it is one and not the last resort at the rounding of the residual, then ``x``,
    ``r`` and its size at the end, and whether that is the answer.
    """
    lu, pivots, info = ad.linalg.lu_factor_ex(matrix(x))
    direction = _solved(lu, pivots, r)
    trial = x - direction
    r_trial = residual(trial)
    size_trial = norm(r_trial)
    is_good = (
        (info == 0)
        & (size_trial <= (1 - _ENOUGH) * size)
        & (size_trial > 0)
        & (norm(direction) > tolerance * (1 + norm(x)))
    )
    more = _solved(lu, pivots, r_trial)
    near = norm(more) <= tolerance * (1 + norm(trial))
    x_more = trial - more
    r_more = residual(x_more)
    size_more = norm(r_more)
    better = size_more < size_trial
    size = ad.where(better, size_more, size_trial)
    x, r = ad.where(better, x_more, trial), ad.where(better, r_more, r_trial)
    return is_good, x, r, size, (size == 0) | near
