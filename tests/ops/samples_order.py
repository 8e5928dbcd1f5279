"""Samples and references of what puts elements in order, searches in order, counts and compares:
sort, topk, searchsorted, unique, histc, nonzero and their like. Read `samples.py` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, D, Op, Sample


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def wide(*shape: int) -> Arr:
    """Over a range in which small samples of integers have no ties, whose order is nobody's."""
    return Arr(shape, -120, 120)


def with_nans(*shape: int) -> Arr:
    return Arr(shape, nans=(1, 4))


def I(*values: Any) -> Array:  # noqa: E743 - an index
    return np.array(values, np.int64)


def whole(*shape: int) -> Arr:
    return Arr(shape, 0, 6)


def question(name: str, samples: list[Sample], dtypes: str = "bifhc", **more: Any) -> Op:
    """What has no gradient and is exact."""
    return Op(name, samples, dtypes, **{"diff": False, **more})


def edges(*shape: int) -> Arr:
    return Arr(shape, ordered=True)


# fmt: off
IN_ORDER = [
    S(R(2, 3, 4)), S(R(2, 3, 4), 0), S(R(2, 3, 4), dim=1, descending=True), S(R()), S(R(), 0),
    S(R(0, 3)), S(R(0, 3), 0), S(R(3, 67), stable=True), S(R(67, 2), dim=0, stable=True),
    S(with_nans(7)), S(with_nans(3, 3), 0, descending=True),
]
CUT = [S(wide(n), 2) for n in (3, 5)] + [
    S(wide(2, 3, 4), 2), S(wide(2, 3, 4), 1, 0), S(wide(2, 3, 4), 3, dim=1), S(wide(), 1),
    S(Arr((3, 5), -120, 120, nans=(1, 6, 14)), 2),
]
OPS = [
    Op("sort", IN_ORDER, "bifh"), question("argsort", IN_ORDER, "bifh", out="long"),
    Op("msort", [S(R(2, 3, 4)), S(R(5)), S(R(0, 3)), S(R()), S(with_nans(7))], "bifh"),
    Op("topk", [
        *CUT, S(wide(5), 2, largest=False), S(wide(2, 3), 3, 1, False, True), S(wide(2, 3), 0),
        S(wide(0, 3), 2),
    ], "ifh"),
    Op("kthvalue", [*CUT, S(wide(2, 3, 4), 2, 1, True), S(wide(0, 3), 2)], "ifh"),
    question("searchsorted", [
        S(edges(5), R(2, 3)), S(edges(5), R(2, 3), right=True), S(edges(5), R(3), side="right"),
        S(edges(2, 5), R(2, 3)), S(edges(5), 0.5), S(edges(0), R(3)), S(edges(5), R(0)),
        S(edges(5), R()), S(edges(5), with_nans(6)),
    ], "ifh", out="long", method=False),
    question("searchsorted_as_int32", [
        S(edges(5), R(2, 3), out_int32=True), S(R(4), R(3), sorter=I(2, 0, 3, 1), out_int32=True),
    ], "ifh", out="int32", path="searchsorted", method=False),
    question("bucketize", [
        S(R(2, 3), edges(5)), S(R(2, 3), edges(5), right=True), S(R(), edges(5)), S(R(0), edges(5)),
        S(0.5, edges(5)), S(R(3), edges(0)), S(with_nans(6), edges(5)),
    ], "ifh", out="long", method=False),
    # What is left when equals are dropped.
    question("unique", [
        S(R(7)), S(R(2, 3)), S(R()), S(R(0)), S(R(7), return_inverse=True), S(R(67)),
        S(R(2, 3), return_inverse=True, return_counts=True), S(R(2, 3), True, False, True),
    ], "bifh"),
    question("unique_rows", [
        S(R(5, 2), dim=0), S(R(2, 5), dim=1, return_inverse=True, return_counts=True),
        S(R(3, 2, 2), dim=-1, return_counts=True),
    ], "bifh", path="unique", method=False),
    question("unique_consecutive", [
        S(R(7)), S(R(2, 3)), S(R()), S(R(0)), S(edges(9), return_counts=True),
        S(edges(9), return_inverse=True, return_counts=True),
    ], "bifh"),
    question("isin", [
        S(R(2, 3), R(4)), S(R(2, 3), R(2, 2), invert=True), S(R(2, 3), 1), S(1.0, R(3)),
        S(R(0), R(3)), S(R(3), R(0)), S(R(), R()), S(R(67), R(30), assume_unique=False),
        S(with_nans(6), with_nans(6)),
    ], "if", out="bool", method=False, restride=False),  # PyTorch's refuses some strides
    # Counting.
    question("bincount", [
        S(whole(7)), S(whole(67), minlength=9), S(whole(0)), S(whole(0), minlength=2),
    ], "i", out="long"),
    question("bincount_weighted", [
        S(whole(7), Arr((7,), dtype="float64")), S(whole(7), Arr((7,), dtype="int32"), 9),
    ], "i", out="float64", path="bincount", method=False, ulps=4),
    question("histc", [
        S(R(2, 30), 4, -2, 2), S(R(67), bins=5), S(R(2, 3), 4, 0.5, 1), S(R(5), 3, -9, 9),
        S(R(), 2),
    ], "f"),
    question("hash_tensor", [
        S(R(2, 3, 4)), S(R(2, 3, 4), 1), S(R(2, 3, 4), (0, 2), keepdim=True), S(R()), S(R(), 0),
        S(R(0, 3), 1), S(R(3, 67), -1, mode=0), S(R(67, 3), [0]), S(with_nans(7)),
    ], "bifh", out="uint64"),
    # Where something is.
    question("nonzero", [S(R(2, 3)), S(R(67)), S(R()), S(R(0, 3)), S(with_nans(2, 3))], out="long"),
    question("nonzero_as_tuple", [
        S(R(2, 3), as_tuple=True), S(R(67), as_tuple=True), S(R(), as_tuple=True),
    ], out="long", path="nonzero", method=False),
    question("argwhere", [S(R(2, 3)), S(R(67)), S(R()), S(R(0, 3))], out="long"),
    *(
        question(name, [S(3, 4), S(4, 3, 1), S(2, 5, -1), S(0, 3), S(3, 3, 9), S(3, 3, -9)], "i",
                 out="long", method=False)
        for name in ("tril_indices", "triu_indices")
    ),
    question("triangle_in_int32", [S(3, 4, 1, dtype=D("int32"))], "i", out="int32",
             path="tril_indices", method=False),
    question("unravel_index", [
        S(I(5, 0, 3), (2, 3)), S(np.array(7), (2, 2, 2)), S(I([1, 2], [3, 0]), (4,)),
        S(np.zeros(0, np.int64), (2, 3)),
    ], "i", out="long", method=False),
    # Of whole tensors, answered by a Python bool.
    question("equal", [
        S(R(2, 3), R(2, 3)), S(R(2, 3), R(3, 2)), S(R(0), R(0)), S(R(), R()),
        S(Arr((2,), 1, 1), Arr((2,), 1, 1)), S(with_nans(5), with_nans(5)),
    ], out="bool"),
    question("allclose", [
        S(R(2, 3), R(2, 3)), S(R(2, 3), R(3)), S(R(0), R(0)), S(R(5), R(5), atol=9.0),
        S(R(5), R(5), rtol=1e3), S(Arr((2,), 1, 1), Arr((2,), 1, 1)),
    ], "ifhc", out="bool"),
]
# fmt: on


