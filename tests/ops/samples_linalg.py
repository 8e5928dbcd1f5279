"""Samples of linear algebra. Read `samples.py` first; the references are in `reference_linalg.py`.

A matrix has many eigenvectors: what is compared and differentiated is what all have in common, so
some ops are called in a `form`: of the symmetric part of the argument, and with results that do not
depend on signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.reference_linalg import REFERENCES as REFERENCES
from tests.ops.spec import Arr, Array, Op, Sample

L = "linalg."
INF = float("inf")


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def M(*shape: int) -> Arr:
    """Matrices far from singular."""
    return Arr(shape, diagonal=5.0)


def P(*pivots: int) -> Array:
    return np.array(pivots, np.int32)


# --- forms --------------------------------------------------------------------------------------
def symmetric(f: Any) -> Any:
    return lambda a, **k: f((a + a.mH) / 2, **k)


def positive(f: Any) -> Any:
    """Of `a @ a.mH`, for wide matrices."""
    return lambda a, **k: f(a @ a.mH, **k)


def sizes(*places: int) -> Callable[[Any], Any]:
    """The results in `places` as squares of their moduli: signs and phases are anybody's."""

    def form(f: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            found = f(*args, **kwargs)
            return tuple(
                (x * x.conj()).real if i in places and x.is_complex() else x * x
                if i in places else x
                for i, x in enumerate(found)
            )  # fmt: skip

        return called

    return form


def of_symmetric_by_size(f: Any) -> Any:
    return symmetric(sizes(1)(f))


def symmetric_functions(f: Any) -> Any:
    """Sums over eigenvalues, and over eigenpairs: their order is anybody's."""

    def called(a: Any) -> Any:
        found = f(a)
        if not isinstance(found, tuple):
            return [found.sum(-1), (found * found).sum(-1)]
        w, v = found
        return [w.sum(-1), (w * w).sum(-1), ((v * v.conj()) * w.unsqueeze(-2)).sum(-1)]

    return called


def dropped(count: int) -> Callable[[Any], Any]:
    """Without the last `count` results, which have no derivative or depend on the driver."""
    return lambda f: lambda *a, **k: list(f(*a, **k))[:-count]


def permuted(f: Any) -> Any:
    """The permutation, which has no derivative, times the lower factor, and the upper one."""

    def called(*args: Any) -> Any:
        p, low, high = f(*args)
        return p @ low, high

    return called


SQUARE = [S(M(3, 3)), S(M(2, 2, 2)), S(M(1, 1)), S(M(0, 2, 2)), S(M(0, 0)), S(M(2, 1, 3, 3))]
LARGE = [S(M(18, 18)), S(M(9, 5, 5))]  # beyond the kernels for small matrices; several lanes
SYMMETRIC = [S(R(3, 3)), S(R(2, 4, 4)), S(R(1, 1)), S(R(0, 2, 2)), S(R(0, 0)), S(R(5, 3, 3))]
POSITIVE = [S(R(3, 5)), S(R(2, 2, 4)), S(R(1, 2)), S(R(0, 2, 3)), S(R(0, 3)), S(R(9, 3, 5))]
RECTANGLES = [S(R(3, 3)), S(R(2, 4)), S(R(4, 2)), S(R(2, 3, 2)), S(R(0, 2)), S(R(2, 0))]
SYSTEMS = [
    S(M(3, 3), R(3, 2)), S(M(3, 3), R(3)), S(M(2, 2, 2), R(2, 2, 3)), S(M(2, 2), R(3, 2, 1)),
    S(M(3, 2, 2), R(2, 2)), S(M(2, 1, 2, 2), R(3, 2, 1)), S(M(0, 0), R(0, 2)), S(M(2, 2), R(2, 0)),
    S(M(2, 2, 2), R(2, 2)),
]  # fmt: skip
FROM_RIGHT = [S(M(3, 3), R(2, 3), left=False), S(M(2, 2), R(3, 2, 2), left=False)]


def op(name: str, samples: list[Sample], dtypes: str = "fc", out: str = "same", **more: Any) -> Op:
    """A function of `linalg`, to a hundred roundings of numbers of size 10."""
    more.setdefault("ulps", 100)
    more.setdefault("terms", 10)
    path = more.pop("path", L + name.removeprefix("linalg_"))
    return Op(name, samples, dtypes, out, path=path, method=False, **more)


def old(name: str, samples: list[Sample], dtypes: str = "fc", **more: Any) -> Op:
    more.setdefault("method", True)
    return Op(name, samples, dtypes, ulps=100, terms=10, **more)


# fmt: off
OPS = [
    op("linalg_cholesky", POSITIVE, form=positive),
    op("linalg_cholesky_upper", [S(R(3, 5), upper=True), S(R(2, 2, 4), upper=True)],
       form=positive, path=L + "cholesky"),
    op("linalg_cholesky_ex", POSITIVE[:3], form=positive),
    old("cholesky", POSITIVE[:3], form=positive, method=False),
    old("cholesky_solve", [
        S(R(3, 2), M(3, 3)), S(R(3, 2), M(3, 3), upper=True), S(R(2, 2, 1), M(2, 2)),
        S(R(2, 1), M(3, 2, 2)),
    ]),
    old("cholesky_inverse", [S(M(3, 3)), S(M(3, 3), upper=True), S(M(2, 2, 2)), S(M(0, 0))],
        "f"),
    op("linalg_solve", SYSTEMS + FROM_RIGHT), op("linalg_solve_ex", SYSTEMS[:4] + FROM_RIGHT),
    op("linalg_solve_large", [S(M(18, 18), R(18, 2)), S(M(9, 5, 5), R(9, 5, 3))],
       path=L + "solve"),
    op("linalg_inv", SQUARE + LARGE), op("linalg_inv_ex", SQUARE), old("inverse", SQUARE),
    op("linalg_det", SQUARE, terms=1000), Op("det", SQUARE[:2], "fc", ulps=100, terms=1000),
    op("linalg_slogdet", SQUARE), old("slogdet", SQUARE[:2]),
    old("logdet", POSITIVE[:4], form=positive, method=False),
    op("linalg_lu_factor", RECTANGLES + LARGE), op("linalg_lu_factor_ex", RECTANGLES),
    op("linalg_lu", RECTANGLES, form=permuted),
    Op("lu_unpack", [S(M(3, 3), P(2, 3, 3)), S(M(2, 3), P(2, 2)), S(M(3, 2), P(3, 2))], "fc",
       form=permuted, method=False, ulps=8),
    op("linalg_lu_solve", [
        S(M(3, 3), P(2, 3, 3), R(3, 2)), S(M(3, 3), P(2, 3, 3), R(3, 2), adjoint=True),
        S(M(3, 3), P(2, 3, 3), R(2, 3), left=False),
        S(M(3, 3), P(2, 3, 3), R(2, 3), left=False, adjoint=True),
        S(M(2, 2), P(1, 2), R(3, 2, 1)),
    ]),
    old("lu_solve", [S(R(3, 2), M(3, 3), P(2, 3, 3))]),
    op("linalg_solve_triangular", [
        *(S(M(3, 3), R(3, 2), upper=u, unitriangular=one) for u in (True, False)
          for one in (True, False)),
        S(M(3, 3), R(2, 3), upper=True, left=False), S(M(2, 2), R(3, 2, 1), upper=False),
        S(M(3, 2, 2), R(2, 1), upper=False), S(M(0, 0), R(0, 2), upper=True),
    ], ulps=400),
    op("linalg_solve_triangular_large", [
        S(M(18, 18), R(18, 2), upper=True), S(M(18, 18), R(2, 18), upper=False, left=False),
    ], path=L + "solve_triangular"),
    old("triangular_solve", [
        S(R(3, 2), M(3, 3)), S(R(3, 2), M(3, 3), upper=False), S(R(3, 2), M(3, 3), transpose=True),
        S(R(2, 2, 1), M(2, 2), unitriangular=True),
    ]),
    op("linalg_qr", RECTANGLES[:4]), op("linalg_qr_complete", [S(R(2, 4), mode="complete")],
                                        path=L + "qr"),
    op("linalg_qr_values", [S(R(4, 2), mode="complete"), S(R(4, 2), mode="r"), S(R(2, 0))],
       path=L + "qr", diff=False),
    old("qr", RECTANGLES[:3]), old("geqrf", RECTANGLES[:4], diff=False),
    op("linalg_householder_product", [S(R(3, 2), R(2)), S(R(3, 3), R(2)), S(R(2, 2, 1), R(2, 1))]),
    old("orgqr", [S(R(3, 2), R(2))]),
    old("ormqr", [
        S(R(3, 2), R(2), R(3, 2)), S(R(3, 2), R(2), R(3, 2), transpose=True),
        S(R(3, 2), R(2), R(2, 3), left=False), S(R(3, 2), R(2), R(2, 3), False, True),
        S(R(2, 2, 1), R(2, 1), R(2, 2, 1)),
    ]),
    op("linalg_eigh", SYMMETRIC, "fc", "real", form=of_symmetric_by_size),
    op("linalg_eigvalsh", SYMMETRIC, "fc", "real", form=symmetric),
    op("linalg_eigh_upper", [S(R(3, 3), UPLO="U")], "fc", "real", form=of_symmetric_by_size,
       path=L + "eigh"),
    op("linalg_eigh_large", [S(R(18, 18))], "fc", "real", form=of_symmetric_by_size,
       path=L + "eigh", ulps=2000),
    op("linalg_eig", [S(M(3, 3)), S(M(2, 2, 2)), S(M(1, 1))], "fc", "complex",
       form=symmetric_functions, ulps=400, terms=100),
    op("linalg_eigvals", [S(M(3, 3)), S(M(2, 2, 2)), S(M(0, 0))], "fc", "complex",
       form=symmetric_functions, ulps=400, terms=100),
    op("linalg_svd", [S(s.args[0], False) for s in RECTANGLES], "fc", "real", form=sizes(0, 2)),
    op("linalg_svd_full", [S(R(2, 4)), S(R(3, 2))], "fc", "real", form=sizes(0, 2),
       path=L + "svd", diff=False),
    op("linalg_svdvals", RECTANGLES, "fc", "real"),
    old("svd", RECTANGLES[:4], out="real", form=sizes(0, 2), method=False),
    op("linalg_pinv", RECTANGLES), op("linalg_pinv_tolerant", [
        S(R(3, 2), atol=0.01, rtol=0.01), S(R(3, 2), rtol=1e-3), S(R(2, 3), 1e-4)],
       path=L + "pinv"),
    old("pinverse", RECTANGLES[:3]),
    op("linalg_matrix_rank", [S(R(3, 2)), S(R(2, 2, 3)), S(R(0, 2)), S(R(3, 2), atol=1.0)], "fc",
       "long", diff=False),
    op("linalg_lstsq", [
        S(R(4, 2), R(4, 3)), S(R(4, 2), R(4)), S(R(2, 4), R(2, 1)), S(R(2, 3, 2), R(2, 3, 1)),
    ], form=dropped(2)),
    op("linalg_lstsq_gelsd", [S(R(4, 2), R(4, 3), driver="gelsd")], form=dropped(2),
       path=L + "lstsq"),
    op("linalg_cond", [S(M(3, 3)), S(M(3, 3), 2), S(M(3, 3), -2), S(M(3, 3), 1), S(M(3, 3), -INF),
                       S(M(3, 3), "fro"), S(M(3, 3), "nuc"), S(R(3, 2))], "fc", "real"),
    op("linalg_cond_empty", [S(M(0, 0))], "fc", "real", path=L + "cond", diff=False),
    op("linalg_matrix_norm", [
        *(S(R(2, 3), o) for o in (1, -1, 2, -2, INF, -INF, "fro", "nuc")), S(R(2, 3)),
        S(R(2, 3, 2), "nuc", (0, 2)), S(R(2, 3, 2), 1, (-1, 0), True), S(R(2, 3, 2), 2, (1, 0)),
    ], "fc", "real"),
    op("linalg_matrix_norm_empty", [
        S(R(2, 0), 1), S(R(0, 2), "nuc"), S(R(0, 2), -1), S(R(2, 0), -INF), S(R(0, 2), 2),
    ], "fc", "real",
       path=L + "matrix_norm", diff=False),
    op("linalg_norm", [
        S(R(2, 3)), S(R(3), 3), S(R(2, 3), 2), S(R(2, 3), 1, 0), S(R(2, 3), "nuc"),
        S(R(2, 3, 2), INF, (0, 1)), S(R(2, 3, 2), dim=1, keepdim=True),
    ], "fc", "real"),
    op("linalg_vector_norm", [
        S(R(2, 3)), S(R(2, 3), 3), S(R(2, 3), 1.5, 0), S(R(2, 3), INF, 1, True), S(R(), 2),
    ], "fc", "real"),
    Op("nuclear_norm", [S(R(2, 3)), S(R(2, 3, 2), (0, 2), True)], "fc", "real", method=False,
       ulps=100),
    op("linalg_matrix_exp", [S(R(3, 3)), S(R(2, 2, 2)), S(M(2, 2)), S(R(1, 1)), S(R(0, 0))],
       terms=10000),
    Op("matrix_exp", [S(R(2, 2))], "fc", ulps=100, terms=10000),
    op("linalg_matrix_power", [S(M(2, 2), n) for n in (0, 1, 2, 3, 5, -1, -2)], terms=100000),
    Op("matrix_power", [S(M(2, 2), 3)], "fc", ulps=100, terms=1000),
    op("linalg_multi_dot", [S([R(2, 3), R(3, 2), R(2, 4)]), S([R(3), R(3, 2), R(2)]),
                            S([R(2, 3), R(3)])]),
    Op("chain_matmul", [S(R(2, 3), R(3, 2), R(2, 4)), S(R(2, 3), R(3, 2))], "fc", method=False,
       ulps=100, terms=10),
    op("linalg_vecdot", [S(R(3), R(3)), S(R(2, 3), R(2, 3)), S(R(2, 3), R(2, 1), dim=0)]),
    op("linalg_cross", [S(R(2, 3), R(2, 3)), S(R(3, 2), R(3, 2), dim=0), S(R(1, 3), R(2, 3))]),
    op("linalg_vander", [S(R(3)), S(R(2, 3), N=4)], terms=16),
    op("linalg_tensorinv", [S(Arr((2, 2, 4), diagonal=0.0)), S(R(4, 2, 2), ind=1)], ulps=4000),
    op("linalg_tensorsolve", [S(R(2, 2, 4), R(2, 2)), S(R(2, 4, 2), R(2, 2), dims=(1,))],
       ulps=4000),
    op("linalg_ldl_factor", [S(R(3, 3)), S(R(2, 2, 2)), S(R(0, 0))], form=symmetric, diff=False),
    op("linalg_ldl_factor_ex", [S(R(3, 3))], form=symmetric, diff=False),
    op("linalg_ldl_solve", [S(M(3, 3), P(1, 2, 3), R(3, 2)), S(M(2, 2), P(1, 2), R(3, 2, 1))],
       diff=False),
]
# fmt: on
