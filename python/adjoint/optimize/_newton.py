"""Newton's method with a line search, on all samples of a `vmap` at once."""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, somewhere

from ._iteration import Iteration, Stop, norm
from ._linear import Linear

__all__ = ["newton"]

_SHORTEST = 2.0**-12  # of a step along Newton's direction
_ENOUGH = 1e-4  # of the decrease that the direction promises


def newton(
    residual: Callable[[Tensor], Tensor],
    x: Tensor,
    linear: Linear,
    run: Iteration,
) -> Tensor:
    """Solve ``residual(x) = 0``; steps are halved until the residual decreases."""
    r = run.call(residual, x)
    size = norm(r)
    done = size == 0
    while run.goes_on(done, x, r):
        run.jacobians += 1
        direction, solved = linear.newton_step(residual, x, r)
        if somewhere(~solved & ~done):
            raise Stop("the derivative of the residual is singular there", x, r)
        if not everywhere(done | ad.isfinite(norm(direction))):
            raise Stop("the derivative of the residual is not finite there", x, r)
        length = ad.where(done, 0.0, 1.0).to(x.dtype)
        while True:
            trial = x - length * direction
            r_trial = run.call(residual, trial)
            size_trial = norm(r_trial)
            # NaN is not below anything: such a step is halved too.
            good = (
                done
                | (size_trial <= (1 - _ENOUGH * length) * size)
                | run.is_rounding(size_trial, x)
            )
            if everywhere(good) or not somewhere(~good & (length > _SHORTEST)):
                break
            length = ad.where(good, length, length / 2)
        stuck = ~good
        x, r = ad.where(stuck, x, trial), ad.where(stuck, r, r_trial)
        size = ad.where(stuck, size, size_trial)
        # A short step would leave its square; if that is no gain, the rest is rounding.
        settled = stuck & (norm(direction) <= run.rounding * (1 + norm(x)))
        if somewhere(stuck & ~settled):
            raise Stop("no step along Newton's direction makes the residual smaller", x, r)
        # A whole step that was short: the next one would be its square.
        done = (
            done
            | (size == 0)
            | settled
            | ((norm(direction) <= run.tolerance * (1 + norm(x))) & (length == 1))
        )
    return x
