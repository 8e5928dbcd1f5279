"""Samples and references of values at a rank (median, quantile), of covariances and distances, of
sums with products, of differences and choices, and of a few ops that write to places. Read
`samples.py` first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def I(*values: Any) -> Array:  # noqa: E743 - an index
    return np.array(values, np.int64)


def wide(*shape: int, **more: Any) -> Arr:
    """Over a range in which small samples of integers have no ties, whose order is nobody's."""
    return Arr(shape, -120, 120, **more)


def away(*shape: int) -> Arr:
    """Points far from those of `R`."""
    return Arr(shape, 3, 6)


def level(*shape: int) -> Arr:
    """Levels whose ranks in samples of 3 to 5 elements are not whole."""
    return Arr(shape, 0.05, 0.45, (0.25,))


# fmt: off
MEDIANS = [
    S(wide(5)), S(wide(6)), S(wide()), S(wide(2, 3)), S(wide(7, nans=(1, 4))),
    S(wide(3, 4), 1), S(wide(3, 4), dim=0), S(wide(2, 3, 4), -1, True), S(wide(2, 3, 4), 1),
    S(wide(), 0), S(wide(0, 3), 1), S(wide(3, 5, nans=(1, 6, 7)), 1),
    S(wide(2, 3, nans=(0, 1, 2)), 1, keepdim=True),
]
LEVELS = [
    S(R(5), 0.3), S(R(2, 3), 0.6), S(R(2, 3), 0.3, 1), S(R(2, 3, 4), 0.45, dim=0, keepdim=True),
    S(R(4), level(2)), S(R(2, 4), level(2), dim=1), S(R(4, 2), level(3), 0, True), S(R(4), level()),
    S(R(2, 4), 0.7, keepdim=True), S(R(3), 0.0), S(R(3), 1.0),
    *(S(R(5), 0.3, interpolation=how) for how in ("lower", "higher", "midpoint", "nearest")),
    S(Arr((3, 4), nans=(1, 8, 9)), 0.3, 1),
]
OPS = [
    Op("median", MEDIANS, "ifh"), Op("nanmedian", MEDIANS, "ifh"),
    Op("mode", [
        S(wide(5)), S(wide(2, 3, 4), 1, True), S(wide(), 0), S(wide(0, 3), 1), S(wide(3, 4), dim=0),
    ], "ifh"),
    Op("quantile", LEVELS, "f", ulps=16), Op("nanquantile", LEVELS, "f", ulps=16),
    Op("cov", [
        S(R(3, 5)), S(R(5)), S(R(3, 5), correction=0), S(R(3, 5), fweights=I(1, 2, 0, 3, 1)),
        S(R(1, 4)),
    ], "fc", ulps=64),
    Op("cov_weighted", [
        S(R(3, 5), aweights=Arr((5,), 0.5, 2)), S(R(5), aweights=Arr((5,), 0.5, 2), correction=0),
        S(R(3, 5), fweights=I(1, 2, 0, 3, 1), aweights=Arr((5,), 0.5, 2)),
    ], "f", path="cov", method=False, ulps=64),
    Op("corrcoef", [S(R(3, 5)), S(R(2, 7))], "fc", ulps=64),
    Op("cdist", [
        S(R(3, 2), away(4, 2)), S(R(2, 3, 2), away(2, 4, 2)), S(R(2, 3, 2), away(4, 2)),
        S(R(0, 2), away(3, 2)), S(R(2, 0), R(3, 0)),
        *(S(R(3, 2), away(4, 2), p) for p in (1.0, 1.5, 3.0, float("inf"), 0.0)),
    ], "f", method=False, ulps=32),
    Op("renorm", [
        S(R(3, 4), 2, 0, 1.5), S(R(2, 3, 2), 1, -1, 2), S(R(3, 4), 3, 1, 0.5), S(R(3, 4), 2, 0, 99),
    ], "fhc", ulps=32),
    Op("renorm_largest", [S(R(3, 4), float("inf"), 0, 1)], "f", path="renorm", method=False,
       ulps=32),
    Op("addr", [
        S(R(2, 3), R(2), R(3)), S(R(), R(2), R(3)), S(R(3), R(2), R(3), beta=2, alpha=3),
        S(R(2, 3), R(2), R(3), beta=0), S(R(0, 3), R(0), R(3)),
    ], "ifhc", inplace=True, ulps=8, terms=4),
    Op("addbmm", [
        S(R(2, 4), R(5, 2, 3), R(5, 3, 4)), S(R(4), R(5, 2, 3), R(5, 3, 4)),
        S(R(2, 4), R(5, 2, 3), R(5, 3, 4), beta=2, alpha=3), S(R(2, 4), R(0, 2, 3), R(0, 3, 4)),
        S(R(2, 4), R(2, 2, 3), R(2, 3, 4), beta=0),
    ], "ifhc", inplace=True, ulps=64),
    Op("vander", [
        S(R(3)), S(R(3), 2), S(R(3), N=4, increasing=True), S(R(0), 2),
    ], "ifc", "sum", method=False, ulps=8),
    Op("vander_of_ones", [S(R(3), 1), S(R(3), 0)], "ifc", "sum", path="vander", method=False,
       diff=False),
    Op("diff", [
        S(R(5)), S(R(2, 3, 4)), S(R(2, 5), 2), S(R(4, 2), dim=0), S(R(3), 0), S(R(3), 9),
        S(R(2, 3), 1, 1, R(2, 1)), S(R(2, 3), append=R(2, 2)), S(R(0)), S(R(1, 3), 1, 0),
    ], "bifhc", ulps=4),
    *(
        Op(name, [
            S(R(5)), S(R(2, 3, 4), dim=1), S(R(4), dx=0.5), S(R(2, 4), Arr((4,), 0, 3)),
            S(R(2, 4), Arr((2, 4), 0, 3)), S(R(4, 2), Arr((4,), 0, 3), dim=0), S(R(1)),
        ], "fc", method=False, ulps=16)
        for name in ("trapezoid", "cumulative_trapezoid")
    ),
    Op("combinations", [
        S(R(4)), S(R(4), r=3), S(R(3), with_replacement=True), S(R(3), 1), S(R(2), 3), S(R(0)),
        S(R(2), r=3, with_replacement=True),
    ], "bifhc"),
    Op("diagonal_scatter", [
        S(R(3, 3), R(3)), S(R(3, 4), R(3), 1), S(R(3, 4), R(2), offset=-1),
        S(R(2, 3, 4), R(3, 2), dim1=0, dim2=2), S(R(3, 3), R(0), 5),
    ], "bifhc"),
    Op("index_reduce", [
        S(Arr((3, 2), 0.5, 2), 0, I(2, 0, 2), Arr((3, 2), 0.5, 2), r, include_self=keep)
        for r in ("prod", "mean", "amax", "amin") for keep in (True, False)
    ] + [
        S(Arr((2, 3), 0.5, 2), 1, I(1, 1), Arr((2, 2), 0.5, 2), "prod"),
        S(Arr((3,), 0.5, 2), -1, np.zeros(0, np.int64), R(0), "amax"),
    ], "fh", inplace=True, ulps=16),
]
# fmt: on


