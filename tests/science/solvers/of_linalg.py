"""`adjoint.linalg`: what solves and factors.

Rows and columns in units of their own cost solutions nothing; those of eigenvalues and singular
values are scaled as a whole, as a small one beside a large one has the digits of the large one.
"""

from __future__ import annotations

from typing import Any

from mpmath import mp

import adjoint as ad
from adjoint import linalg

from .matrices import (
    FAR,
    ONES,
    UNITS,
    at,
    definite,
    flat,
    general,
    numbers,
    right,
    symmetric,
    tall,
    tensors,
    times,
    whole,
)
from .references import DIRECT, Case, Numbers, linear, normal, rowed, stacked

CASES: list[Case] = []
# Ops that solve nothing (tests/ops has each beside long doubles), factors without derivatives, and
# what counts.
NOT_SOLVERS = (
    "LinAlgError",
    "cross",
    "diagonal",
    "householder_product",
    "ldl_factor",
    "ldl_factor_ex",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "vander",
    "vecdot",
    "vector_norm",
)
SCALES = ((ONES, ONES, 1.0), (UNITS, FAR, 1e8))


def pair(solver: str, ours: Any, exact: Any, errors: Any = DIRECT, name: str = "") -> None:
    """A case of each size: both sides get their library, parameters, scales and a common unit."""
    for units, scales, unit in SCALES:
        CASES.append(
            Case(
                solver,
                name + (" plain" if unit == 1 else " scaled"),
                tensors(units, lambda m, q, s=scales, u=unit: ours(m, q, s, u)),
                numbers(units, lambda m, q, s=scales, u=unit: exact(m, q, s, u)),
                at(units),
                errors,
                scaled=unit != 1,
            )
        )


# --- solutions ------------------------------------------------------------------------------------
def system(m: Any, q: Numbers, s: Any) -> tuple[Any, Any]:
    return times(general(m, q), s[::-1], s), [
        v * r for v, r in zip(right(m, q), s[::-1], strict=True)
    ]


def tensor_system(q: Numbers, s: Any) -> tuple[ad.Tensor, ad.Tensor]:
    rows, b = system(ad, q, s)
    return rowed(rows), stacked(b)


