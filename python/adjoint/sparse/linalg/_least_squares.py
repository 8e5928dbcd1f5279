"""``lsqr``: least squares with sparse matrices and operators.

With full rank the solution is ``(AᴴA + d²)⁻¹ Aᴴ b``, or ``Aᴴ (AAᴴ + d²)⁻¹ b`` for fewer equations
than unknowns. `NormalSolution` is the inverse in it as a node of the graph. It is applied by two
runs of the bidiagonalisation of Golub and Kahan, one with ``Aᴴ`` and one with ``A``, which loses no
more digits than ``A`` itself takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import everywhere, largest_value
from adjoint._tensor.creation import as_tensor
from adjoint.autograd.function import Function
from adjoint.optimize._implicit import answer
from adjoint.optimize._large import ByProducts
from adjoint.optimize._result import ConvergenceError, OptimizeResult
from adjoint.sparse._matrix import SparseMatrix, product
from adjoint.sparse._places import Places

from ._krylov import over, size
from ._operator import LinearOperator, aslinearoperator, matrix_of
from ._solution import entries_of_product, run_on_host

__all__ = ["lsqr"]

Map = Callable[[Tensor], Tensor]


def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float | None = None,
    btol: float | None = None,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """Minimise ``‖A x - b‖² + damp² ‖x‖²``; differentiable by ``b`` and by what ``A`` reads.

    Parameters
    ----------
    A
        A matrix of any kind or a `LinearOperator`, of any shape, with full rank unless ``damp`` is
        given.
    b
        The right side, a vector.
    damp
        How much a long solution costs.
    atol, btol
        Relative errors of the matrix and the right side at which it is exact enough; tighter here
        than SciPy's 1e-6, since derivatives go by the answer.
    conlim, show, calc_var, x0
        SciPy's; without effect.
    iter_lim
        How many steps there may be.

    Returns
    -------
    tuple
        SciPy's ten: ``x``, ``istop``, ``itn``, ``r1norm``, ``r2norm``, ``anorm``, ``acond``,
        ``arnorm``, ``xnorm``, ``var``; those that are not computed are None.

    Raises
    ------
    ConvergenceError
        If it did not get there, as where the rank is not full.

    Examples
    --------
    >>> import adjoint as ad
    >>> A = ad.sparse.coo_array((ad.ones(4, dtype=ad.float64), ([0, 1, 2, 2], [0, 0, 0, 1])))
    >>> x, *_ = ad.sparse.linalg.lsqr(A, ad.tensor([1.0, 3.0, 5.0], dtype=ad.float64))
    >>> x.round(decimals=6)
    tensor([2., 3.], dtype=torch.float64)
    """
    matrix = matrix_of(A)
    operator = aslinearoperator(A if matrix is None else matrix)
    b = as_tensor(b)
    n, m = operator.shape
    if b.shape != (n,):
        raise ValueError(f"lsqr(): a matrix of shape ({n}, {m}) and b of shape {list(b.shape)}")
    dtype = _core.promote_types(b.dtype, operator.dtype or b.dtype)
    b = b.to(dtype if dtype.is_floating_point or dtype.is_complex else _core.float64)
    given = [t for t in (atol, btol) if t is not None]
    tolerance = min(given) if given else ad.finfo(b.dtype).eps ** 0.8
    limits = _Limits(float(damp), tolerance, 20 * max(n, m) if iter_lim is None else iter_lim)
    if matrix is not None:
        x, steps = _of_matrix(matrix.to(b.dtype), b, limits)
    else:
        x, steps = _of_operator(operator, b, limits)
    with ad.no_grad():
        rest = b - operator.matvec(x)
        r1, length = ad.linalg.vector_norm(rest), ad.linalg.vector_norm(x)
        r2 = ad.hypot(r1, damp * length)
        slope = ad.linalg.vector_norm(operator.rmatvec(rest) - damp**2 * x)
    return x, 1 if float(damp) == 0 else 2, steps, r1, r2, None, None, slope, length, None


class _Limits(NamedTuple):
    damp: float
    tolerance: float
    most: int


# --- one run --------------------------------------------------------------------------------------
def bidiagonalised(A: Map, AH: Map, b: Tensor, limits: _Limits) -> tuple[Tensor, int]:
    """The least squares solution for columns of ``b``, and the steps: Paige and Saunders."""
    with CallsBar("lsqr") as bar:
        return _bidiagonalised(bar.counting(A), AH, b, limits)


def _bidiagonalised(A: Map, AH: Map, b: Tensor, limits: _Limits) -> tuple[Tensor, int]:
    damp, goal, most = limits
    beta = size(b)
    u = over(b, beta.expand_as(b))
    v = AH(u)
    alpha = size(v)
    v = over(v, alpha.expand_as(v))
    w, x = v, ad.zeros_like(v)
    low, rest, first = alpha, beta, alpha * beta
    norm = 0 * beta  # of the matrix, so far
    last = 0
    for step in range(1, most + 1):
        u = A(v) - alpha * u
        beta = size(u)
        u = over(u, beta.expand_as(u))
        norm = ad.sqrt(norm**2 + alpha**2 + beta**2 + damp**2)
        v = AH(u) - beta * v
        alpha = size(v)
        v = over(v, alpha.expand_as(v))
        # Rotate the damping away, then what stands below the diagonal.
        high = ad.hypot(low, damp + 0 * low)
        rest = over(low, high) * rest
        rho = ad.hypot(high, beta)
        cosine, sine = over(high, rho), over(beta, rho)
        along, low = sine * alpha, -cosine * alpha
        done = (rho == 0) | (first == 0)
        x = x + ad.where(done, 0.0, over(cosine * rest, rho)) * w
        w = v - over(along, rho) * w
        rest = sine * rest
        slope = (low * rest).abs()  # the length of the gradient
        # The gradient is small beside the residual, or the residual beside the right side.
        fine = (slope <= goal * norm * rest.abs()) | (rest.abs() <= goal * norm * size(x)) | done
        fine = fine | (slope <= 1e-300)
        if everywhere(fine):
            last += 1
            if last >= 2:
                return x, step
        else:
            last = 0
    raise ConvergenceError(
        f"lsqr() found no least squares solution in {most} steps: the gradient is "
        f"{largest_value(over(slope, first)):.3g} of that at the start.\n"
        "  fix: allow more steps (iter_lim=...), add damp= if columns depend on one another, or "
        "scale columns to one length",
        OptimizeResult(x=x, success=False, status=7, message="steps"),
    )


def _normal(A: Map, AH: Map, g: Tensor, limits: _Limits, rows: int) -> tuple[Tensor, int]:
    """``(AᴴA + d²)⁻¹ g``: the shortest y with [A; d]ᴴ y = g, then least squares with [A; d]."""
    d = limits.damp
    plain = limits._replace(damp=0.0)
    if d:
        columns = g.shape[0]

        def down(v: Tensor) -> Tensor:
            return ad.cat([A(v), d * v])

        def up(u: Tensor) -> Tensor:
            return AH(u[:rows]) + d * u[rows : rows + columns]

        y, one = bidiagonalised(up, down, g, plain)
        x, two = bidiagonalised(down, up, y, plain)
    else:
        y, one = bidiagonalised(AH, A, g, plain)
        x, two = bidiagonalised(A, AH, y, plain)
    return x, one + two


# --- matrices -------------------------------------------------------------------------------------
def _of_matrix(matrix: SparseMatrix, b: Tensor, limits: _Limits) -> tuple[Tensor, int]:
    n, m = matrix.shape
    steps: list[int] = []
    if n >= m:
        right = (matrix.H @ b).unsqueeze(1)
        x = NormalSolution.apply(limits, steps, matrix.places, matrix.values, right).squeeze(1)
    else:
        turned = matrix.H
        y = NormalSolution.apply(limits, steps, turned.places, turned.values, b.unsqueeze(1))
        x = turned @ y.squeeze(1)
    return x, sum(steps)


def _apply(places: Places, values: Tensor, v: Tensor) -> Tensor:
    return product(places, values, v)


def _apply_adjoint(places: Places, values: Tensor, u: Tensor) -> Tensor:
    turned, order = places.transposed
    values = values[order]
    return product(turned, values.conj_physical() if values.is_complex() else values, u)


class NormalSolution(Function):
    """``(AᴴA + d²)⁻¹ g`` for columns ``g``; its derivatives are of the same kind."""

    @staticmethod
    def forward(
        ctx: Any, limits: _Limits, steps: list[int], places: Places, values: Tensor, g: Tensor
    ) -> Tensor:
        def run(given: Any) -> list[Tensor]:
            v, right = given
            with ad.no_grad():
                x, count = _normal(
                    lambda t: _apply(places, v, t),
                    lambda t: _apply_adjoint(places, v, t),
                    right,
                    limits,
                    places.shape[0],
                )
            steps[:] = [count]
            return [x]

        turned, order = places.transposed
        also = [places.rows, places.columns, turned.rows, turned.columns, order]
        (x,) = run_on_host(run, [values, g], also, [g])
        ctx.what = limits, steps, places
        ctx.save_for_backward(values, x)
        if _core._current_dual_level() >= 0:
            ctx.save_for_forward(values, x)
        return x

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Any:
        values, x = ctx.saved_tensors
        w = NormalSolution.apply(*ctx.what, values, h)
        by_values = None
        if ctx.needs_input_grad[3]:
            places = ctx.what[2]
            left, right = _apply(places, values, x), _apply(places, values, w)
            by_values = -(
                entries_of_product(places, left, w) + entries_of_product(places, right, x)
            )
        return None, None, None, by_values, w

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, ___: Any, dvalues: Any, dg: Any) -> Any:
        values, x = ctx.saved_tensors
        places, moved = ctx.what[2], dg
        if dvalues is not None:
            pull = _apply_adjoint(places, dvalues, _apply(places, values, x))
            pull = pull + _apply_adjoint(places, values, _apply(places, dvalues, x))
            moved = -pull if moved is None else moved - pull
        return NormalSolution.apply(*ctx.what, values, moved)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> Any:
        *what, values, g = given
        of_values, of_g = in_dims[3:]
        each = []
        for k in range(info.batch_size):
            row = values if of_values is None else values.select(of_values, k)
            right = g if of_g is None else g.select(of_g, k)
            each.append(NormalSolution.apply(*what, row, right))
        return _core.stack(each), 0


# --- operators ------------------------------------------------------------------------------------
def _of_operator(operator: LinearOperator, b: Tensor, limits: _Limits) -> tuple[Tensor, int]:
    n, m = operator.shape
    if n < m and not limits.damp:
        raise NotImplementedError(
            f"lsqr(): an operator of shape ({n}, {m}) has many solutions; the shortest one has a "
            "derivative here only for matrices.\n  fix: give damp=, or a sparse matrix"
        )
    operator.check(b)

    def residual(x: Tensor) -> Tensor:
        slope = operator.rmatvec(operator.matvec(x) - b)
        return slope + limits.damp**2 * x

    def method(_: Any, right: Tensor) -> Tensor:
        found, _ = _normal(operator.matmat, operator.rmatmat, right.unsqueeze(1), limits, n)
        return found.squeeze(1)

    with ad.no_grad():
        x, steps = bidiagonalised(
            operator.matmat, operator.rmatmat, b.detach().unsqueeze(1), limits
        )
    return answer(residual, x.squeeze(1), ByProducts(method)), steps
