"""Radau IIA of order 5, for stiff problems.

The stages of a step are the answer of an equation, solved by Newton's method; their derivative is
that of the answer (`adjoint.optimize`), not of the iteration.
"""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, somewhere
from adjoint.func import jacfwd
from adjoint.optimize._implicit import answer
from adjoint.optimize._iteration import norm

from ._methods import Method, Slope, Step
from ._rosenbrock import cubic

__all__ = ["NoStages", "Radau"]

_ROOT = math.sqrt(6)


class NoStages(Exception):
    """Newton's method did not find the stages of a step: it has to be shorter."""


class Radau(Method):
    """Three stages; the error is estimated as by Hairer and Wanner (Solving ODEs II, IV.8)."""

    order = 4
    cost = 10
    scans = False

    _C = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
    _A = (
        ((88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225),
        ((296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225),
        ((16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9),
    )
    _E = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
    _MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)

    def start(self, slope: Slope, t: Tensor, y: Tensor) -> Tensor:
        return slope(t, y)

    def step(self, slope: Slope, t: Tensor, y: Tensor, h: Tensor, memory: Tensor) -> Step:
        n = y.numel()
        a = ad.tensor(self._A, dtype=y.dtype)

        def residual(z: Tensor) -> Tensor:
            stages = z.reshape(3, n)
            f = ad.stack([slope(t + c * h, y + s) for c, s in zip(self._C, stages, strict=True)])
            return (stages - h * (a @ f)).flatten()

        with ad.no_grad():
            found = self._stages(residual, slope, t.detach(), y.detach(), h.detach())
        z = answer(residual, found).reshape(3, n)
        new = y + z[2]
        after = slope(t + h, new)
        error = self._error(slope, t.detach(), y.detach(), h.detach(), memory.detach(), z.detach())
        return Step(new, error, after, ad.stack([new, memory, after]))

    def _stages(self, residual: Any, slope: Slope, t: Tensor, y: Tensor, h: Tensor) -> Tensor:
        n = y.numel()
        matrix = jacfwd(lambda v: slope(t, v))(y)
        whole = ad.eye(3 * n, dtype=y.dtype) - h * ad.kron(
            ad.tensor(self._A, dtype=y.dtype), matrix
        )
        lu, pivots = ad.linalg.lu_factor(whole)
        z = ad.zeros(3 * n, dtype=y.dtype)
        scale = ad.finfo(y.dtype).eps ** 0.85 * (1 + norm(y))
        before: Tensor | None = None
        for _ in range(12):
            step = ad.linalg.lu_solve(lu, pivots, residual(z)[:, None])[:, 0]
            z = z - step
            size = norm(step)
            if everywhere(size <= scale):
                return z
            if not everywhere(ad.isfinite(size)):
                break
            if before is not None and somewhere(size > 0.9 * before):
                # It does not contract: with the matrix of the stages themselves, or not at all.
                exact = ad.linalg.solve_ex(jacfwd(residual)(z), residual(z))
                step = exact.result
                z, size = z - step, norm(step)
            before = size
        raise NoStages

    def _error(
        self, slope: Slope, t: Tensor, y: Tensor, h: Tensor, before: Tensor, z: Tensor
    ) -> Tensor:
        with ad.no_grad():
            matrix = jacfwd(lambda v: slope(t, v))(y)
            real = ad.eye(y.numel(), dtype=y.dtype) * (self._MU / h) - matrix
            weights = ad.tensor(self._E, dtype=y.dtype)
            found: Tensor = ad.linalg.solve(real, before + weights @ z / h)
            return found

    def value(self, y: Tensor, h: Tensor, between: Tensor, theta: Tensor) -> Tensor:
        return cubic(y, h, between, theta)