def solution(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    return linear(*system(m, q, s))


pair("solve", lambda m, q, s, u: linalg.solve(*tensor_system(q, s)), solution)
pair("solve_ex", lambda m, q, s, u: linalg.solve_ex(*tensor_system(q, s))[0], solution)


def by_factors(m: Any, q: Numbers, s: Any, u: float) -> ad.Tensor:
    a, b = tensor_system(q, s)
    return linalg.lu_solve(*linalg.lu_factor(a), b[:, None])[:, 0]


pair("lu_solve", by_factors, solution)
pair(
    "tensorsolve",
    lambda m, q, s, u: (lambda a, b: linalg.tensorsolve(a.reshape(3, 1, 3), b[:, None]))(
        *tensor_system(q, s)
    ),
    solution,
)


def triangle(m: Any, q: Numbers, s: Any) -> Any:
    return [
        [v if j <= i else 0 for j, v in enumerate(row)] for i, row in enumerate(system(m, q, s)[0])
    ]


pair(
    "solve_triangular",
    lambda m, q, s, u: linalg.solve_triangular(
        tensor_system(q, s)[0], tensor_system(q, s)[1][:, None], upper=False
    )[:, 0],
    lambda m, q, s, u: linear(triangle(m, q, s), system(m, q, s)[1]),
)


def band(m: Any, q: Numbers, s: Any) -> Any:
    return [
        [v if abs(i - j) <= 1 else 0 for j, v in enumerate(row)]
        for i, row in enumerate(system(m, q, s)[0])
    ]


def as_band(rows: Any, above: int, below: int) -> ad.Tensor:
    """SciPy's storage, by diagonals."""
    n = len(rows)
    return rowed(
        [
            [rows[j - k][j] if 0 <= j - k < n else 0.0 for j in range(n)]
            for k in range(above, -below - 1, -1)
        ]
    )


pair(
    "solve_banded",
    lambda m, q, s, u: linalg.solve_banded(
        (1, 1), as_band(system(m, q, s)[0], 1, 1), tensor_system(q, s)[1]
    ),
    lambda m, q, s, u: linear(band(m, q, s), system(m, q, s)[1]),
)


def even(m: Any, q: Numbers, s: Any) -> Any:
    """Definite, of three diagonals."""
    rows = times(definite(m, q), s)
    return [[v if abs(i - j) <= 1 else 0 for j, v in enumerate(row)] for i, row in enumerate(rows)]


pair(
    "solveh_banded",
    lambda m, q, s, u: linalg.solveh_banded(as_band(even(m, q, s), 1, 0), tensor_system(q, s)[1]),
    lambda m, q, s, u: linear(even(m, q, s), system(m, q, s)[1]),
)
FIXED = [[4.0, 1.0, -2.0], [1.0, -3.0, 0.5], [-2.0, 0.5, 1.0]]
pair(
    "ldl_solve",
    lambda m, q, s, u: linalg.ldl_solve(
        *linalg.ldl_factor(rowed(whole(FIXED, u))), stacked(right(m, q))[:, None]
    )[:, 0],
    lambda m, q, s, u: linear(whole(FIXED, u), right(m, q)),
)
pair(
    "lstsq",
    lambda m, q, s, u: linalg.lstsq(
        rowed(times(tall(m, q), (1, 1, 1, 1), s)), stacked(right(m, q, 4))[:, None]
    ).solution[:, 0],
    lambda m, q, s, u: normal(times(tall(m, q), (1, 1, 1, 1), s), right(m, q, 4)),
)


# --- inverses and determinants --------------------------------------------------------------------
def inverse(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    return flat(mp.matrix(system(m, q, s)[0]) ** -1)


pair("inv", lambda m, q, s, u: linalg.inv(tensor_system(q, s)[0]).reshape(-1), inverse)
pair("inv_ex", lambda m, q, s, u: linalg.inv_ex(tensor_system(q, s)[0])[0].reshape(-1), inverse)
pair(
    "tensorinv",
    lambda m, q, s, u: linalg.tensorinv(tensor_system(q, s)[0].reshape(3, 3, 1), ind=1).reshape(-1),
    inverse,
)


def pseudo(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    a = mp.matrix(whole(tall(m, q), u))
    return flat((a.T * a) ** -1 * a.T)


pair("pinv", lambda m, q, s, u: linalg.pinv(rowed(whole(tall(m, q), u))).reshape(-1), pseudo)
pair(
    "det",
    lambda m, q, s, u: linalg.det(tensor_system(q, s)[0]).reshape(1),
    lambda m, q, s, u: [mp.det(mp.matrix(system(m, q, s)[0]))],
)
pair(
    "slogdet",
    lambda m, q, s, u: stacked(linalg.slogdet(u * tensor_system(q, s)[0])),
    lambda m, q, s, u: [1, mp.log(abs(mp.det(mp.matrix(whole(system(m, q, s)[0], u)))))],
)


# --- factors --------------------------------------------------------------------------------------
def root(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    return flat(mp.cholesky(mp.matrix(times(definite(m, q), s))))


pair(
    "cholesky",
    lambda m, q, s, u: linalg.cholesky(rowed(times(definite(m, q), s))).reshape(-1),
    root,
)
pair(
    "cholesky_ex",
    lambda m, q, s, u: linalg.cholesky_ex(rowed(times(definite(m, q), s)))[0].reshape(-1),
    root,
)


def halves(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    """Both triangles in one matrix, with the rows that have the largest entries first."""
    a = mp.matrix(system(m, q, s)[0])
    for k in range(3):
        best = max(range(k, 3), key=lambda i: abs(a[i, k]))
        for j in range(3):
            a[k, j], a[best, j] = a[best, j], a[k, j]
        for i in range(k + 1, 3):
            a[i, k] /= a[k, k]
            for j in range(k + 1, 3):
                a[i, j] -= a[i, k] * a[k, j]
    return flat(a)


def joined(q: Numbers, s: Any) -> ad.Tensor:
    _, low, high = linalg.lu(tensor_system(q, s)[0])
    return (low.tril(-1) + high).reshape(-1)


pair("lu", lambda m, q, s, u: joined(q, s), halves)
pair(
    "lu_factor", lambda m, q, s, u: linalg.lu_factor(tensor_system(q, s)[0])[0].reshape(-1), halves
)
pair(
    "lu_factor_ex",
    lambda m, q, s, u: linalg.lu_factor_ex(tensor_system(q, s)[0])[0].reshape(-1),
    halves,
)


def oriented(q: Numbers, s: Any) -> ad.Tensor:
    """Q and R with a diagonal above zero."""
    Q, R = linalg.qr(rowed(times(tall(ad, q), (1, 1, 1, 1), s)))
    signs = R.detach().diagonal().sign()
    return stacked([Q * signs, R * signs[:, None]])


def upright(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    a = mp.matrix(times(tall(m, q), (1, 1, 1, 1), s))
    r = mp.cholesky(a.T * a).T
    return [*flat(a * r**-1), *flat(r)]


pair("qr", lambda m, q, s, u: oriented(q, s), upright)


# --- eigenvalues and singular values --------------------------------------------------------------
def values(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    return list(mp.eigsy(mp.matrix(whole(symmetric(m, q), u)), eigvals_only=True))


def pairs(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    """Values, and vectors without their sign: over their first element."""
    found, vectors = mp.eigsy(mp.matrix(whole(symmetric(m, q), u)))
    return [*found, *(vectors[i, k] / vectors[0, k] for i in (1, 2) for k in range(3))]


def our_pairs(found: ad.Tensor, vectors: ad.Tensor) -> ad.Tensor:
    return stacked([found, vectors[1:] / vectors[0]])


pair("eigvalsh", lambda m, q, s, u: linalg.eigvalsh(rowed(whole(symmetric(m, q), u))), values)
pair("eigh", lambda m, q, s, u: our_pairs(*linalg.eigh(rowed(whole(symmetric(m, q), u)))), pairs)


def any_pairs(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    found, vectors = mp.eig(mp.matrix(whole(general(m, q), u)))
    order = sorted(range(3), key=lambda k: found[k].real)
    return [
        *(found[k].real for k in order),
        *((vectors[i, k] / vectors[0, k]).real for i in (1, 2) for k in order),
    ]


def our_any(q: Numbers, u: float) -> ad.Tensor:
    found, vectors = linalg.eig(rowed(whole(general(ad, q), u)))
    order = found.detach().real.argsort()
    vectors = vectors[:, order]
    return stacked([found[order].real, (vectors[1:] / vectors[0]).real])


pair("eig", lambda m, q, s, u: our_any(q, u), any_pairs)
pair(
    "eigvals",
    lambda m, q, s, u: (lambda w: w[w.detach().real.argsort()].real)(
        linalg.eigvals(rowed(whole(general(m, q), u)))
    ),
    lambda m, q, s, u: any_pairs(m, q, s, u)[:3],
)


def terms(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    """The singular values, and the largest of the matrices of which the matrix is the sum."""
    U, S, V = mp.svd_r(mp.matrix(whole(tall(m, q), u)))
    return [*S, *(S[0] * U[i, 0] * V[0, j] for i in range(4) for j in range(3))]


def our_terms(q: Numbers, u: float) -> ad.Tensor:
    U, S, V = linalg.svd(rowed(whole(tall(ad, q), u)), full_matrices=False)
    return stacked([S, S[0] * U[:, :1] * V[:1]])


pair("svd", lambda m, q, s, u: our_terms(q, u), terms)
pair(
    "svdvals",
    lambda m, q, s, u: linalg.svdvals(rowed(whole(tall(m, q), u))),
    lambda m, q, s, u: terms(m, q, s, u)[:3],
)
pair(
    "cond",
    lambda m, q, s, u: linalg.cond(rowed(whole(tall(m, q), u))).reshape(1),
    lambda m, q, s, u: [terms(m, q, s, u)[0] / terms(m, q, s, u)[2]],
)
# An exponent has no unit: rates of 1e6 and 1e-6 between amounts that differ as much.
pair(
    "matrix_exp",
    lambda m, q, s, u: linalg.matrix_exp(rowed(times(general(m, q), s[::-1], s))).reshape(-1),
    lambda m, q, s, u: flat(mp.expm(mp.matrix(times(general(m, q), s[::-1], s)), method="taylor")),
)


# --- at the edge ----------------------------------------------------------------------------------
def singular(m: Any, q: Numbers) -> Any:
    """Of rank two where q[0] is 0.7: the last row is then the sum of the others."""
    rows = general(m, q)
    off = q[0] - 0.7
    rows[2] = [a + b + off * (k + 1) for k, (a, b) in enumerate(zip(rows[0], rows[1], strict=True))]
    return rows


# What cancels has the digits of its terms, which are about one: so does the answer.
pair(
    "det",
    lambda m, q, s, u: (1 + linalg.det(rowed(times(singular(m, q), s[::-1], s)))).reshape(1),
    lambda m, q, s, u: [1 + mp.det(mp.matrix(times(singular(m, q), s[::-1], s)))],
    name="singular",
)


def lying(m: Any, q: Numbers, s: Any) -> tuple[Any, Any]:
    """More unknowns than equations: the smallest solution."""
    rows = [list(column) for column in zip(*tall(m, q), strict=True)]
    return times(rows, s, (1, 1, 1, 1)), [v * r for v, r in zip(right(m, q), s, strict=True)]


def smallest(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    rows, b = lying(m, q, s)
    a = mp.matrix(rows)
    return list(a.T * mp.lu_solve(a * a.T, mp.matrix(b)))


def our_smallest(q: Numbers, s: Any) -> ad.Tensor:
    rows, b = lying(ad, q, s)
    return linalg.lstsq(rowed(rows), stacked(b)[:, None]).solution[:, 0]


pair("lstsq", lambda m, q, s, u: our_smallest(q, s), smallest, name="wide")
