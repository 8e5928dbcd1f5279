"""Samples and references of linear algebra, by NumPy and SciPy. Read `samples.py` first.

A matrix has many eigenvectors: what is compared and differentiated is what all have in common, so
some ops are called in a `form`: of the symmetric part of the argument, and with results that do not
depend on signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

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
            return [
                (x * x.conj()).real if i in places and x.is_complex() else x * x
                if i in places else x
                for i, x in enumerate(found)
            ]  # fmt: skip

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
    old("cholesky_inverse", [S(M(3, 3)), S(M(3, 3), upper=True), S(M(2, 2, 2)), S(M(0, 0))]),
    op("linalg_solve", SYSTEMS + FROM_RIGHT), op("linalg_solve_ex", SYSTEMS[:4] + FROM_RIGHT),
    op("linalg_solve_large", [S(M(18, 18), R(18, 2)), S(M(9, 5, 5), R(9, 5, 3))],
       path=L + "solve"),
    op("linalg_inv", SQUARE + LARGE), op("linalg_inv_ex", SQUARE), old("inverse", SQUARE),
    op("linalg_det", SQUARE, terms=1000), Op("det", SQUARE[:2], "fc", ulps=100, terms=1000),
    op("linalg_slogdet", SQUARE), old("slogdet", SQUARE[:2]),
    old("logdet", POSITIVE[:4], form=positive, method=False),
    op("linalg_lu_factor", RECTANGLES + LARGE), op("linalg_lu_factor_ex", RECTANGLES),
    op("linalg_lu", RECTANGLES),
    Op("lu_unpack", [S(M(3, 3), P(2, 3, 3)), S(M(2, 3), P(2, 2)), S(M(3, 2), P(3, 2))], "fc",
       method=False, ulps=8),
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
    op("linalg_eigh", SYMMETRIC, form=of_symmetric_by_size),
    op("linalg_eigvalsh", SYMMETRIC, "fc", "real", form=symmetric),
    op("linalg_eigh_upper", [S(R(3, 3), UPLO="U")], form=of_symmetric_by_size, path=L + "eigh"),
    op("linalg_eigh_large", [S(R(18, 18))], form=of_symmetric_by_size, path=L + "eigh",
       ulps=2000),
    op("linalg_eig", [S(M(3, 3)), S(M(2, 2, 2)), S(M(1, 1))], "fc", "complex",
       form=symmetric_functions, ulps=400, terms=100),
    op("linalg_eigvals", [S(M(3, 3)), S(M(2, 2, 2)), S(M(0, 0))], "fc", "complex",
       form=symmetric_functions, ulps=400, terms=100),
    op("linalg_svd", [S(s.args[0], False) for s in RECTANGLES], form=sizes(0, 2)),
    op("linalg_svd_full", [S(R(2, 4)), S(R(3, 2))], form=sizes(0, 2), path=L + "svd", diff=False),
    op("linalg_svdvals", RECTANGLES, "fc", "real"), old("svd", RECTANGLES[:4], form=sizes(0, 2),
                                                        method=False),
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
                       S(M(3, 3), "fro"), S(M(3, 3), "nuc"), S(R(3, 2)), S(M(0, 0))], "fc", "real"),
    op("linalg_matrix_norm", [
        *(S(R(2, 3), o) for o in (1, -1, 2, -2, INF, -INF, "fro", "nuc")), S(R(2, 3)),
        S(R(2, 3, 2), "nuc", (0, 2)), S(R(2, 3, 2), 1, (-1, 0), True), S(R(2, 3, 2), 2, (1, 0)),
        S(R(2, 0), 1), S(R(0, 2), "nuc"),
    ], "fc", "real"),
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


# --- references ---------------------------------------------------------------------------------
def down(x: Any) -> Any:
    """In the precision of LAPACK."""
    if isinstance(x, list | tuple):
        return type(x)(down(v) for v in x)
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a, **k: f(*(down(v) for v in a), **k)


def each(f: Callable[..., Any], axes: int = 2) -> Callable[..., Any]:
    """A function of single matrices, for batches that broadcast; `axes` of the arguments count."""

    def called(*args: Array, **kwargs: Any) -> Any:
        ranks = [axes if x.dtype.kind in "fc" else axes - 1 for x in args]
        lead = np.broadcast_shapes(*(x.shape[: x.ndim - r] for x, r in zip(args, ranks, strict=True)))
        wide = [
            np.broadcast_to(x, lead + x.shape[x.ndim - r :])
            for x, r in zip(args, ranks, strict=True)
        ]
        rows = [f(*(x[i] for x in wide), **kwargs) for i in np.ndindex(*lead)]
        if not isinstance(rows[0] if rows else None, tuple):
            return np.stack(rows).reshape(lead + rows[0].shape) if rows else wide[0]
        return tuple(
            np.stack(part).reshape(lead + np.shape(part[0])) for part in zip(*rows, strict=True)
        )

    return called


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def triangle(x: Array, upper: bool, unit: bool = False) -> Array:
    t = np.triu(x) if upper else np.tril(x)
    if unit:
        t = t - t * np.eye(x.shape[-1]) + np.eye(x.shape[-1])
    return np.asarray(t)


def cholesky(a: Array, upper: bool = False) -> Array:
    low = np.linalg.cholesky(a @ adjoint(a))
    return adjoint(low) if upper else low


def solve(a: Array, b: Array, left: bool = True) -> Array:
    if not left:
        return np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    if b.ndim == 1 or b.shape == a.shape[:-1]:
        return np.asarray(np.linalg.solve(a, b[..., None])[..., 0])
    return np.asarray(np.linalg.solve(a, b))


def solve_triangular(
    a: Array, b: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    return solve(triangle(a, upper, unitriangular), b, left)


def permutation(pivots: Array, m: int) -> Array:
    order = np.arange(m)
    for i, p in enumerate(pivots):
        order[[i, p - 1]] = order[[p - 1, i]]
    out = np.zeros((m, m))
    out[order, np.arange(m)] = 1
    return out


def unpack(lu: Array, pivots: Array) -> tuple[Array, Array, Array]:
    m, n = lu.shape
    k = min(m, n)
    low = np.tril(lu[:, :k], -1) + np.eye(m, k)
    return permutation(pivots, m).astype(lu.dtype), low, np.triu(lu[:k])


def lu_factor(a: Array) -> tuple[Array, Array]:
    """Elimination with the largest pivots."""
    a, (m, n) = a.copy(), a.shape
    pivots = np.zeros(min(m, n), np.int32)
    for k in range(min(m, n)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        pivots[k] = p + 1
        a[[k, p]] = a[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


def lu_solve(
    lu: Array, pivots: Array, b: Array, left: bool = True, adjoint: bool = False
) -> Array:
    p, low, high = unpack(lu, pivots)
    a = p @ low @ high
    return solve(np.conj(a.T) if adjoint else a, b, left)


def factors(a: Array) -> tuple[Array, Array]:
    packed, tau = scipy.linalg.lapack.get_lapack_funcs("geqrf", (a,))(a)[:2]
    return packed, tau


def reflected(a: Array, tau: Array) -> Array:
    """The whole product of reflectors."""
    q = np.eye(a.shape[0], dtype=a.dtype)
    for i, t in enumerate(tau):
        v = a[:, i].copy()
        v[:i], v[i] = 0, 1
        q = q @ (np.eye(len(v)) - t * np.outer(v, np.conj(v)))
    return q


def ormqr(
    a: Array, tau: Array, c: Array, left: bool = True, transpose: bool = False
) -> Array:
    q = reflected(a, tau)
    q = np.conj(q.T) if transpose else q
    return np.asarray(q @ c if left else c @ q)


def with_vectors(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices and the factors of their reflectors, batch by batch."""

    def called(a: Array, tau: Array, *rest: Any, **kwargs: Any) -> Any:
        if a.ndim == 2:
            return f(a, tau, *rest, **kwargs)
        more = [r if not isinstance(r, np.ndarray) else list(r) for r in rest]
        rows = [
            f(a[i], tau[i], *(r[i] if isinstance(r, list) else r for r in more), **kwargs)
            for i in range(len(a))
        ]
        return np.stack(rows)

    return called


