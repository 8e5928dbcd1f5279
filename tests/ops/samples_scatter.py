"""Samples and references of what writes to chosen places or gives another shape: index_put, put,
masked_scatter, the *_as family, the splits; and of results in pairs, var_mean. Read `samples.py`
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

T = "Tensor."
MASK = np.array([[True, False, True], [False, False, True]])


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def I(*values: Any) -> Array:  # noqa: E743 - an index
    return np.array(values, np.int64)


def moved(name: str, samples: list[Sample], path: str = "", **more: Any) -> Op:
    """An op that only moves elements: every dtype, exact."""
    return Op(name, samples, "bifhc", path=path, **more)


NONE = np.zeros(0, np.int64)

# fmt: off
OPS = [
    moved("index_put", [
        S(R(3, 4), (I(0, 2),), R(2, 4)), S(R(3, 4), (I(0, 2), I(1, -1)), R(2)),
        S(R(3, 4), (I(0, 2),), R()), S(R(3, 4), (I([0], [2]), I(1, 3)), R(2, 2)),
        S(R(2, 3), (MASK,), R(3)), S(R(2, 3), (MASK,), R()), S(R(3), (NONE,), R(0)),
        S(R(2, 3, 4), (I(1), I(0, 2)), R(2, 4)), S(R(3, 4), (np.array([2], np.int32),), R(4)),
    ], inplace=True),
    Op("index_put_added", [
        S(R(3, 4), (I(0, 2, 0),), R(3, 4), accumulate=True),
        S(R(3, 4), (I(0, 0), I(1, 1)), R(2), True), S(R(2, 3), (MASK,), R(), True),
    ], "ifhc", path="index_put", method=False, ulps=4),
    moved("index_copy", [
        S(R(3, 4), 0, I(2, 0), R(2, 4)), S(R(3, 4), 1, I(3), R(3, 1)), S(R(3), -1, NONE, R(0)),
        S(R(2, 3, 4), 1, I(2, 1), R(2, 2, 4)), S(R(), 0, I(0), R(1)),
    ], inplace=True),
    moved("index_fill", [
        S(R(3, 4), 0, I(2, 0), 1), S(R(3, 4), 1, I(3, -1), 1), S(R(3), -1, NONE, 1),
        S(R(3, 4), 1, I(0, 2), R()), S(R(), 0, I(0), 1), S(R(2, 3, 4), 1, np.array(1), R()),
    ], inplace=True),
    moved("masked_scatter", [
        S(R(2, 3), MASK, R(3)), S(R(2, 3), MASK, R(2, 4)), S(R(2, 3), MASK[0], R(6)),
        S(R(2, 3), MASK & False, R(0)), S(R(), np.array(True), R(1)),
    ], inplace=True),
    moved("put", [
        S(R(2, 3), I(0, 5), R(2)), S(R(2, 3), I([1, -1]), R(1, 2)), S(R(4), NONE, R(0)),
        S(R(), np.array(0), R()),
    ], inplace=True),
    Op("put_added", [
        S(R(2, 3), I(0, 5, 0), R(3), accumulate=True), S(R(4), I(1, 1), R(2), True),
    ], "ifhc", path="put", method=False, ulps=4),
    moved("take", [
        S(R(2, 3), I(0, 5, -1)), S(R(2, 3), I([1, 1], [4, 0])), S(R(4), NONE), S(R(), np.array(0)),
    ]),
    moved("fill", [
        S(R(2, 3), 1), S(R(2, 3), R()), S(R(), 0), S(R(0, 3), 1), S(R(67), R()),
    ], inplace=True),
    Op("positive", [S(R(2, 3)), S(R()), S(R(0, 3)), S(R(67))], "ifhc"),
    moved("resolve_conj", [S(R(2, 3)), S(R()), S(R(0, 3))]),
    moved("resolve_neg", [S(R(2, 3)), S(R()), S(R(0, 3))]),
    moved("expand_as", [
        S(R(1, 3), R(2, 3)), S(R(), R(2)), S(R(3), R(2, 3)), S(R(1), R(0)),
    ], T + "expand_as"),
    moved("reshape_as", [S(R(2, 3), R(3, 2)), S(R(1), R()), S(R(0, 3), R(3, 0))], T + "reshape_as"),
    moved("view_as", [S(R(2, 3), R(2, 3, 1)), S(R(2, 1), R(2))], T + "view_as"),
    Op("view_as_complex", [
        S(R(3, 2)), S(R(2)), S(R(2, 3, 2)),
    ], "f", "complex", method=False, restride=False),  # the pairs must lie together
    moved("broadcast_tensors", [
        S(R(2, 1), R(3)), S(R(2, 3)), S(R(), R(2), R(1, 1)), S(R(0, 1), R(3)),
    ], method=False),
    *(
        moved(f"atleast_{n}d", [S(R()), S(R(3)), S(R(2, 3)), S(R(2, 3, 1, 2)), S(R(0))],
              method=False)
        for n in (1, 2, 3)
    ),
    *(
        moved(f"all_atleast_{n}d", [S(R(), R(3)), S([R(2, 3), R()])], path=f"atleast_{n}d",
              method=False)
        for n in (1, 2, 3)
    ),
    moved("diagflat", [S(R(3)), S(R(2, 2), 1), S(R(3), -2), S(R()), S(R(0))]),
    moved("hsplit", [S(R(2, 6), 3), S(R(6), 2), S(R(2, 5), (1, 3)), S(R(4), (0, 2))]),
    moved("vsplit", [S(R(6, 2), 3), S(R(5, 2), (1, 3)), S(R(0, 2), 1)]),
    moved("dsplit", [S(R(2, 1, 6), 3), S(R(1, 2, 5), (1, 3))]),
    moved("split_with_sizes", [S(R(5, 2), [2, 3]), S(R(2, 5), [1, 0, 4], -1), S(R(0, 2), [0])]),
    *(
        Op(
            name,
            [
                S(R(2, 3, 4)), S(R(2, 3, 4), dim=1), S(R(2, 3, 4), dim=(0, 2), keepdim=True),
                S(R(2, 3, 4), dim=-1, correction=0), S(R(5), unbiased=False), S(R(67)),
                S(R(37, 3), dim=0), S(R(3, 4), dim=(1,), unbiased=False, keepdim=True),
            ],
            "fhc", "real", method=False, ulps=32,
        )
        for name in ("var_mean", "std_mean")
    ),
]
# fmt: on


def index_put(x: Array, indices: Any, values: Any, accumulate: bool = False) -> Any:
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def rows_of(x: Array, dim: int) -> Array:
    """A copy with the axis in front; a 0-d array counts as one row."""
    return np.moveaxis(np.atleast_1d(x).copy(), dim, 0)


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Any:
    out = rows_of(x, dim)
    out[index] = np.moveaxis(source, dim, 0)
    return np.moveaxis(out, 0, dim).reshape(x.shape)


def index_fill(x: Array, dim: int, index: Array, value: Any) -> Any:
    out = rows_of(x, dim)
    out[index] = value
    return np.moveaxis(out, 0, dim).reshape(x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Any:
    out = x.copy()
    where = np.broadcast_to(mask, x.shape)
    out[where] = source.reshape(-1)[: int(where.sum())]
    return out


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Any:
    flat = x.reshape(-1).copy()
    index_put_ = np.add.at if accumulate else np.put
    index_put_(flat, index.reshape(-1), source.reshape(-1))
    return flat.reshape(x.shape)


def filled(x: Array, value: Any) -> Any:
    return np.full(x.shape, value, x.dtype)


def at_least_3d(x: Array) -> Any:
    """The last axis is the new one, as for NumPy."""
    return np.atleast_3d(x)


def each(f: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(*xs: Any) -> Any:
        return tuple(f(x) for x in (xs[0] if isinstance(xs[0], list) else xs))

    return reference


def cut(axis: int) -> Callable[..., Any]:
    def reference(x: Array, where: Any) -> Any:
        at = where if isinstance(where, int) else list(where)
        return tuple(np.split(x, at, axis=min(axis, x.ndim - 1)))

    return reference


def spread_and_mean(root: bool) -> Callable[..., Any]:
    def reference(
        x: Array, dim: Any = None, unbiased: bool = True, *, correction: Any = None,
        keepdim: bool = False,
    ) -> Any:  # fmt: skip
        ddof = int(unbiased) if correction is None else correction
        var = np.var(x, axis=dim, ddof=ddof, keepdims=keepdim)
        return (np.sqrt(var) if root else var), np.mean(x, axis=dim, keepdims=keepdim)

    return reference


REFERENCES: dict[str, Callable[..., Any]] = {
    "index_put": index_put, "index_put_added": index_put, "index_copy": index_copy,
    "index_fill": index_fill, "masked_scatter": masked_scatter, "put": put, "put_added": put,
    "take": lambda x, index: x.reshape(-1)[index], "fill": filled, "positive": np.copy,
    "resolve_conj": np.copy, "resolve_neg": np.copy,
    "expand_as": lambda x, y: np.broadcast_to(x, y.shape),
    "reshape_as": lambda x, y: x.reshape(y.shape), "view_as": lambda x, y: x.reshape(y.shape),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "broadcast_tensors": lambda *xs: tuple(np.broadcast_arrays(*xs)),
    "atleast_1d": np.atleast_1d, "atleast_2d": np.atleast_2d, "atleast_3d": at_least_3d,
    "all_atleast_1d": each(np.atleast_1d), "all_atleast_2d": each(np.atleast_2d),
    "all_atleast_3d": each(at_least_3d), "diagflat": np.diagflat, "hsplit": cut(1),
    "vsplit": cut(0), "dsplit": cut(2),
    "split_with_sizes": lambda x, sizes, dim=0: tuple(
        np.split(x, np.cumsum(sizes)[:-1], axis=dim)
    ),
    "var_mean": spread_and_mean(False), "std_mean": spread_and_mean(True),
}  # fmt: skip
