"""Samples and references of pooling and of unfolding, by loops over windows. Read `samples.py`
first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def P(*shape: int) -> Arr:
    return Arr(shape, 0.3, 2.0)


def chosen(name: str, samples: list[Sample], dtypes: str = "fh", path: str = "", **more: Any) -> Op:
    return Op(name, samples, dtypes, path=F + (path or name), method=False, **more)


def mean(name: str, samples: list[Sample], dtypes: str = "fh", path: str = F) -> Op:
    return Op(name, samples, dtypes, path=path + name, method=False, ulps=4, terms=2.0)


def powers(name: str, samples: list[Sample]) -> Op:
    return Op(name, samples, "f", path=F + name, method=False, ulps=48, terms=2.0)


# fmt: off
OPS = [
    chosen("max_pool1d", [
        S(R(2, 3, 8), 2), S(R(3, 8), 3, 2, 1), S(R(1, 2, 9), 2, 3, 1, 2),
        S(R(1, 2, 7), 2, 2, 0, 1, True),
        S(R(0, 2, 8), 2), S(R(1, 2, 8), 3, return_indices=True),
    ]),
    chosen("max_pool2d", [
        S(R(2, 2, 4, 4), 2), S(R(2, 5, 4), (3, 2), (1, 2), 1), S(R(1, 2, 5, 6), 2, 2, 1, 2),
        S(R(1, 1, 5, 5), 2, 2, 0, 1, True), S(R(0, 2, 4, 4), 2),
        S(R(1, 2, 5, 5), 3, 1, return_indices=True),
        S(R(1, 1, 12, 37), 3, 2, 1), S(Arr((1, 1, 4, 6), nans=(3, 9)), 2, 1),
    ], "fhi"),
    chosen("max_pool3d", [
        S(R(1, 2, 2, 4, 4), 2), S(R(2, 3, 3, 4), (2, 3, 2), 1, (1, 1, 0)),
        S(R(1, 1, 3, 3, 5), 2, 2, 0, 1, True, True), S(R(0, 1, 2, 2, 2), 2),
    ], "fhi"),
    chosen("max_pool1d_with_indices", [S(R(2, 3, 8), 2), S(R(3, 8), 3, 2, 1)]),
    chosen("max_pool2d_with_indices", [S(R(2, 2, 4, 4), 2), S(R(2, 5, 4), (3, 2), (1, 2), 1)]),
    chosen("max_pool3d_with_indices", [S(R(1, 2, 2, 4, 4), 2)]),
    mean("avg_pool1d", [
        S(R(2, 3, 8), 2), S(R(3, 8), 3, 2, 1), S(R(1, 2, 7), 2, 2, 0, True),
        S(R(1, 2, 7), 3, 2, 1, True, False),
        S(R(0, 2, 8), 2),
    ]),
    mean("avg_pool2d", [
        S(R(2, 2, 4, 4), 2), S(R(2, 5, 4), (3, 2), (1, 2), 1),
        S(R(1, 1, 5, 5), 2, 2, 1, True, False),
        S(R(1, 1, 5, 5), 3, 2, 1, True), S(R(1, 2, 4, 5), 2, 2, 0, False, True, 3),
        S(R(0, 2, 4, 4), 2),
        S(R(1, 1, 9, 37), 3, 1, 1),
    ]),
    mean("avg_pool3d", [
        S(R(1, 2, 2, 4, 4), 2), S(R(2, 3, 3, 4), (2, 3, 2), 1, (1, 1, 0)),
        S(R(1, 1, 3, 3, 5), 2, 2, 1, True, False), S(R(1, 1, 2, 3, 3), 2, 1, 0, False, True, 5),
    ], "f"),
    mean("adaptive_avg_pool1d", [
        S(R(2, 3, 8), 3), S(R(3, 8), 5), S(R(1, 2, 3), 7), S(R(0, 2, 8), 3),
    ]),
    mean("adaptive_avg_pool2d", [
        S(R(2, 2, 4, 5), 3), S(R(2, 5, 4), (2, 3)), S(R(1, 2, 4, 4), (None, 2)),
        S(R(1, 1, 2, 3), (5, 1)),
    ]),
    mean("adaptive_avg_pool3d", [S(R(1, 2, 2, 4, 3), 2), S(R(2, 3, 3, 4), (2, 1, 3))]),
    chosen("adaptive_max_pool1d", [
        S(R(2, 3, 8), 3), S(R(3, 8), 5), S(R(1, 2, 3), 7), S(R(1, 2, 8), 3, return_indices=True),
    ]),
    chosen("adaptive_max_pool2d", [
        S(R(2, 2, 4, 5), 3), S(R(2, 5, 4), (2, 3)), S(R(1, 2, 4, 4), (None, 2), True),
    ]),
    chosen("adaptive_max_pool3d", [S(R(1, 2, 2, 4, 3), 2), S(R(2, 3, 3, 4), (2, 1, 3), True)]),
    powers("lp_pool1d", [
        S(P(2, 3, 8), 2.0, 2), S(P(3, 8), 3.0, 3, 2), S(P(1, 2, 7), 1.5, 2, 2, True),
    ]),
    powers("lp_pool2d", [S(P(2, 2, 4, 4), 2.0, 2), S(P(2, 5, 4), 3.0, (3, 2), 1)]),
    powers("lp_pool3d", [S(P(1, 2, 2, 4, 4), 2.0, 2), S(P(2, 2, 3, 4), 1.5, (2, 1, 2), 1)]),
    chosen("max_unpool1d", [S(R(2, 2, 3), np.array([[[0, 3, 5]] * 2] * 2), 2)]),
    chosen("max_unpool2d", [
        S(R(1, 2, 2, 2), np.array([[[[0, 3], [9, 14]]] * 2]), 2),
        S(R(2, 2, 2), np.array([[[0, 3], [9, 14]]] * 2), 2, None, 0, (5, 5)),
    ]),
    chosen("max_unpool3d", [S(R(1, 1, 1, 1, 2), np.array([[[[[3, 6]]]]]), 2)]),
    chosen("unfold_windows", [
        S(R(2, 2, 3, 4), 2), S(R(2, 3, 3), (2, 1), 1, 1, 2), S(R(1, 1, 4, 5), 2, 2, 1, (1, 2)),
        S(R(0, 2, 3, 3), 2),
    ], "fhc", path="unfold"),
    Op("fold", [
        S(R(2, 8, 6), (3, 4), 2), S(R(4, 9), (4, 3), (2, 1), 1, 1, 2),
        S(R(1, 4, 12), (4, 5), 2, 2, 1, (1, 2)),
        S(R(0, 8, 4), 3, 2),
    ], "fhc", path=F + "fold", method=False, ulps=4, terms=8.0),
]
# fmt: on


def per_axis(value: Any, n: int) -> tuple[int, ...]:
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * n if len(given) == 1 else given


def counts(size: Any, k: Any, s: Any, p: Any, d: Any, ceil: bool) -> list[int]:
    found = []
    for i, kk, ss, pp, dd in zip(size, k, s, p, d, strict=True):
        room = i + 2 * pp - dd * (kk - 1) - 1
        count = (-(-room // ss) if ceil else room // ss) + 1
        found.append(count - 1 if ceil and (count - 1) * ss >= i + pp else count)
    return found


def sliding(
    size: Any, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[list[int], Callable[[Any], list[list[int]]]]:
    """How many windows there are, and which elements of each axis are in window q."""
    k = per_axis(kernel, n)
    s = k if stride is None else per_axis(stride, n)
    p, d = per_axis(padding, n), per_axis(dilation, n)

    def inside(q: Any) -> list[list[int]]:
        starts = (a * b - c for a, b, c in zip(q, s, p, strict=True))
        return [
            [i for i in range(start, start + kk * dd, dd) if 0 <= i < m]
            for start, kk, dd, m in zip(starts, k, d, size, strict=True)
        ]

    return counts(size, k, s, p, d, ceil), inside


def covering(size: Any, out: Any) -> tuple[list[int], Callable[[Any], list[list[int]]]]:
    whole = [n if m is None else m for n, m in zip(size, out, strict=True)]

    def inside(q: Any) -> list[list[int]]:
        return [
            list(range(a * n // m, -(-(a + 1) * n // m)))
            for a, n, m in zip(q, size, whole, strict=True)
        ]

    return whole, inside


def each_window(x: Array, n: int, windows: Any) -> Iterator[tuple[Any, Array, Array]]:
    """(place, elements of the window, their indices in the plane), elements on the last axis."""
    out, inside = windows
    index = np.arange(int(np.prod(x.shape[-n:]))).reshape(x.shape[-n:])
    lead = x.shape[:-n]
    for q in itertools.product(*map(range, out)):
        at = np.ix_(*inside(q))
        places = index[at].reshape(-1)
        yield q, x[(..., *at)].reshape(*lead, places.size), places


def largest(x: Array, n: int, windows: Any) -> tuple[Array, Array]:
    values = np.zeros((*x.shape[:-n], *windows[0]), x.dtype)
    places = np.zeros(values.shape, np.int64)
    for q, elements, index in each_window(x, n, windows):
        if x.size:
            best = elements.argmax(-1)[..., None]
            values[(..., *q)] = np.take_along_axis(elements, best, -1)[..., 0]
            places[(..., *q)] = index[best[..., 0]]
    return values, places


def max_pool(n: int, both: bool = False) -> Callable[..., Any]:
    def reference(
        x: Array, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil: bool = False, return_indices: bool = both,
    ) -> Any:  # fmt: skip
        windows = sliding(x.shape[-n:], n, kernel, stride, padding, dilation, ceil)
        found = largest(x, n, windows)
        return found if return_indices else found[0]

    return reference


def avg_pool(n: int) -> Callable[..., Any]:
    def reference(
        x: Array, kernel: Any, stride: Any = None, padding: Any = 0, ceil: bool = False,
        with_padding: bool = True, divisor: Any = None,
    ) -> Any:  # fmt: skip
        size, k, p = x.shape[-n:], per_axis(kernel, n), per_axis(padding, n)
        s = k if stride is None else per_axis(stride, n)
        windows = sliding(size, n, k, s, p, 1, ceil)
        y = np.zeros((*x.shape[:-n], *windows[0]), x.dtype)
        for q, elements, _ in each_window(x, n, windows):
            whole = [
                min(a * ss - pp + kk, m + pp) - (a * ss - pp)
                for a, ss, pp, kk, m in zip(q, s, p, k, size, strict=True)
            ]
            count = int(np.prod(whole)) if with_padding else elements.shape[-1]
            y[(..., *q)] = elements.sum(-1) / (divisor or count)
        return y

    return reference


def adaptive(n: int, average: bool) -> Callable[..., Any]:
    def reference(x: Array, out: Any, return_indices: bool = False) -> Any:
        windows = covering(x.shape[-n:], per_axis(out, n))
        if average:
            y = np.zeros((*x.shape[:-n], *windows[0]), x.dtype)
            for q, elements, _ in each_window(x, n, windows):
                y[(..., *q)] = elements.mean(-1)
            return y
        found = largest(x, n, windows)
        return found if return_indices else found[0]

    return reference


def lp_pool(n: int) -> Callable[..., Any]:
    def reference(x: Array, p: float, kernel: Any, stride: Any = None, ceil: bool = False) -> Any:
        mean = avg_pool(n)(x**p, kernel, stride, 0, ceil)
        return (mean * int(np.prod(per_axis(kernel, n)))) ** (1 / p)

    return reference


def unpool(n: int) -> Callable[..., Any]:
    def reference(
        x: Array, index: Array, kernel: int, stride: Any = None, padding: int = 0, out: Any = None
    ) -> Any:
        size = tuple(out) if out else tuple(kernel * m for m in x.shape[-n:])
        y = np.zeros((*x.shape[:-n], int(np.prod(size))), x.dtype)
        flat = index.reshape(*x.shape[:-n], -1)
        np.put_along_axis(y, flat, x.reshape(flat.shape), -1)
        return y.reshape(*x.shape[:-n], *size)

    return reference


def columns(
    size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Iterator[tuple[int, int, Any]]:
    """(tap, window, place) of each element of the columns that lies inside."""
    k, d, p, s = (per_axis(v, 2) for v in (kernel, dilation, padding, stride))
    out = counts(size, k, s, p, d, False)
    for t, tap in enumerate(itertools.product(*map(range, k))):
        for w, q in enumerate(itertools.product(*map(range, out))):
            place = [a * b - c + i * h for a, b, c, i, h in zip(q, s, p, tap, d, strict=True)]
            if all(0 <= i < m for i, m in zip(place, size, strict=True)):
                yield t, w, tuple(place)


def unfold(x: Array, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    k, size = per_axis(kernel, 2), x.shape[-2:]
    out = counts(size, k, per_axis(stride, 2), per_axis(padding, 2), per_axis(dilation, 2), False)
    y = np.zeros((*x.shape[:-2], k[0] * k[1], out[0] * out[1]), x.dtype)
    for t, w, place in columns(size, kernel, dilation, padding, stride):
        y[..., t, w] = x[(..., *place)]
    return y.reshape(*x.shape[:-3], x.shape[-3] * k[0] * k[1], -1 if y.size else out[0] * out[1])


def fold(
    x: Array, out: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    k, size = per_axis(kernel, 2), per_axis(out, 2)
    split = x.reshape(*x.shape[:-2], x.shape[-2] // (k[0] * k[1]), k[0] * k[1], x.shape[-1])
    y = np.zeros((*split.shape[:-2], *size), x.dtype)
    for t, w, place in columns(size, kernel, dilation, padding, stride):
        y[(..., *place)] += split[..., t, w]
    return y


REFERENCES: dict[str, Callable[..., Any]] = {
    **{f"max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": max_pool(n, True) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive(n, True) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": adaptive(n, False) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": lp_pool(n) for n in (1, 2, 3)},
    **{f"max_unpool{n}d": unpool(n) for n in (1, 2, 3)},
    "unfold_windows": unfold,
    "fold": fold,
}
