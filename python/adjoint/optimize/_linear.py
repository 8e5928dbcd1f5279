"""Solving with the derivative of a residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import batch_of, has_tangent
from adjoint.func import jacfwd

__all__ = ["Dense", "Linear", "singular"]

Residual = Callable[[Tensor], Tensor]

lu_solve: Any = ad.linalg.lu_solve
linalg_error: Any = ad.linalg.LinAlgError


class Linear:
    """How to solve with the matrix ``A``: the derivative of a residual at ``x``."""

    def matrix(self, residual: Residual, x: Tensor) -> Tensor:
        """The matrix, with the history that the residual gives it."""
        raise NotImplementedError

    def solve_matrix(self, matrix: Tensor, b: Tensor) -> Tensor:
        """``A⁻¹ b`` by operations that can be differentiated."""
        raise NotImplementedError

    def solve(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        """``A⁻¹ b``."""
        raise NotImplementedError

    def solve_transposed(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        """``A⁻ᵀ b``."""
        raise NotImplementedError

    def newton_step(self, residual: Residual, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """``A⁻¹ r`` without history, and whether there is one; for each sample of a `vmap`."""
        raise NotImplementedError

    def factored(
        self, residual: Residual, x: Tensor
    ) -> tuple[Callable[[Tensor], Tensor], Tensor] | None:
        """A solver with ``A`` at ``x`` for several right sides, and whether there is one.

        None where every solve costs as much as the first.
        """
        return None

    def anew(self) -> Linear:
        """The same way of solving, with nothing that is known of the residual."""
        return self

    def by_steps(self, residual: Residual, x: Tensor, r: Tensor, steps: int) -> Tensor:
        """See Note [Answers in ordinary operations] in _implicit.py."""
        with ad.no_grad():
            matrix = self.matrix(residual, x).detach()
        x = x - self.solve_matrix(matrix, r)
        for _ in range(steps - 1):
            x = x - self.solve_matrix(self.matrix(residual, x), residual(x))
        return x


class Dense(Linear):
    """The whole matrix, factored once for a point."""

    def __init__(self, jacobian: Callable[[Tensor], Tensor] | None = None) -> None:
        self._jacobian = jacobian
        self._factors: Any = None

    def anew(self) -> Dense:
        return Dense()

    def matrix(self, residual: Residual, x: Tensor) -> Tensor:
        made: Tensor = jacfwd(residual)(x) if self._jacobian is None else self._jacobian(x)
        return made

    def solve_matrix(self, matrix: Tensor, b: Tensor) -> Tensor:
        return _solved(matrix, b)

    def newton_step(self, residual: Residual, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        step, info = ad.linalg.solve_ex(self.matrix(residual, x), r)
        return step, info == 0

    def factored(self, residual: Residual, x: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        lu, pivots, info = ad.linalg.lu_factor_ex(self.matrix(residual, x))

        def solve(b: Tensor) -> Tensor:
            solved: Tensor = lu_solve(lu, pivots, b[..., None])
            return solved[..., 0]

        return solve, info == 0

    def solve(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        if not ad.is_grad_enabled() and not has_tangent(x):
            return self._by_factors(residual, x, b, False)
        return _solved(self.matrix(residual, x), b)

    def solve_transposed(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        if not ad.is_grad_enabled():
            return self._by_factors(residual, x, b, True)
        return _solved(self.matrix(residual, x).mT, b)

    def _by_factors(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        factors = self._factors
        if factors is None or ad._core._is_recording():
            lu, pivots, info = ad.linalg.lu_factor_ex(self.matrix(residual, x.detach()).detach())
            _raise_if_singular(info, x)
            factors = lu, pivots
            if not ad._core._is_recording():
                self._factors = factors
        lu, pivots = factors
        solved: Tensor = lu_solve(lu, pivots, b[..., None], adjoint=transposed)
        return solved[..., 0]


def _raise_if_singular(info: Tensor, x: Tensor) -> None:
    def check(given: Sequence[Tensor]) -> list[Tensor]:
        if bool((given[0] != 0).any()):
            raise singular(x)
        return []

    whole = [batch_of(info).whole(info)]
    if ad._core._is_recording():
        ad._core._host_call(check, whole)  # a program asks again in each of its runs
    else:
        check(whole)


def _solved(matrix: Tensor, b: Tensor) -> Tensor:
    try:
        solved: Tensor = ad.linalg.solve(matrix, b)
    except linalg_error as error:
        raise singular(b) from error
    return solved


def singular(x: Tensor) -> Exception:
    """What is raised where an answer has no derivative."""
    made: Exception = linalg_error(
        f"the answer has no derivative: the derivative of the residual by the {x.shape[-1]} "
        f"unknowns is "
        "singular there, so that the answer is not isolated, or a multiple root.\n"
        "  fix: add the equation that picks one answer, or take the answer by .detach()"
    )
    return made
