"""Samples and references of convolutions, by loops over windows. Read `samples.py` first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def summed(name: str, samples: list[Sample], dtypes: str = "fhc", path: str = F, **more: Any) -> Op:
    return Op(name, samples, dtypes, path=path + name, method=False, ulps=24, terms=16.0, **more)


# fmt: off
OPS = [
    summed("conv1d", [
        S(R(2, 2, 5), R(3, 2, 2)), S(R(2, 5), R(3, 2, 2), R(3)), S(R(0, 2, 5), R(3, 2, 2)),
        S(R(1, 4, 6), R(2, 2, 3), groups=2), S(R(1, 2, 7), R(2, 2, 3), R(2), 2, 1, 2),
        S(R(2, 1, 5), R(2, 1, 3), padding="same"), S(R(1, 1, 4), R(1, 1, 2), padding="valid"),
        S(R(1, 1, 5), R(2, 1, 2), padding="same", dilation=3),
        S(R(1, 2, 40), R(9, 2, 3), None, 1, 1),
    ]),
    summed("conv2d", [
        S(R(2, 2, 3, 3), R(2, 2, 2, 2), R(2)), S(R(2, 3, 3), R(1, 2, 2, 2)),
        S(R(1, 4, 3, 3), R(4, 1, 2, 2), R(4), groups=4),
        S(R(1, 2, 4, 5), R(2, 1, 2, 3), None, 2, 1, 1, 2),
        S(R(1, 1, 5, 4), R(2, 1, 2, 2), R(2), (2, 1), (1, 0), (1, 2)),
        S(R(1, 1, 3, 4), R(1, 1, 3, 2), padding="same"), S(R(0, 1, 3, 3), R(1, 1, 2, 2)),
        S(R(2, 3, 11, 13), R(10, 3, 3, 3), R(10), 1, 1),
        S(R(1, 1, 1, 1), R(1, 1, 1, 1), None, 3, 2),
    ]),
    summed("conv3d", [
        S(R(1, 1, 2, 3, 3), R(2, 1, 2, 2, 1), R(2)),
        S(R(2, 2, 2, 2), R(2, 1, 1, 2, 2), groups=2),
        S(R(1, 1, 3, 2, 4), R(1, 1, 2, 1, 2), None, (2, 1, 1), (0, 1, 1), (1, 1, 2)),
        S(R(1, 1, 2, 2, 2), R(1, 1, 2, 1, 2), padding="same"),
    ]),
    summed("conv_transpose1d", [
        S(R(2, 2, 4), R(2, 3, 2)), S(R(2, 4), R(2, 1, 3), R(1)), S(R(0, 2, 4), R(2, 3, 2)),
        S(R(1, 4, 3), R(4, 2, 2), groups=2), S(R(1, 2, 4), R(2, 2, 3), R(2), 2, 1, 1, 1, 2),
        S(R(1, 1, 3), R(1, 1, 2), None, 3, 0, 2),
    ]),
    summed("conv_transpose2d", [
        S(R(2, 2, 2, 3), R(2, 2, 2, 2), R(2)), S(R(2, 3, 3), R(2, 1, 2, 2)),
        S(R(1, 2, 3, 2), R(2, 2, 3, 2), R(4), 2, 1, 1, 2),
        S(R(1, 1, 3, 3), R(1, 2, 2, 2), None, (2, 3), 0, (1, 2)),
        S(R(1, 2, 5, 7), R(2, 9, 3, 3), None, 2, 1),
        S(R(1, 1, 2, 2), R(1, 1, 2, 2), None, 1, (0, 1), 0, 1, 2),
    ]),
    summed("conv_transpose3d", [
        S(R(1, 1, 2, 2, 2), R(1, 2, 2, 1, 2), R(2)),
        S(R(2, 2, 2, 1), R(2, 1, 1, 2, 2), None, 2, 0, 1, 2),
        S(R(1, 1, 2, 2, 2), R(1, 1, 2, 2, 2), None, (1, 2, 1), (0, 1, 1), (0, 1, 0), 1, (1, 2, 1)),
    ]),
    summed("convolution", [
        S(R(1, 2, 3, 3), R(2, 2, 2, 2), R(2), (1, 2), (0, 1), (1, 1), False, (0, 0), 1),
        S(R(1, 2, 3), R(2, 1, 2), None, (2,), (1,), (1,), True, (1,), 2),
        S(R(1, 2, 3, 2), R(2, 2, 2, 2), R(2), (1,), (0,), (1,), True, (0,), 1),
    ], "fh", path=""),
    summed("conv_tbc", [
        S(R(4, 2, 3), R(2, 3, 2), R(2)), S(R(3, 1, 2), R(3, 2, 1), R(1), 1),
    ], "fh", path="", restride=False),  # torch's takes contiguous tensors only
]
# fmt: on


def per_axis(value: Any, n: int) -> tuple[int, ...]:
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * n if len(given) == 1 else given


def products(w: Array, out: tuple[int, ...], steps: Any, before: Any, holes: Any) -> Any:
    """(place in x, tap, place in y) for each product, of the padded x."""
    for q in itertools.product(*map(range, out)):
        for t in itertools.product(*map(range, w.shape[2:])):
            yield (
                tuple(
                    a * s - b + i * d
                    for a, s, b, i, d in zip(q, steps, before, t, holes, strict=True)
                ),
                t,
                q,
            )


def lined(bias: Any, n: int) -> Any:
    return 0 if bias is None else bias.reshape(-1, *(1,) * n)


def conv(
    x: Array, w: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Array:  # fmt: skip
    n = w.ndim - 2
    if x.ndim == n + 1:
        return conv(x[None], w, bias, stride, padding, dilation, groups)[0]  # type: ignore[no-any-return]
    steps, holes = per_axis(stride, n), per_axis(dilation, n)
    reach = [d * (k - 1) for k, d in zip(w.shape[2:], holes, strict=True)]
    if padding == "same":
        before, after = [r // 2 for r in reach], [r - r // 2 for r in reach]
    else:
        before = after = list(per_axis(0 if padding == "valid" else padding, n))
    out = tuple(
        (size + a + b - r - 1) // s + 1
        for size, a, b, r, s in zip(x.shape[2:], before, after, reach, steps, strict=True)
    )
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    made, each = w.shape[0] // groups, w.shape[1]
    for place, t, q in products(w, out, steps, before, holes):
        if all(0 <= i < size for i, size in zip(place, x.shape[2:], strict=True)):
            for g in range(groups):
                part = x[(slice(None), slice(g * each, (g + 1) * each), *place)]
                rows = slice(g * made, (g + 1) * made)
                y[(slice(None), rows, *q)] += part @ w[(rows, slice(None), *t)].T
    return y + lined(bias, n)  # type: ignore[no-any-return]


def conv_transpose(
    x: Array, w: Array, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Array:  # fmt: skip
    """Each element of x puts the weight, times itself, into the result."""
    n = w.ndim - 2
    if x.ndim == n + 1:
        result = conv_transpose(x[None], w, bias, stride, padding, output_padding, groups, dilation)
        return result[0]  # type: ignore[no-any-return]
    steps, before, more, holes = (
        per_axis(v, n) for v in (stride, padding, output_padding, dilation)
    )
    size = tuple(
        (i - 1) * s - 2 * p + d * (k - 1) + m + 1
        for i, s, p, d, k, m in zip(
            x.shape[2:], steps, before, holes, w.shape[2:], more, strict=True
        )
    )
    each, made = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], made * groups, *size), x.dtype)
    for place, t, q in products(w, x.shape[2:], steps, before, holes):
        if all(0 <= i < s for i, s in zip(place, size, strict=True)):
            for g in range(groups):
                rows = slice(g * each, (g + 1) * each)
                part = x[(slice(None), rows, *q)] @ w[(rows, slice(None), *t)]
                y[(slice(None), slice(g * made, (g + 1) * made), *place)] += part
    return y + lined(bias, n)  # type: ignore[no-any-return]


def convolution(
    x: Array, w: Array, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Array:  # fmt: skip
    if transposed:
        return conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation)
    return conv(x, w, bias, stride, padding, dilation, groups)


def conv_tbc(x: Array, w: Array, bias: Array, pad: int = 0) -> Any:
    result = conv(x.transpose(1, 2, 0), w.transpose(2, 1, 0), bias, 1, pad)
    return result.transpose(2, 0, 1)


REFERENCES: dict[str, Callable[..., Any]] = {
    **{f"conv{n}d": conv for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": conv_transpose for n in (1, 2, 3)},
    "convolution": convolution,
    "conv_tbc": conv_tbc,
}