def median(skip_nan: bool) -> Callable[..., Any]:
    """The lower of two; of a run with NaN its first NaN, or that of the others."""

    def place(run: Array) -> int:
        nans = np.flatnonzero(np.isnan(run)) if run.dtype.kind == "f" else np.zeros(0, int)
        if len(nans) and (not skip_nan or len(nans) == len(run)):
            return int(nans[0])
        return int(np.argsort(run, kind="stable")[(len(run) - len(nans) - 1) // 2])

    def reference(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            flat = x.reshape(-1)
            return np.asarray(flat[place(flat)])
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        if x.size == 0:
            gone = np.sum(x, axis=dim, keepdims=keepdim)
            return gone, gone.astype(np.int64)
        at = np.expand_dims(np.apply_along_axis(place, dim, x), dim)
        values = np.take_along_axis(x, at, dim)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return reference


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent values, at its last place."""

    def place(run: Array) -> int:
        values, counts = np.unique(run, return_counts=True)
        return int(np.flatnonzero(run == values[np.argmax(counts)])[-1])

    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    if x.size == 0:
        gone = np.sum(x, axis=dim, keepdims=keepdim)
        return gone, gone.astype(np.int64)
    at = np.expand_dims(np.apply_along_axis(place, dim, x), dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def quantile(f: Callable[..., Any]) -> Callable[..., Any]:
    def reference(
        x: Array, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear"
    ) -> Any:
        return f(x, np.asarray(q, x.dtype), axis=dim, keepdims=keepdim, method=interpolation)

    return reference


def cov(x: Array, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """NumPy's cov computes in float64; this one in the precision of its input."""
    x = np.atleast_2d(x)
    a = np.ones(x.shape[1], x.real.dtype) if aweights is None else aweights
    w = a if fweights is None else a * fweights
    total = w.sum()
    centred = x - (x * w).sum(1, keepdims=True) / total
    freedom = total - correction * ((w * a).sum() / total if aweights is not None else 1)
    return np.squeeze((centred * w) @ np.conj(centred.T) / freedom)


def corrcoef(x: Array) -> Any:
    c = cov(x)
    spread = np.sqrt(np.diagonal(c).real)
    return c / spread[:, None] / spread


def cdist(x: Array, y: Array, p: float = 2.0) -> Any:
    d = np.abs(x[..., :, None, :] - y[..., None, :, :])
    if d.shape[-1] == 0:
        return np.zeros(d.shape[:-1])
    if p == 0:
        return np.sum(d != 0, -1).astype(x.dtype)
    return np.max(d, -1) if np.isinf(p) else np.sum(d**p, -1) ** (1 / np.longdouble(p))


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Any:
    rest = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    size = np.abs(x)
    if np.isinf(p):
        norm = np.max(size, axis=rest, keepdims=True)
    else:
        norm = np.sum(size**p, axis=rest, keepdims=True) ** (1 / np.longdouble(p))
    return x * np.where(norm > maxnorm, maxnorm / (norm + np.longdouble("1e-7")), 1)


def added(x: Array, product: Array, beta: Any, alpha: Any) -> Any:
    return (np.multiply(x, beta) if beta else 0) + np.multiply(product, alpha)


def vander(x: Array, N: int | None = None, increasing: bool = False) -> Any:
    return np.vander(x, N, increasing)


def diagonal_scatter(x: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    out = x.copy()
    part = np.moveaxis(out, (dim1, dim2), (-2, -1))
    rows, columns = part.shape[-2:]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    part[..., np.arange(n) + max(-offset, 0), np.arange(n) + max(offset, 0)] = src
    return out


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool = True
) -> Any:
    reducers: dict[str, Callable[..., Any]] = {
        "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min,
    }  # fmt: skip
    out, rows = np.moveaxis(x.copy(), dim, 0), np.moveaxis(source, dim, 0)
    for k in np.unique(index):
        group = [out[k]] if include_self else []
        out[k] = reducers[reduce]([*group, *rows[index == k]], axis=0)
    return np.moveaxis(out, 0, dim)


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [p for p in (prepend, x, append) if p is not None]
    return np.diff(np.concatenate(parts, axis=dim), n, axis=dim)


def slabs(y: Array, x: Any = None, dx: float = 1, dim: int = -1) -> Any:
    y = np.moveaxis(y, dim, -1)
    if x is not None:
        x = x if x.ndim == 1 else np.moveaxis(x, dim, -1)
        dx = np.diff(x, axis=-1)
    return (y[..., 1:] + y[..., :-1]) / 2 * dx


def cumulative(y: Array, x: Any = None, dx: float = 1, dim: int = -1) -> Any:
    return np.moveaxis(np.cumsum(slabs(y, x, dx, dim), axis=-1), -1, dim)


def combinations(x: Array, r: int = 2, with_replacement: bool = False) -> Any:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(len(x)), r))
    return x[np.array(rows, np.int64).reshape(len(rows), r)]


REFERENCES: dict[str, Callable[..., Any]] = {
    "median": median(False), "nanmedian": median(True), "mode": mode,
    "quantile": quantile(np.quantile), "nanquantile": quantile(np.nanquantile), "cov": cov,
    "cov_weighted": cov,
    "corrcoef": corrcoef, "cdist": cdist, "renorm": renorm, "renorm_largest": renorm,
    "diagonal_scatter": diagonal_scatter, "index_reduce": index_reduce,
    "addr": lambda x, a, b, beta=1, alpha=1: added(x, np.outer(a, b), beta, alpha),
    "addbmm": lambda x, a, b, beta=1, alpha=1: added(x, np.matmul(a, b).sum(0), beta, alpha),
    "diff": diff, "trapezoid": lambda *a, **k: slabs(*a, **k).sum(-1),
    "cumulative_trapezoid": cumulative, "combinations": combinations, "vander": vander,
    "vander_of_ones": vander,
}  # fmt: skip
