"""Systems with banded matrices, with SciPy's names.

A matrix with l diagonals below and u above the main one is given by its diagonals: ``ab`` has
l + u + 1 rows, and ``ab[u + i - j, j]`` is the element (i, j). The ops are in
src/ops/linalg/band.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._plain import refuse_structures
from adjoint._tensor.creation import as_tensor

__all__ = ["solve_banded", "solveh_banded"]


def solve_banded(
    l_and_u: Sequence[int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Solve ``a x = b`` for a banded matrix ``a``; differentiable by its diagonals and by ``b``.

    Rows are exchanged where the diagonal does not dominate. The factors of a matrix serve its
    derivatives of every order too. Three diagonals cost about 5 ns for each unknown.

    Parameters
    ----------
    l_and_u
        ``(l, u)``: how many diagonals there are below and above the main one.
    ab
        ``(..., l + u + 1, n)``: the diagonals, ``ab[u + i - j, j] == a[i, j]``. Elements that lie
        outside the matrix are not read, and their gradients are zero.
    b
        ``(n,)``, or ``(..., n, k)`` for several right sides; leading axes broadcast.
    overwrite_ab, overwrite_b
        SciPy's; without effect: nothing is overwritten.
    check_finite
        Whether NaN and infinite numbers are refused, by ``ValueError``; inside programs and
        transforms they go through.

    Examples
    --------
    >>> import adjoint as ad
    >>> ab = ad.tensor([[0.0, -1, -1], [2, 2, 2], [-1, -1, 0]], dtype=ad.float64)
    >>> ad.linalg.solve_banded((1, 1), ab, ad.ones(3, dtype=ad.float64))
    tensor([1.5000, 2.0000, 1.5000], dtype=torch.float64)
    """
    lower, upper = _pair(l_and_u)
    ab, b = _of_one_dtype(ab, b)
    if check_finite:
        _refuse_infinite("solve_banded", ab, b)
    if b.ndim == 1:
        return _core._band_solve(ab, b.unsqueeze(-1), lower, upper).squeeze(-1)
    return _core._band_solve(ab, b, lower, upper)


def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Solve ``a x = b`` for a symmetric or Hermitian banded matrix, of which half is given.

    Parameters
    ----------
    ab
        ``(..., u + 1, n)``: the diagonals from the outermost to the main one,
        ``ab[u + i - j, j] == a[i, j]``; with ``lower`` from the main one down,
        ``ab[i - j, j] == a[i, j]``.
    b, overwrite_ab, overwrite_b, check_finite
        As `solve_banded` has them.

    Notes
    -----
    The matrix need not be positive definite, as SciPy's function wants it; a singular one is
    refused.

    Examples
    --------
    >>> import adjoint as ad
    >>> ab = ad.tensor([[0.0, -1, -1], [2, 2, 2]], dtype=ad.float64)
    >>> ad.linalg.solveh_banded(ab, ad.ones(3, dtype=ad.float64))
    tensor([1.5000, 2.0000, 1.5000], dtype=torch.float64)
    """
    ab, b = _of_one_dtype(ab, b)
    if check_finite:
        _refuse_infinite("solveh_banded", ab, b)
    if ab.ndim < 2:
        raise ValueError(f"solveh_banded(): ab must have two axes, but its shape is {ab.shape}")
    width, n = ab.shape[-2] - 1, ab.shape[-1]
    if width > max(n - 1, 0):
        raise ValueError(f"solveh_banded(): a matrix of order {n} has no {width} outer diagonals")
    # The other half is this one, conjugated, each diagonal moved to the columns it has there.
    other = []
    for offset in range(1, width + 1):
        row = ab[..., offset, : n - offset] if lower else ab[..., width - offset, offset:]
        pad = (offset, 0) if lower else (0, offset)
        other.append(_core.constant_pad_nd(row.conj(), pad))
    halves = [*reversed(other), *ab.unbind(-2)] if lower else [*ab.unbind(-2), *other]
    return solve_banded((width, width), _core.stack(halves, -2), b, check_finite=False)


def _refuse_infinite(name: str, ab: Tensor, b: Tensor) -> None:
    if _core._is_recording() or _core._loop_mode():
        return
    for what, t in (("ab", ab.detach()), ("b", b.detach())):
        # A sum is quick, and not finite if an element is not.
        if not bool(_core.isfinite(t.sum())) and not bool(_core.isfinite(t).all()):
            raise ValueError(
                f"{name}(): {what} must not contain infs or NaNs\n"
                "  fix: check_finite=False lets them go through"
            )


def _pair(l_and_u: Any) -> tuple[int, int]:
    try:
        lower, upper = (int(k) for k in l_and_u)
    except (TypeError, ValueError):
        raise ValueError(
            f"solve_banded(): l_and_u must be two whole numbers (l, u), got {l_and_u!r}"
        ) from None
    return lower, upper


def _of_one_dtype(ab: Any, b: Any) -> tuple[Tensor, Tensor]:
    refuse_structures("solve_banded", ab, b)
    ab, b = (t if isinstance(t, Tensor) else as_tensor(t) for t in (ab, b))
    if ab.dtype == b.dtype and (ab.is_floating_point() or ab.is_complex()):
        return ab, b
    dtype = _core.promote_types(ab.dtype, b.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = _core.get_default_dtype()
    return ab.to(dtype), b.to(dtype)
