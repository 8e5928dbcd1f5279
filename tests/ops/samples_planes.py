"""Samples and references of padding and of channels moved into space. Read `samples.py` first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def moved(name: str, samples: list[Sample], **more: Any) -> Op:
    return Op(name, samples, **{"dtypes": "bifhc", "method": False, **more})


def padded(mode: str) -> Op:
    samples = [
        S(Arr((2, 5)), (2, 1), mode), S(Arr((2, 3, 5)), (1, 3), mode),
        S(Arr((2, 4, 5)), (1, 2, 3, 0), mode), S(Arr((2, 1, 4, 5)), (1, 2, 0, 1), mode),
        S(Arr((2, 3, 4, 3)), (1, 2, 0, 1, 2, 1), mode), S(Arr((1, 2, 3, 3, 4)), (1,) * 6, mode),
        S(Arr((1, 2, 6)), (-2, 3), mode), S(Arr((1, 2, 6)), (3, -1), mode),
        S(Arr((0, 2, 3)), (1, 1), mode),
    ]  # fmt: skip
    return moved(f"pad_{mode}", samples, dtypes="ifhc", path=F + "pad")


# fmt: off
OPS = [
    moved("constant_pad_nd", [
        S(Arr((3, 4)), (1, 2)), S(Arr((3, 4)), (1, 2, 0, 3), 1), S(Arr((2, 3, 4)), (-1, 2, 1, -2)),
        S(Arr((3,)), (-3, 2), 1), S(Arr((2, 0)), (1, 1), 1), S(Arr((3, 4)), ()), S(Arr(()), ()),
        S(Arr((4,)), (-2, -2)),
    ]),
    moved("pad", [
        S(Arr((3, 4)), (1, 2)), S(Arr((3, 4)), (1, 2, 0, 3), "constant", 1), S(Arr((3,)), (-1, 0)),
    ], path=F + "pad"),
    padded("reflect"), padded("replicate"), padded("circular"),
    moved("pixel_shuffle", [
        S(Arr((4, 2, 3)), 2), S(Arr((2, 9, 1, 2)), 3),
        S(Arr((2, 1, 2)), 1), S(Arr((2, 1, 8, 2, 2)), 2),
    ]),
    moved("pixel_unshuffle", [
        S(Arr((1, 4, 6)), 2), S(Arr((2, 1, 3, 6)), 3),
        S(Arr((2, 1, 2)), 1),
    ]),
    *(moved(name, [
        S(Arr((2, 6, 3)), 2), S(Arr((1, 6, 2, 2)), 3), S(Arr((0, 4, 2)), 2), S(Arr((2, 3, 1)), 1),
    ]) for name in ("channel_shuffle", "native_channel_shuffle")),
    moved("local_response_norm", [
        S(Arr((2, 5, 3)), 2), S(Arr((2, 5, 2, 2)), 3, alpha=0.5),
        S(Arr((1, 4, 2)), 5, 0.3, 0.5, 2.0), S(Arr((0, 4, 2)), 2),
    ], dtypes="f", path=F + "local_response_norm", ulps=32.0),
]
# fmt: on

NUMPYS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def kept(shape: tuple[int, ...], pairs: list[tuple[int, int]]) -> tuple[slice, ...]:
    """What negative counts leave."""
    return tuple(
        slice(max(-a, 0), max(n - max(-b, 0), 0)) for (a, b), n in zip(pairs, shape, strict=True)
    )


def pad(x: Array, pad: tuple[int, ...], mode: str = "constant", value: Any = 0) -> Any:
    pairs = [(0, 0)] * x.ndim
    for i in range(len(pad) // 2):
        pairs[x.ndim - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(map(any, grown)):
        return x[kept(x.shape, pairs)]
    if mode == "circular":  # what is cut off is not wrapped
        return np.pad(x[kept(x.shape, pairs)], grown, "wrap")
    if mode == "constant" or not x.size:
        out = np.pad(x, grown, constant_values=value)
    else:
        out = np.pad(x, grown, NUMPYS[mode])
    return out[kept(out.shape, pairs)]


def pixel_shuffle(x: Array, r: int) -> Any:
    *lead, c, h, w = x.shape
    split = x.reshape(*lead, c // r**2, r, r, h, w)
    n = len(lead)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return split.transpose(order).reshape(*lead, c // r**2, h * r, w * r)


def pixel_unshuffle(x: Array, r: int) -> Any:
    *lead, c, h, w = x.shape
    out = np.zeros((*lead, c * r * r, h // r, w // r), x.dtype)
    for k in range(c):
        for i in range(r):
            for j in range(r):
                out[..., k * r * r + i * r + j, :, :] = x[..., k, i::r, j::r]
    return out


def channel_shuffle(x: Array, groups: int) -> Any:
    c = x.shape[1]
    order = [g * (c // groups) + k for k in range(c // groups) for g in range(groups)]
    return x[:, order]


def local_response(
    x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    out = x.copy()
    for c in range(x.shape[1]):
        near = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return out


REFERENCES: dict[str, Callable[..., Any]] = {
    "constant_pad_nd": lambda x, p, value=0: pad(x, p, "constant", value),
    "pad": pad, "pad_reflect": pad, "pad_replicate": pad, "pad_circular": pad,
    "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle, "native_channel_shuffle": channel_shuffle,
    "local_response_norm": local_response,
}  # fmt: skip
