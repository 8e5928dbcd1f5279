"""Every op of linear algebra: a call whose result is unique, inputs, and NumPy's or SciPy's answer.

Factors that are unique only up to signs or phases are compared by what they make up. Inputs keep
their properties under small changes, so that derivatives can be checked by differences: a call that
needs a Hermitian matrix makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    call: Callable[..., Any]  # of the library and tensors
    inputs: Callable[[Any, tuple[int, ...], int], list[Array]]  # of numbers, batch and size
    reference: Callable[..., Any]  # of arrays
    real_only: bool = False


def hermitian(a: Any) -> Any:
    return (a + a.mT.conj()) / 2


def real_diagonal(L: Any, a: Any) -> Any:
    """A factor of Cholesky: LAPACK takes its diagonal to be real."""
    diagonal = a.diagonal(dim1=-2, dim2=-1).real if a.is_complex() else a.diagonal(dim1=-2, dim2=-1)
    return a.tril(-1) + L.diag_embed(diagonal).to(a.dtype)


def herm(a: Array) -> Array:
    return (a + a.swapaxes(-1, -2).conj()) / 2


def general(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    return [draw(*batch, n, n) + 2 * np.eye(n)]


def positive(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    a = draw(*batch, n, n)
    return [a @ a.swapaxes(-1, -2).conj() + np.eye(n)]


def with_sides(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    return [*general(draw, batch, n), draw(*batch, n, 2)]


def positive_with_sides(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    return [draw(*batch, n, 2), np.linalg.cholesky(positive(draw, batch, n)[0])]


def triangular_with_sides(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    return [np.triu(draw(*batch, n, n)) + 3 * np.eye(n), draw(*batch, n, 2)]


def distinct(draw: Any, batch: tuple[int, ...], n: int) -> list[Array]:
    """Matrices with eigenvalues and singular values far apart."""
    q = np.linalg.qr(draw(*batch, n, n))[0]
    return [(q * (1.0 + 1.5 * np.arange(n))) @ np.linalg.inv(q + 0.1 * draw(*batch, n, n))]


def sorted_by_size(w: Any) -> Any:
    return w.abs().sort(-1).values


def inverse_reference(*arrays: Array) -> Array:
    return np.linalg.inv(arrays[0])


def lu_product(parts: Any) -> Any:
    p, lower, upper = parts
    return p @ lower @ upper


def _lu_factored(L: Any, a: Any) -> Any:
    return lu_product(L.lu_unpack(*L.linalg.lu_factor(a)[:2]))


def _lu_ex(L: Any, a: Any) -> Any:
    return lu_product(L.lu_unpack(*L.linalg.lu_factor_ex(a)[:2]))


def _log(a: Array) -> Array:
    return np.asarray(np.linalg.slogdet(a)[1])


CASES: dict[str, Case] = {
    "linalg_cholesky": Case(
        lambda L, a: L.linalg.cholesky(hermitian(a)), positive, np.linalg.cholesky
    ),
    "linalg_cholesky_ex": Case(
        lambda L, a: L.linalg.cholesky_ex(hermitian(a), upper=True)[0],
        positive,
        lambda a: np.linalg.cholesky(a).swapaxes(-1, -2).conj(),
    ),
    "cholesky": Case(lambda L, a: L.cholesky(hermitian(a)), positive, np.linalg.cholesky),
    "cholesky_solve": Case(
        lambda L, b, c: L.cholesky_solve(b, c.tril()),
        positive_with_sides,
        lambda b, c: np.linalg.solve(c @ c.swapaxes(-1, -2).conj(), b),
    ),
    "cholesky_inverse": Case(
        lambda L, c: L.cholesky_inverse(real_diagonal(L, c)),
        lambda draw, batch, n: positive_with_sides(draw, batch, n)[1:],
        lambda c: np.linalg.inv(c @ c.swapaxes(-1, -2).conj()),
    ),
    "linalg_det": Case(lambda L, a: L.linalg.det(a), general, np.linalg.det),
    "det": Case(lambda L, a: a.det(), general, np.linalg.det),
    "linalg_slogdet": Case(lambda L, a: L.linalg.slogdet(a)[1], general, _log),
    "slogdet": Case(lambda L, a: L.slogdet(a)[1], general, _log),
    "logdet": Case(lambda L, a: L.logdet(a @ a.mT), general, lambda a: 2 * _log(a), real_only=True),
    "linalg_eig": Case(
        lambda L, a: (lambda w, v: (v * w.unsqueeze(-2)) @ L.linalg.inv(v))(*L.linalg.eig(a)),
        distinct,
        lambda a: a.astype(np.complex128),
    ),
    "linalg_eigvals": Case(
        lambda L, a: sorted_by_size(L.linalg.eigvals(a)),
        distinct,
        lambda a: np.sort(abs(np.linalg.eigvals(a)), -1),
    ),
    "linalg_eigh": Case(
        lambda L, a: (lambda w, v: (v * w.sin().unsqueeze(-2)) @ v.mT.conj())(
            *L.linalg.eigh(hermitian(a))
        ),
        distinct,
        lambda a: (lambda w, v: (v * np.sin(w)[..., None, :]) @ v.swapaxes(-1, -2).conj())(
            *np.linalg.eigh(herm(a))
        ),
    ),
    "linalg_eigvalsh": Case(
        lambda L, a: L.linalg.eigvalsh(hermitian(a)),
        distinct,
        lambda a: np.linalg.eigvalsh(herm(a)),
    ),
    "linalg_lu_factor_ex": Case(_lu_ex, general, lambda a: a),
    "linalg_lu_factor": Case(_lu_factored, general, lambda a: a),
    "lu_unpack": Case(_lu_factored, general, lambda a: a),
    "linalg_lu": Case(lambda L, a: lu_product(L.linalg.lu(a)), general, lambda a: a),
    "linalg_lu_solve": Case(
        lambda L, a, b: L.linalg.lu_solve(*L.linalg.lu_factor(a), b), with_sides, np.linalg.solve
    ),
    "lu_solve": Case(
        lambda L, a, b: L.lu_solve(b, *L.linalg.lu_factor(a)), with_sides, np.linalg.solve
    ),
    "linalg_solve": Case(lambda L, a, b: L.linalg.solve(a, b), with_sides, np.linalg.solve),
    "linalg_solve_ex": Case(
        lambda L, a, b: L.linalg.solve_ex(a, b)[0], with_sides, np.linalg.solve
    ),
    "linalg_inv": Case(lambda L, a: L.linalg.inv(a), general, inverse_reference),
    "linalg_inv_ex": Case(lambda L, a: L.linalg.inv_ex(a)[0], general, inverse_reference),
    "inverse": Case(lambda L, a: a.inverse(), general, inverse_reference),
    "linalg_svd": Case(
        lambda L, a: (lambda u, s, vh: (u * s.sin().unsqueeze(-2)) @ vh)(
            *L.linalg.svd(a, full_matrices=False)
        ),
        distinct,
        lambda a: (lambda u, s, vh: (u * np.sin(s)[..., None, :]) @ vh)(
            *np.linalg.svd(a, full_matrices=False)
        ),
    ),
    "svd": Case(
        lambda L, a: (lambda u, s, v: (u * s.unsqueeze(-2)) @ v.mT.conj())(*L.svd(a)),
        distinct,
        lambda a: a,
    ),
    "linalg_svdvals": Case(
        lambda L, a: L.linalg.svdvals(a), distinct, lambda a: np.linalg.svd(a, compute_uv=False)
    ),
    "linalg_solve_triangular": Case(
        lambda L, a, b: L.linalg.solve_triangular(a.triu(), b, upper=True),
        triangular_with_sides,
        np.linalg.solve,
    ),
    "triangular_solve": Case(
        lambda L, a, b: L.triangular_solve(b, a.triu())[0], triangular_with_sides, np.linalg.solve
    ),
}
