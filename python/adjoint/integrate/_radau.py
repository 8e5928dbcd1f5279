"""Radau IIA of order 5, for stiff problems.

The stages of a step are the answer of an equation; their derivative is that of the answer
(``_stages.py``), not of the iteration.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._core import Tensor

from ._methods import Method, Step
from ._stages import Residual, answered, searched
from ._system import System
from ._tolerance import Tolerance

__all__ = ["Radau"]

_ROOT = math.sqrt(6)


class Radau(Method):
    """Three stages; the error is estimated as by Hairer and Wanner (Solving ODEs II, IV.8)."""

    order = 4
    slopes = 20
    matrices = 1
    implicit = True

    _C = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
    _A = (
        ((88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225),
        ((296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225),
        ((16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9),
    )
    _E = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
    _MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
    # The polynomial through zero and the stages: rows are stages, columns powers from the first.
    _P = (
        (13 / 3 + 7 * _ROOT / 3, -23 / 3 - 22 * _ROOT / 3, 10 / 3 + 5 * _ROOT),
        (13 / 3 - 7 * _ROOT / 3, -23 / 3 + 22 * _ROOT / 3, 10 / 3 - 5 * _ROOT),
        (1 / 3, -8 / 3, 10 / 3),
    )

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance

    def start(self, system: System, t: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return ()

    def step(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        memory: tuple[Tensor, ...],
        found: tuple[Tensor, ...] | None = None,
    ) -> Step:
        n = y.numel()
        a = ad.tensor(self._A, dtype=y.dtype)

        def residual(z: Tensor) -> Tensor:
            stages = z.reshape(3, n)
            f = [system.slope(t + c * h, y + s) for c, s in zip(self._C, stages, strict=True)]
            left = stages if system.mass is None else stages @ system.mass.mT
            return (left - h * (a @ ad.stack(f))).flatten()

        if found is None:
            z, error = self._search(system, residual, t, y, h)
        else:
            with ad.no_grad():
                exact = self._whole(
                    system,
                    h,
                    [
                        system.matrix(t + c * h, y + s)
                        for c, s in zip(self._C, found[0].reshape(3, n), strict=True)
                    ],
                )
            z, error = answered(residual, found[0], exact), ad.zeros_like(y)
        rows = z.reshape(3, n)
        return Step(y + rows[2], error, (), (rows,) if self.between else (), (z,))

    def _whole(self, system: System, h: Tensor, matrices: list[Tensor]) -> Tensor:
        """The derivative of the residual, with a matrix for each stage."""
        mass = system.mass_matrix(matrices[0][0])
        rows = []
        for i, row in enumerate(self._A):
            blocks = [-h * w * m for w, m in zip(row, matrices, strict=True)]
            blocks[i] = blocks[i] + mass
            rows.append(ad.cat(blocks, 1))
        return ad.cat(rows, 0)

    def _search(
        self, system: System, residual: Residual, t: Tensor, y: Tensor, h: Tensor
    ) -> tuple[Tensor, Tensor]:
        matrix = system.matrix(t, y)
        whole = self._whole(system, h, [matrix] * 3)
        scale, bound = self._tolerance.scale(y, y).repeat(3), self._tolerance.newton(y.dtype)
        start = ad.zeros(3 * y.numel(), dtype=y.dtype)
        z, there = searched(residual, start, whole, scale, bound, 7)
        rows = z.reshape(3, -1)
        weights = ad.tensor(self._E, dtype=y.dtype)
        real = system.mass_matrix(y) * (self._MU / h) - matrix
        lu, pivots, _ = ad.linalg.lu_factor_ex(real)
        moved = system.massed(weights @ rows) / h

        def estimate(f: Tensor) -> Tensor:
            solved: Tensor = ad.linalg.lu_solve(lu, pivots, (f + moved)[:, None])[:, 0]
            return solved

        error = estimate(system.slope(t, y))
        # Once more, filtered: otherwise stiff parts of the error make steps too short.
        error = estimate(system.slope(t, y + error))
        return z, ad.where(there, error, ad.inf)

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        p = ad.tensor(self._P, dtype=y.dtype)
        weights = theta[..., None] ** ad.arange(1, 4, dtype=y.dtype) @ p.mT
        return y + (weights[..., None, :] @ between[0]).squeeze(-2)