def half(a: Array) -> Array:
    return (a + adjoint(a)) / 2


def eigh(a: Array, UPLO: str = "L") -> tuple[Array, Array]:
    w, v = np.linalg.eigh(half(a))
    return w, np.abs(v) ** 2


def eig(a: Array) -> list[Array]:
    w, v = np.linalg.eig(a)
    w, v = w.astype(complex), v.astype(complex)
    return [w.sum(-1), (w * w).sum(-1), (np.abs(v) ** 2 * w[..., None, :]).sum(-1)]


def eigvals(a: Array) -> list[Array]:
    w = np.linalg.eigvals(a).astype(complex)
    return [w.sum(-1), (w * w).sum(-1)]


def svd(a: Array, full: bool = True) -> tuple[Array, Array, Array]:
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    return np.abs(u) ** 2, s, np.abs(vh) ** 2


def old_svd(a: Array) -> tuple[Array, Array, Array]:
    u, s, vh = svd(a, False)
    return u, s, np.swapaxes(vh, -1, -2)


def qr(a: Array, mode: str = "reduced") -> Any:
    found = np.linalg.qr(a, mode=mode)  # type: ignore[call-overload]
    return (np.zeros(0, a.dtype), found) if mode == "r" else tuple(found)


def pinv(
    a: Array, rcond: float | None = None, atol: float = 0.0, rtol: float | None = None
) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    if not s.size:
        return np.zeros(a.shape[:-2] + a.shape[:-3:-1], a.dtype)
    relative = rcond if rcond is not None else rtol
    limit = np.maximum(atol, (1e-13 if relative is None else relative) * s[..., :1])
    inverse = np.where(s > limit, 1 / s, 0)
    return np.asarray(adjoint(vh) * inverse[..., None, :] @ adjoint(u))


