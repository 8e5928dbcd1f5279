"""Which way to solve with the derivative of a residual: whole, sparse, or by its products.

Up to a few thousand unknowns the whole matrix is computed and factored. Beyond, a few of its
columns tell whether it is sparse.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched

from ._large import ByFactors, ByProducts, Map, product_with
from ._linear import Dense, Linear, Residual
from ._result import ConvergenceError, OptimizeResult

__all__ = ["linear_for"]

_WHOLE = 2000  # unknowns up to which the matrix is computed whole
_PROBES = 3
_KEPT = 1 << 24  # numbers in the vectors that GMRES keeps
_FEW = 200  # entries in a column of a matrix that counts as sparse


def linear_for(
    name: str, residual: Residual, x: Tensor, how: Any = None, symmetric: bool = False
) -> Linear:
    """How to solve with the derivative of a residual near ``x``.

    Parameters
    ----------
    how
        ``"sparse"``, ``"products"``, ``"exact"`` for the whole matrix, or None to choose.
    symmetric
        Whether the matrix is.
    """
    if how not in (None, False, "exact", "sparse", "products"):
        raise TypeError(
            f"{name}(): the derivative is 'exact', 'sparse' (by colours) or 'products' (by a "
            f"method of Krylov's kind), a function, or None; got {how!r}"
        )
    if how == "exact" or (x.numel() <= _WHOLE and not how):
        return Dense()
    with ad.no_grad():
        if is_batched(residual(x)):
            return Dense()  # samples have whole matrices
        if not how:  # a program keeps to what its recording has chosen
            few = _core._unrecorded(lambda: _is_sparse(residual, x))
            how = "sparse" if few else "products"
    return ByFactors() if how == "sparse" else ByProducts(_krylov(name, symmetric))


def _is_sparse(residual: Residual, x: Tensor) -> bool:
    product, n = product_with(residual, x), x.numel()
    for k in range(1, _PROBES + 1):
        unit = ad.zeros_like(x)
        unit[k * n // (_PROBES + 1)] = 1
        if int((product(unit) != 0).sum()) > _FEW:
            return False
    return True


def _krylov(name: str, symmetric: bool) -> Any:
    method = "minres" if symmetric else "gmres"

    def solve(product: Map, b: Tensor) -> Tensor:
        from adjoint.sparse.linalg._krylov import Broken, Limits, solved

        n = b.numel()
        kept = min(n, max(60, _KEPT // n))
        limits = Limits(ad.finfo(b.dtype).eps ** 0.64, 0.0, 10 * n, kept, None)
        try:
            x, _, _ = solved(
                method, lambda v: product(v.squeeze(1)).unsqueeze(1), None, b[:, None], None, limits
            )
        except Broken as stop:
            raise ConvergenceError(
                f"{name}(): {method} could not solve with the derivative of {b.numel()} equations: "
                f"{stop}.\n  fix: 'sparse' in place of 'products' (jac=, or hess= of minimize), if "
                "few unknowns take part in each equation; or scale them to one size",
                OptimizeResult(success=False, message=str(stop)),
            ) from None
        return x.squeeze(1)

    return solve
