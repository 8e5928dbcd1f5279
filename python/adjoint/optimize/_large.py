"""Solving with the derivative of a residual that is too large to be written down.

The matrix is known by its products (forward and reverse mode) and solved with by Krylov's methods,
or it is sparse, found by colours, and factored. Read _linear.py and _implicit.py first.

Note [Transposed answers]: where gradients are differentiated again, the transposed solve is itself
an answer: of the linear equation ``Aᵀ u = g``, whose residual is made of recorded operations. So
one solver serves derivatives of every order.

Note [Frozen steps]: where the answer has to be made of ordinary operations (Note [Answers in
ordinary operations]), Newton's steps are taken with the matrix as it is at the answer, a constant.
Each of them is exact to one more order of the derivative; three are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint._transforming import outside_transforms
from adjoint.autograd import Function
from adjoint.func import jacobian, jvp, vjp

from ._inside import is_inside
from ._linear import Dense, Linear, Residual, linalg_error

__all__ = ["ByFactors", "ByProducts", "Large", "product_with", "transposed_product_with"]

_DENSE_SAMPLES = 2000  # unknowns up to which the samples of a vmap have whole matrices

Map = Callable[[Tensor], Tensor]


def product_with(residual: Residual, x: Tensor) -> Map:
    """Products with the derivative of a residual at ``x``."""
    return lambda v: jvp(residual, (x,), (v,))[1]


def transposed_product_with(residual: Residual, x: Tensor) -> Map:
    """Products with its transpose: one evaluation serves them all."""
    with ad.enable_grad():
        _, pull = vjp(residual, x)

    def product(u: Tensor) -> Tensor:
        with ad.enable_grad():
            found: Tensor = pull(u)[0]
        return found

    return product


class Large(Linear):
    """A matrix that is solved with, but not written down."""

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        """``A⁻¹ b`` or ``A⁻ᵀ b``, without history; ``x`` and ``b`` are vectors."""
        raise NotImplementedError

    def solve(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        with ad.no_grad():
            solved: Tensor = _Frozen.apply(self, residual, x.detach(), False, b.detach())
        return solved

    def newton_step(self, residual: Residual, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        try:
            return self.solve(residual, x, r), ad.tensor(True)
        except linalg_error:
            return ad.zeros_like(x), ad.tensor(False)

    def solve_transposed(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        with ad.no_grad():
            u: Tensor = _Frozen.apply(self, residual, x.detach(), True, b.detach())
        if not ad.is_grad_enabled():
            return u
        from ._implicit import answer  # Note [Transposed answers]

        def equation(w: Tensor) -> Tensor:
            return transposed_product_with(residual, x)(w) - b

        return answer(equation, u, _Turned(self, residual, x.detach()))

    def by_steps(self, residual: Residual, x: Tensor, r: Tensor, steps: int) -> Tensor:
        if is_batched(r):
            if x.numel() > _DENSE_SAMPLES:
                raise NotImplementedError(
                    f"the derivative of an answer with {x.numel()} unknowns by the samples of vmap "
                    f"needs whole matrices, which are refused beyond {_DENSE_SAMPLES}.\n"
                    "  fix: put the derivative and the solver into a loop over the samples"
                )
            return Dense().by_steps(residual, x, r, steps)
        return self._by_frozen_steps(residual, x, r)

    def _by_frozen_steps(self, residual: Residual, x: Tensor, r: Tensor) -> Tensor:
        at = x
        for k in range(3):  # Note [Frozen steps]
            x = x - _Frozen.apply(self, residual, at, False, r if k == 0 else residual(x))
        return x


class _Turned(Large):
    """The transpose of another."""

    def __init__(self, of: Large, residual: Residual, x: Tensor) -> None:
        self._of, self._residual, self._x = of, residual, x

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        return self._of.raw(self._residual, self._x, b, not transposed)

    def by_steps(self, residual: Residual, x: Tensor, r: Tensor, steps: int) -> Tensor:
        # Samples are those of gradients: a node stands for an equation without any.
        return self._by_frozen_steps(residual, x, r)


class _Frozen(Function):
    """``A⁻¹ r`` or ``A⁻ᵀ r`` as a function of ``r`` alone."""

    allow_hidden_tensors = True  # the matrix is a constant: Note [Frozen steps]
    generate_vmap_rule = True  # of directions: the matrix is the same for all

    @staticmethod
    def forward(
        ctx: Any, large: Large, residual: Residual, x: Tensor, transposed: bool, r: Tensor
    ) -> Tensor:
        ctx.what = large, residual, x, transposed
        # Transforms around this one are not meant for the solver's own derivatives.
        with outside_transforms:
            solved: Tensor = _core._call_apart(large.raw, (residual, x, r, transposed), None)
        return solved

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        large, residual, x, transposed = ctx.what
        return None, None, None, None, _Frozen.apply(large, residual, x, not transposed, g)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _Frozen.apply(*ctx.what, tangents[-1])


class ByProducts(Large):
    """By a method that needs products only.

    Parameters
    ----------
    method
        ``method(product, b)`` gives ``A⁻¹ b``, or raises.
    transposed_method
        The same with products of the transpose; ``method`` if it is not given.
    """

    def __init__(
        self,
        method: Callable[[Map, Tensor], Tensor],
        transposed_method: Callable[[Map, Tensor], Tensor] | None = None,
    ) -> None:
        self._methods = method, transposed_method or method

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        make = transposed_product_with if transposed else product_with
        if is_inside():  # a program of products has all of the residual in it
            return self._methods[transposed](lambda v: make(residual, x)(v).detach(), b)
        product = make(residual, x)
        return self._methods[transposed](lambda v: product(v).detach(), b)


class ByFactors(Large):
    """By the factors of a sparse matrix, which is found by colours."""

    def __init__(self) -> None:
        self._known: tuple[Tensor, Any] | None = None
        self._derivative: Any = None

    def anew(self) -> ByFactors:
        return ByFactors()

    def matrix_at(self, residual: Residual, x: Tensor) -> Any:
        """The matrix, with what belongs to its places."""
        from adjoint.sparse import matrix

        if self._known is None or self._known[0] is not x:
            if self._derivative is None:
                self._derivative = jacobian(residual)
            self._known = x, matrix(self._derivative(x))
        return self._known[1]

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        from adjoint.sparse.linalg import splu

        factored = splu(self.matrix_at(residual, x))
        return factored.solve(b, "T" if transposed else "N")
