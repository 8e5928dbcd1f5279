"""`adjoint.sparse.linalg`: by factors, by products, and a few eigenvalues of many."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

import adjoint as ad
from adjoint.sparse import linalg

from .matrices import (
    ONES,
    UNITS,
    at,
    chain,
    numbers,
    sparse,
    tensors,
    times,
    whole,
    wind,
)
from .references import DIRECT, Case, Numbers, linear, normal, rowed, stacked

CASES: list[Case] = []
NOT_SOLVERS: tuple[str, ...] = ()
FAR = (1e6, 1.0, 1e-6, 1e3, 1e-3, 1.0)
SCALES = ((ONES, (1.0,) * 6, 1.0), (UNITS, FAR, 1e8))


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


def right(m: Any, q: Numbers) -> Numbers:
    return [q[0] * q[2], 1 + m.exp(-q[1]), q[2] ** 2, q[0] + q[1], 0 * q[0] - 1, q[1] * q[2]]


# --- by factors: rows and columns in units of their own -------------------------------------------
def blown(m: Any, q: Numbers, s: Any) -> tuple[Any, Any]:
    return times(wind(m, q), s[::-1], s), [v * r for v, r in zip(right(m, q), s[::-1], strict=True)]


def with_corner(m: Any, q: Numbers, s: Any) -> tuple[Any, Any]:
    """No band: for SuperLU."""
    rows = wind(m, q)
    rows[0][5] = rows[0][5] + q[0] * q[2]
    rows[5][0] = rows[5][0] + 0.3 * q[1]
    return times(rows, s[::-1], s), blown(m, q, s)[1]


def solution(m: Any, q: Numbers, s: Any, u: float) -> Numbers:
    return linear(*with_corner(m, q, s))


pair(
    "spsolve",
    lambda m, q, s, u: (lambda a, b: linalg.spsolve(sparse(a), stacked(b)))(*blown(m, q, s)),
    lambda m, q, s, u: linear(*blown(m, q, s)),
    name="band",
)
pair(
    "spsolve",
    lambda m, q, s, u: (lambda a, b: linalg.spsolve(sparse(a), stacked(b)))(*with_corner(m, q, s)),
    solution,
)
pair(
    "splu",
    lambda m, q, s, u: (lambda a, b: linalg.splu(sparse(a)).solve(stacked(b)))(
        *with_corner(m, q, s)
    ),
    solution,
)
pair(
    "factorized",
    lambda m, q, s, u: (lambda a, b: linalg.factorized(sparse(a))(stacked(b)))(
        *with_corner(m, q, s)
    ),
    solution,
)


# --- by products: in one unit, as the size of a residual is that of its largest element -----------
def iterated(method: Any, rows: Any) -> Any:
    def ours(m: Any, q: Numbers, s: Any, u: float) -> ad.Tensor:
        return method(sparse(whole(rows(m, q), u)), stacked(right(m, q)), rtol=1e-13)[0]

    return ours


def solved(rows: Any) -> Any:
    return lambda m, q, s, u: linear(whole(rows(m, q), mpf(u)), right(m, q))


def mixed(m: Any, q: Numbers) -> Any:
    return chain(m, q, -1)


for name, rows in (("cg", chain), ("minres", mixed), ("gmres", wind), ("bicgstab", wind)):
    pair(name, iterated(getattr(linalg, name), rows), solved(rows), (1e-10, 1e-10, 1e-9))


def by_function(m: Any, q: Numbers, s: Any, u: float) -> ad.Tensor:
    matrix = rowed(whole(wind(m, q), u))
    operator = linalg.LinearOperator((6, 6), matvec=lambda v: matrix @ v, dtype=ad.float64)
    return linalg.gmres(operator, stacked(right(m, q)), rtol=1e-13)[0]


pair("LinearOperator", by_function, solved(wind), (1e-10, 1e-10, 1e-9))
pair(
    "aslinearoperator",
    lambda m, q, s, u: linalg.gmres(
        linalg.aslinearoperator(sparse(whole(wind(m, q), u))), stacked(right(m, q)), rtol=1e-13
    )[0],
    solved(wind),
    (1e-10, 1e-10, 1e-9),
)


def narrow(m: Any, q: Numbers) -> Any:
    return [row[:4] for row in wind(m, q)]


for damp in (0.0, 0.5):
    pair(
        "lsqr",
        lambda m, q, s, u, damp=damp: linalg.lsqr(
            sparse(whole(narrow(m, q), u)),
            stacked(right(m, q)),
            damp=damp * u,
            atol=1e-14,
            btol=1e-14,
        )[0],
        lambda m, q, s, u, damp=damp: normal(
            whole(narrow(m, q), mpf(u)), right(m, q), mpf(damp) * mpf(u)
        ),
        (1e-10, 1e-10, 1e-9),
        name="damped" if damp else "",
    )


# --- eigenvalues ----------------------------------------------------------------------------------
def masses(q: Numbers) -> Numbers:
    return [1 + 0 * q[0], q[1], 2 + q[2], 1.5 + 0 * q[0], 1 + q[0], q[1] + q[2]]


def modes(m: Any, q: Numbers, u: Any, with_mass: bool) -> tuple[Numbers, Any]:
    """All values, ascending, and vectors, of springs and masses."""
    k = mp.matrix(whole(chain(m, q), u))
    roots = [mp.sqrt(v) for v in masses(q)] if with_mass else [mpf(1)] * 6
    for i in range(6):
        for j in range(6):
            k[i, j] /= roots[i] * roots[j]
    values, vectors = mp.eigsy(k)
    for i in range(6):
        for j in range(6):
            vectors[i, j] /= roots[i]
    return list(values), vectors


def chosen(values: Numbers, vectors: Any, which: tuple[int, ...]) -> Numbers:
    """Values, and vectors over their first element."""
    return [
        *(values[k] for k in which),
        *(vectors[i, k] / vectors[0, k] for i in range(1, 6) for k in which),
    ]


def our_chosen(found: tuple[ad.Tensor, ad.Tensor]) -> ad.Tensor:
    values, vectors = found
    order = values.detach().argsort()
    values, vectors = values[order], vectors[:, order]
    return stacked([values, vectors[1:] / vectors[0]])


SPECTRAL = (1e-11, 1e-10, 1e-9)
pair(
    "eigsh",
    lambda m, q, s, u: our_chosen(linalg.eigsh(sparse(whole(chain(m, q), u)), 2)),
    lambda m, q, s, u: chosen(*modes(m, q, mpf(u), False), (4, 5)),
    SPECTRAL,
)
pair(
    "eigsh",
    lambda m, q, s, u: our_chosen(
        linalg.eigsh(
            sparse(whole(chain(m, q), u)), 2, ad.sparse.diags_array(stacked(masses(q))), sigma=0.0
        )
    ),
    lambda m, q, s, u: chosen(*modes(m, q, mpf(u), True), (0, 1)),
    SPECTRAL,
    name="generalised",
)


def begun(k: int) -> ad.Tensor:
    return ad.sin(ad.arange(1, 6 * k + 1, dtype=ad.float64) ** 2).reshape(6, k)


pair(
    "lobpcg",
    lambda m, q, s, u: our_chosen(
        linalg.lobpcg(sparse(whole(chain(m, q), u)), begun(1), largest=False, maxiter=200)
    ),
    lambda m, q, s, u: chosen(*modes(m, q, mpf(u), False), (0,)),
    (1e-9, 1e-8, 1e-7),
)


def skew(m: Any, q: Numbers, u: Any) -> Numbers:
    values, vectors = mp.eig(mp.matrix(whole(wind(m, q), u)))
    order = sorted(range(6), key=lambda k: -abs(values[k]))[:2]
    order.sort(key=lambda k: values[k].real)
    return [
        *(values[k].real for k in order),
        *((vectors[i, k] / vectors[0, k]).real for i in range(1, 6) for k in order),
    ]


def our_skew(q: Numbers, u: float) -> ad.Tensor:
    values, vectors = linalg.eigs(sparse(whole(wind(ad, q), u)), 2)
    order = values.detach().real.argsort()
    vectors = vectors[:, order]
    return stacked([values[order].real, (vectors[1:] / vectors[0]).real])


pair("eigs", lambda m, q, s, u: our_skew(q, u), lambda m, q, s, u: skew(m, q, mpf(u)), SPECTRAL)


def parts(m: Any, q: Numbers, u: Any) -> Numbers:
    """The two largest terms of a sum of singular values, and these."""
    U, S, V = mp.svd_r(mp.matrix(whole(wind(m, q), u)))
    return [S[1], S[0], *(S[0] * U[i, 0] * V[0, j] for i in range(6) for j in range(6))]


def our_parts(q: Numbers, u: float) -> ad.Tensor:
    U, S, V = linalg.svds(sparse(whole(wind(ad, q), u)), 2)
    return stacked([S, S[1] * U[:, 1:] * V[1:]])


pair("svds", lambda m, q, s, u: our_parts(q, u), lambda m, q, s, u: parts(m, q, mpf(u)), SPECTRAL)
# Amounts of 1e6 and 1e-6: rates between them differ as much. An exponent itself has no unit.
pair(
    "expm_multiply",
    lambda m, q, s, u: linalg.expm_multiply(
        sparse(whole(wind(m, q), -0.3)), u * stacked(right(m, q))
    ),
    lambda m, q, s, u: list(
        mp.expm(mp.matrix(whole(wind(m, q), mpf(-0.3))), method="taylor")
        * mp.matrix([mpf(u) * v for v in right(m, q)])
    ),
)