def rank(a: Array, atol: float = 0.0) -> Array:
    if not a.size:
        return np.zeros(a.shape[:-2], np.int64)
    return np.asarray(np.linalg.matrix_rank(a, tol=atol or None))


def lstsq(a: Array, b: Array, driver: str = "gelsy") -> list[Array]:
    vector = b.ndim < a.ndim
    right = b[..., None] if vector else b
    x = pinv(a) @ right
    rest = (np.abs(a @ x - right) ** 2).sum(-2)
    known = driver == "gelsd" and a.shape[-2] > a.shape[-1]
    return [x[..., 0] if vector else x, rest if known else np.zeros(0)]


def matrix_norm(a: Array, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Array:
    if not a.size:
        return np.zeros(())
    return np.asarray(np.linalg.norm(a, ord, axis=dim, keepdims=keepdim))


def norm(a: Array, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(np.linalg.norm(a, ord, axis=dim, keepdims=keepdim))


def vector_norm(a: Array, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Array:
    return norm(a.reshape(-1) if dim is None else a, ord, dim, keepdim)


def cond(a: Array, p: Any = None) -> Array:
    return np.asarray(np.linalg.cond(a, p)) if a.size else np.zeros(())


def exponential(a: Array) -> Array:
    return scipy.linalg.expm(a) if a.size else a


def triangular_solve(
    b: Array, a: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    t = triangle(a, upper, unitriangular)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return solve(t.swapaxes(-1, -2) if transpose else t, b), np.broadcast_to(a, lead + a.shape[-2:])


def ldl_factor(a: Array) -> tuple[Array, Array]:
    a = half(a)
    if not a.size:
        return a, np.zeros(0, np.int32)
    found = scipy.linalg.lapack.get_lapack_funcs("sytrf", (a,))(a, lower=1)
    return np.tril(found[0]), found[1].astype(np.int32)


def ldl_solve(ld: Array, pivots: Array, b: Array) -> Array:
    low = np.tril(ld, -1) + np.eye(len(ld))
    return solve(low @ np.diag(np.diag(ld)) @ low.T, b)


def ones(f: Callable[..., Any]) -> Callable[..., Any]:
    """With an info code of zero for every matrix, the last result."""

    def called(a: Array, *rest: Any, **kwargs: Any) -> Any:
        found = f(a, *rest, **kwargs)
        found = found if isinstance(found, tuple) else (found,)
        return (*found, np.zeros(a.shape[:-2], np.int32))

    return called


def slogdet(a: Array) -> tuple[Array, Array]:
    sign, size = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(size)


def inverse_of_factor(a: Array, upper: bool = False) -> Array:
    t = triangle(a, upper)
    return np.linalg.inv(adjoint(t) @ t if upper else t @ adjoint(t))


def cholesky_solve(b: Array, a: Array, upper: bool = False) -> Array:
    return np.asarray(inverse_of_factor(a, upper) @ b)


def vander(x: Array, N: int | None = None) -> Array:
    return x[..., None] ** np.arange(x.shape[-1] if N is None else N)


def tensorsolve(a: Array, b: Array, dims: Any = None) -> Array:
    return np.linalg.tensorsolve(a, b, dims)


def vecdot(x: Array, y: Array, dim: int = -1) -> Array:
    return np.asarray((np.conj(x) * y).sum(dim))


def cross(x: Array, y: Array, dim: int = -1) -> Array:
    return np.cross(x, y, axis=dim)


# fmt: off
REFERENCES: dict[str, Callable[..., Any]] = {name: of(f) for name, f in {
    "linalg_cholesky": cholesky, "linalg_cholesky_upper": cholesky,
    "linalg_cholesky_ex": ones(cholesky), "cholesky": cholesky,
    "cholesky_solve": cholesky_solve, "cholesky_inverse": inverse_of_factor,
    "linalg_solve": solve, "linalg_solve_ex": ones(solve), "linalg_solve_large": solve,
    "linalg_inv": np.linalg.inv, "linalg_inv_ex": ones(np.linalg.inv), "inverse": np.linalg.inv,
    "linalg_det": np.linalg.det, "det": np.linalg.det, "linalg_slogdet": slogdet,
    "slogdet": slogdet, "logdet": lambda a: np.log(np.linalg.det(a @ adjoint(a)).real + 0 * a.sum()),
    "linalg_lu_factor": each(lu_factor), "linalg_lu_factor_ex": ones(each(lu_factor)),
    "linalg_lu": each(lambda a: unpack(*lu_factor(a))), "lu_unpack": unpack,
    "linalg_lu_solve": lu_solve, "lu_solve": lambda b, lu, p: lu_solve(lu, p, b),
    "linalg_solve_triangular": solve_triangular,
    "linalg_solve_triangular_large": solve_triangular, "triangular_solve": triangular_solve,
    "linalg_qr": qr, "linalg_qr_complete": qr, "linalg_qr_values": qr, "qr": qr,
    "geqrf": each(factors),
    "linalg_householder_product": with_vectors(lambda a, t: reflected(a, t)[:, : a.shape[1]]),
    "orgqr": lambda a, t: reflected(a, t)[:, : a.shape[1]], "ormqr": with_vectors(ormqr),
    "linalg_eigh": eigh, "linalg_eigvalsh": lambda a: np.linalg.eigvalsh(half(a)),
    "linalg_eigh_upper": eigh, "linalg_eigh_large": eigh, "linalg_eig": eig,
    "linalg_eigvals": eigvals, "linalg_svd": svd, "linalg_svd_full": svd,
    "linalg_svdvals": lambda a: np.linalg.svd(a, compute_uv=False), "svd": old_svd,
    "linalg_pinv": pinv, "linalg_pinv_tolerant": pinv, "pinverse": pinv,
    "linalg_matrix_rank": rank, "linalg_lstsq": lstsq, "linalg_lstsq_gelsd": lstsq,
    "linalg_cond": cond, "linalg_matrix_norm": matrix_norm, "linalg_norm": norm,
    "linalg_vector_norm": vector_norm,
    "nuclear_norm": lambda a, dim=(0, 1), keepdim=False: matrix_norm(a, "nuc", dim, keepdim),
    "linalg_matrix_exp": exponential, "matrix_exp": exponential,
    "linalg_matrix_power": np.linalg.matrix_power, "matrix_power": np.linalg.matrix_power,
    "linalg_multi_dot": np.linalg.multi_dot, "chain_matmul": lambda *a: np.linalg.multi_dot(a),
    "linalg_vecdot": vecdot, "linalg_cross": cross, "linalg_vander": vander,
    "linalg_tensorinv": np.linalg.tensorinv, "linalg_tensorsolve": tensorsolve,
    "linalg_ldl_factor": each(ldl_factor), "linalg_ldl_factor_ex": ones(each(ldl_factor)),
    "linalg_ldl_solve": lambda ld, p, b: ldl_solve(ld, p, b),
}.items()}
# fmt: on