def ascending(x: Array) -> Array:
    """A key by which every dtype sorts with NaN last, whatever the direction of its own order."""
    order = np.argsort(x, axis=-1, kind="stable")
    rank = np.empty(x.shape, np.int64)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(x.shape[-1]), x.shape), -1)
    # Equal elements get one rank: that of the first.
    line = np.take_along_axis(x, order, -1)
    alike = (line[..., 1:] == line[..., :-1]) | (np.isnan(line[..., 1:]) & np.isnan(line[..., :-1]))
    first = np.concatenate([np.zeros((*x.shape[:-1], 1), bool), alike], -1)
    place = np.where(first[..., : x.shape[-1]], 0, np.arange(x.shape[-1]))
    np.put_along_axis(rank, order, np.maximum.accumulate(place, axis=-1), -1)
    return rank


def order_of(x: Array, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    if x.shape[dim] == 0:
        return np.zeros(x.shape, np.int64)
    rank = ascending(np.moveaxis(x, dim, -1))
    order = np.argsort(-rank if descending else rank, axis=-1, kind="stable")
    return np.moveaxis(order, -1, dim)


def sort(x: Array, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    order = order_of(x, dim, descending)
    return (np.take_along_axis(x, order, dim) if x.ndim else x), order


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, ordered: bool = True) -> Any:
    values, order = sort(x, dim, largest)
    if x.ndim == 0:
        return values, order
    return np.take(values, range(k), axis=dim), np.take(order, range(k), axis=dim)


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, order = sort(x, dim)
    if x.ndim == 0:
        return values, order
    at = [k - 1] if keepdim else k - 1
    return np.take(values, at, axis=dim), np.take(order, at, axis=dim)


def searchsorted(
    line: Array, x: Any, right: bool = False, side: str = "", sorter: Any = None, **_: Any
) -> Any:
    side = side or ("right" if right else "left")
    line = line if sorter is None else np.take_along_axis(line, sorter, -1)
    if line.ndim == 1:
        return np.searchsorted(line, x, side)  # type: ignore[call-overload]
    rows = [np.searchsorted(a, b, side) for a, b in zip(line, x, strict=True)]  # type: ignore[call-overload]
    return np.stack(rows)


def unique(
    x: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    if x.dtype == bool and dim is not None:  # NumPy compares the bytes of whole slices
        values, inverse, counts = np.unique(
            x.astype(np.int8), return_inverse=True, return_counts=True, axis=dim
        )
        values = values.astype(bool)
    else:
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(x.shape if dim is None else -1)
    return chosen(values, inverse, counts, return_inverse, return_counts)


def unique_consecutive(x: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
    flat = x.reshape(-1)
    starts = np.concatenate([np.ones(min(flat.size, 1), bool), flat[1:] != flat[:-1]])
    inverse = (np.cumsum(starts) - 1).reshape(x.shape)
    counts = np.bincount(inverse.reshape(-1)) if flat.size else np.zeros(0, np.int64)
    return chosen(flat[starts], inverse, counts, return_inverse, return_counts)


def chosen(values: Any, inverse: Any, counts: Any, want_inverse: bool, want_counts: bool) -> Any:
    return (values, *([inverse] if want_inverse else []), *([counts] if want_counts else []))


def isin(x: Any, among: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return np.isin(x, among, invert=invert)


def bincount(x: Array, weights: Any = None, minlength: int = 0) -> Any:
    weights = None if weights is None else weights.astype(np.float64)
    return np.bincount(x.astype(np.int64), weights, minlength)


def histc(x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    low, high = (min, max) if min != max else (x.min(), x.max())
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(x, bins, (low, high))[0]


def joined_bits(x: Array, dim: Any = (), keepdim: bool = False, mode: int = 0) -> Any:
    words = x.astype(np.float64 if x.dtype.kind == "f" else np.int64).view(np.uint64)
    axes = dim if isinstance(dim, int) else tuple(dim) or tuple(range(x.ndim))
    return np.bitwise_xor.reduce(words, axes if x.ndim else (), keepdims=keepdim)


def coordinates(x: Array, as_tuple: bool = False) -> Any:
    where = np.nonzero(x if x.ndim else x.reshape(1))
    if as_tuple:
        return where
    return np.stack(where, -1) if x.ndim else np.zeros((len(where[0]), 0), np.int64)


def triangle(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda rows, columns, offset=0, dtype=None: np.stack(f(rows, offset, columns))


REFERENCES: dict[str, Callable[..., Any]] = {
    "sort": sort, "argsort": order_of, "msort": lambda x: sort(x, 0)[0], "topk": topk,
    "kthvalue": kthvalue, "searchsorted": searchsorted, "searchsorted_as_int32": searchsorted,
    "bucketize": lambda x, line, right=False: searchsorted(line, x, right),
    "unique": unique, "unique_rows": unique, "unique_consecutive": unique_consecutive,
    "isin": isin, "bincount": bincount, "bincount_weighted": bincount, "histc": histc,
    "hash_tensor": joined_bits,
    "nonzero": coordinates, "nonzero_as_tuple": coordinates, "argwhere": coordinates,
    "tril_indices": triangle(np.tril_indices), "triu_indices": triangle(np.triu_indices),
    "triangle_in_int32": triangle(np.tril_indices), "unravel_index": np.unravel_index,
    "equal": lambda x, y: np.asarray(x.shape == y.shape and bool(np.all(x == y))),
    "allclose": lambda x, y, **how: np.asarray(np.allclose(x, y, **how)),
}  # fmt: skip
