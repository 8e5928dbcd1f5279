"""What linear algebra must return, by NumPy and SciPy: the references of `samples_linalg.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from tests.ops.spec import Array


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
        lead = np.broadcast_shapes(
            *(x.shape[: x.ndim - r] for x, r in zip(args, ranks, strict=True))
        )
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


def made_up(parts: Callable[..., Any]) -> Callable[..., Any]:
    """P L and U: see `permuted` in samples_linalg.py."""

    def called(*args: Array) -> tuple[Array, Array]:
        p, low, high = parts(*args)
        return p @ low, high

    return called


def lu_factor(a: Array) -> tuple[Array, Array]:
    """Elimination with the largest pivots."""
    a, (m, n) = a.copy(), a.shape
    pivots = np.zeros(min(m, n), np.int32)
    for k in range(min(m, n)):
        p = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))  # as LAPACK has it
        pivots[k] = p + 1
        a[[k, p]] = a[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


def lu_solve(lu: Array, pivots: Array, b: Array, left: bool = True, adjoint: bool = False) -> Array:
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


def ormqr(a: Array, tau: Array, c: Array, left: bool = True, transpose: bool = False) -> Array:
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
    """Taylor's series of a / 1024, squared ten times, in long doubles: SciPy's of two by two loses
    three digits.
    """
    x = a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble) / 1024
    total = term = np.broadcast_to(np.eye(a.shape[-1], dtype=x.dtype), x.shape)
    for k in range(1, 16):
        term = term @ x / k
        total = total + term
    for _ in range(10):
        total = total @ total
    return total


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
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "linalg_cholesky": cholesky, "linalg_cholesky_upper": cholesky,
    "linalg_cholesky_ex": ones(cholesky), "cholesky": cholesky,
    "cholesky_solve": cholesky_solve, "cholesky_inverse": inverse_of_factor,
    "linalg_solve": solve, "linalg_solve_ex": ones(solve), "linalg_solve_large": solve,
    "linalg_inv": np.linalg.inv, "linalg_inv_ex": ones(np.linalg.inv), "inverse": np.linalg.inv,
    "linalg_det": np.linalg.det, "det": np.linalg.det, "linalg_slogdet": slogdet,
    "slogdet": slogdet,
    "logdet": lambda a: np.log(np.linalg.det(a @ adjoint(a)).real + 0 * a.sum()),
    "linalg_lu_factor": each(lu_factor), "linalg_lu_factor_ex": ones(each(lu_factor)),
    "linalg_lu": each(lambda a: made_up(unpack)(*lu_factor(a))), "lu_unpack": made_up(unpack),
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
    "linalg_cond": cond, "linalg_cond_empty": cond, "linalg_matrix_norm": matrix_norm,
    "linalg_matrix_norm_empty": matrix_norm,
    "linalg_norm": norm, "linalg_vector_norm": vector_norm,
    "nuclear_norm": lambda a, dim=(0, 1), keepdim=False: matrix_norm(a, "nuc", dim, keepdim),
    "linalg_matrix_exp": exponential, "matrix_exp": exponential,
    "linalg_matrix_power": np.linalg.matrix_power, "matrix_power": np.linalg.matrix_power,
    "linalg_multi_dot": np.linalg.multi_dot, "chain_matmul": lambda *a: np.linalg.multi_dot(a),
    "linalg_vecdot": vecdot, "linalg_cross": cross, "linalg_vander": vander,
    "linalg_tensorinv": np.linalg.tensorinv, "linalg_tensorsolve": tensorsolve,
    "linalg_ldl_factor": each(ldl_factor), "linalg_ldl_factor_ex": ones(each(ldl_factor)),
    "linalg_ldl_solve": lambda ld, p, b: ldl_solve(ld, p, b),
}
# fmt: on
REFERENCES = {name: of(f) for name, f in _FUNCTIONS.items()}
