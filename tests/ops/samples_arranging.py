"""Samples and references of what the first two tables leave out: further joins, views of parts,
rearrangements and running reductions. Read `samples.py` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

T = "Tensor."


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def moved(name: str, samples: list[Sample], path: str = "", **more: Any) -> Op:
    """An op that only moves elements: every dtype, exact."""
    return Op(name, samples, "bifhc", path=path, **more)


PAIR = [S([R(2, 3), R(2, 3)]), S([R(4), R(4)]), S([R(), R()]), S([R(2, 3, 1), R(2, 3, 1)])]
NANS = Arr((3, 4), nans=(1, 6, 7))
OVER = [
    S(R(5)), S(R(3, 4), dim=1), S(R(3, 4), dim=0, keepdim=True), S(NANS), S(NANS, dim=1), S(R()),
    S(R(0, 3), dim=1),
]  # fmt: skip
ALONG = [S(R(5), 0), S(R(3, 4), 1), S(R(3, 4), dim=0), S(NANS, 1), S(R(), 0), S(R(0, 3), 1)]

# fmt: off
OPS = [
    moved("unflatten", [
        S(R(2, 6), 1, (2, 3)), S(R(6), 0, (-1, 2)), S(R(4, 3), dim=-2, sizes=(2, 2)),
    ]),
    moved("ravel", [S(R(2, 3)), S(R()), S(R(0, 2))]),
    moved("t", [S(R(2, 3)), S(R(3)), S(R())]), moved("adjoint", [S(R(2, 3)), S(R(2, 3, 4))]),
    moved("broadcast_to", [S(R(1, 3), (2, 3)), S(R(), (2,)), S(R(3), (2, 3))]),
    moved("tile", [S(R(2, 3), (2,)), S(R(2), (2, 2)), S(R(2, 3), (1, 2, 2)), S(R(), (3,))]),
    moved("repeat_interleave", [S(R(2, 3), 2), S(R(2, 3), 3, dim=0), S(R(2, 3), 2, -1)]),
    moved("hstack", PAIR, method=False), moved("vstack", PAIR, method=False),
    moved("dstack", PAIR, method=False), moved("column_stack", PAIR, method=False),
    moved("tensor_split", [
        S(R(7, 2), 3), S(R(2, 7), 3, dim=1), S(R(7), (2, 5)), S(R(3), (0, 1, 1)),
    ]),
    moved("fliplr", [S(R(2, 3)), S(R(2, 3, 2))]), moved("flipud", [S(R(2, 3)), S(R(4))]),
    moved("rot90", [S(R(2, 3), k) for k in range(-1, 4)] + [S(R(2, 3, 4), 1, (0, 2))]),
    moved("diag", [S(R(3, 4)), S(R(3, 4), -1), S(R(3)), S(R(3), 2), S(R(0))]),
    moved("diag_embed", [S(R(2, 3)), S(R(3), 1), S(R(2, 3), -1, 0, 2)]),
    Op("trace", [S(R(3, 3)), S(R(2, 3))], "ifhc", "sum", ulps=4),
    moved("tril", [S(R(3, 4)), S(R(3, 4), 1), S(R(2, 3, 3), -1), S(R(3, 4), 9)], inplace=True),
    moved("triu", [S(R(3, 4)), S(R(3, 4), 1), S(R(2, 3, 3), -1), S(R(3, 4), 9)], inplace=True),
    moved("unfold", [S(R(7), 0, 3, 2), S(R(2, 5), 1, 2, 1), S(R(5, 2), -2, 5, 1)], T + "unfold"),
    moved("block_diag", [S(R(2, 3), R(1, 2)), S(R(3), R())], method=False),
    Op("aminmax", [S(R(2, 3)), S(R(2, 3), dim=1), S(R(3, 2), dim=0, keepdim=True), S(NANS),
                    S(NANS, dim=1), S(R())], "bifh"),
    Op("cummax", ALONG, "bifh"), Op("cummin", ALONG, "bifh"),
    Op("logcumsumexp", ALONG, "fh", ulps=16),
    Op("nansum", OVER, "bifh", "sum", ulps=16), Op("nanmean", OVER, "fh", ulps=16),
    Op("dist", [S(R(3, 4), R(3, 4)), S(R(3, 4), R(4), 1)], "fh", ulps=16),
]
# fmt: on


def accumulated(f: Any) -> Callable[..., Any]:
    """A running extremum and the last place it was reached."""

    def reference(x: Array, dim: int) -> Any:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        values = f.accumulate(x, axis=dim)
        shape = [1] * x.ndim
        shape[dim] = x.shape[dim]
        places = np.broadcast_to(np.arange(x.shape[dim]).reshape(shape), x.shape)
        reached = (x == values) | (x != x)
        return values, np.maximum.accumulate(np.where(reached, places, 0), axis=dim)

    return reference


def split_at(x: Array, where: Any, dim: int = 0) -> Any:
    return tuple(np.array_split(x, where, axis=dim))


def windows(x: Array, dim: int, size: int, step: int) -> Any:
    every = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
    return every.take(range(0, every.shape[dim], step), axis=dim)


def embedded(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = x.shape[-1]
    out = np.zeros((*x.shape[:-1], n + abs(offset), n + abs(offset)), x.dtype)
    out[..., np.arange(n) + max(-offset, 0), np.arange(n) + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def joined_blocks(*blocks: Array) -> Any:
    parts = [np.atleast_2d(b) for b in blocks]
    out = np.zeros(np.sum([p.shape for p in parts], axis=0), parts[0].dtype)
    row = column = 0
    for part in parts:
        out[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return out


def unflattened(x: Array, dim: int, sizes: tuple[int, ...]) -> Any:
    dim %= x.ndim
    return x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim + 1 :])


def both_ends(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return np.min(x, axis=dim, keepdims=keepdim), np.max(x, axis=dim, keepdims=keepdim)


def over(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, keepdim=False: f(x, axis=dim, keepdims=keepdim)


def nan_mean(x: Array, axis: Any, keepdims: bool) -> Any:
    """Without a word about means of nothing, which are NaN."""
    count = np.sum(~np.isnan(x), axis=axis, keepdims=keepdims)
    return np.nansum(x, axis=axis, keepdims=keepdims) / count


REFERENCES: dict[str, Callable[..., Any]] = {
    "unflatten": unflattened, "ravel": np.ravel, "t": np.transpose,
    "adjoint": lambda x: np.conj(np.swapaxes(x, -2, -1)),
    "broadcast_to": np.broadcast_to, "tile": np.tile,
    "repeat_interleave": lambda x, n, dim=None: np.repeat(x, n, axis=dim),
    "hstack": np.hstack, "vstack": np.vstack, "dstack": np.dstack,
    "column_stack": np.column_stack, "tensor_split": split_at, "fliplr": np.fliplr,
    "flipud": np.flipud, "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "diag": np.diag, "diag_embed": embedded, "trace": np.trace, "tril": np.tril,
    "triu": np.triu, "unfold": windows, "block_diag": joined_blocks, "aminmax": both_ends,
    "cummax": accumulated(np.maximum), "cummin": accumulated(np.minimum),
    "logcumsumexp": lambda x, dim: np.log(np.cumsum(np.exp(x), axis=dim)) if x.ndim else x,
    "nansum": over(np.nansum), "nanmean": over(nan_mean),
    "dist": lambda x, y, p=2: np.sum(np.abs(x - y) ** p) ** (1 / np.longdouble(p)),
}  # fmt: skip
