"""Solvers that need no derivative of the residual: Broyden's method, and Anderson's mixing."""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, somewhere

from ._iteration import Iteration, Stop, norm

__all__ = ["anderson", "broyden"]

Residual = Callable[[Tensor], Tensor]


def broyden(
    residual: Residual, x: Tensor, matrix: Callable[[Tensor], Tensor], run: Iteration
) -> Tensor:
    """Broyden's good method: the inverse matrix at the start, then updates of rank one.

    It is made anew where the residual grew.
    """
    r = run.call(residual, x)
    done = norm(r) == 0
    inverse: Tensor | None = None
    while run.goes_on(done, x, r):
        if inverse is None:
            run.jacobians += 1
            inverse, info = ad.linalg.inv_ex(matrix(x))
            if somewhere((info != 0) & ~done):
                raise Stop("the derivative of the residual is singular there", x, r)
            fresh = True
        dx = ad.where(done, 0.0, -(inverse @ r))
        r_new = run.call(residual, x + dx)
        if somewhere(~done & ~(norm(r_new) <= 2 * norm(r))):
            if fresh:  # not even with the true matrix: shorter steps
                dx, r_new = _shortened(residual, x, r, dx, done, run)
            else:
                inverse = None
                continue
        dr = r_new - r
        x, r = x + dx, r_new
        done = done | (norm(r) == 0) | run.is_short(dx, x)
        mapped = inverse @ dr
        scale = dx @ mapped
        scale = ad.where(scale == 0, 1.0, scale)
        inverse = inverse + ad.outer((dx - mapped) / scale, dx @ inverse)
        fresh = False
    return x


def _shortened(
    residual: Residual, x: Tensor, r: Tensor, dx: Tensor, done: Tensor, run: Iteration
) -> tuple[Tensor, Tensor]:
    for _ in range(12):
        dx = dx / 2
        r_new = run.call(residual, x + dx)
        if everywhere(done | (norm(r_new) < norm(r))):
            return dx, r_new
    raise Stop("no step along Newton's direction makes the residual smaller", x, r)


def anderson(residual: Residual, x: Tensor, run: Iteration, memory: int, mixing: float) -> Tensor:
    """Anderson's mixing of the last ``memory`` steps of ``x + mixing * residual(x)``."""
    r = run.call(residual, x)
    done, begun = run.is_short(r, x), norm(r)
    steps: list[Tensor] = []
    changes: list[Tensor] = []
    while run.goes_on(done, x, r):
        dx = mixing * r
        if steps:
            s, y = ad.stack(steps, -1), ad.stack(changes, -1)
            # Least squares by the normal equations, slightly damped: a few columns that may be
            # dependent.
            gram = y.mT @ y
            damped = gram + 1e-14 * ad.diag_embed(gram.diagonal(dim1=-2, dim2=-1) + 1e-300)
            weights, _ = ad.linalg.solve_ex(damped, y.mT @ r)
            weights = ad.where(ad.isfinite(norm(weights)), weights, 0.0)
            dx = dx - (s + mixing * y) @ weights
        dx = ad.where(done, 0.0, dx)
        r_new = run.call(residual, x + dx)
        steps, changes = [*steps, dx][-memory:], [*changes, r_new - r][-memory:]
        x, r = x + dx, r_new
        # A residual may be little beside an x that runs away, or have a smaller unit than x.
        done = done | (run.is_short(r, x) & (norm(r) <= 1e-3 * begun) & run.has_settled(dx))
    return x
