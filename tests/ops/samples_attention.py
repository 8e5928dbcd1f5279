"""Samples and the reference of attention. Read `samples.py` first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def qkv(queries: int, keys: int, width: int, out: int, *lead: int) -> tuple[Arr, Arr, Arr]:
    shapes = ((queries, width), (keys, width), (keys, out))
    return tuple(Arr((*lead, *s), -1.5, 1.5) for s in shapes)  # type: ignore[return-value]


SEEN = np.array(
    [[True, False, True], [False, False, False], [True, True, True], [False] * 2 + [True]]
)

OPS = [
    Op(
        "scaled_dot_product_attention",
        [
            S(*qkv(4, 3, 2, 5, 2, 1)),
            S(*qkv(4, 3, 2, 2)),
            S(*qkv(3, 4, 2, 3, 2), is_causal=True),
            S(*qkv(4, 3, 2, 2, 1, 2), attn_mask=Arr((4, 3))),
            S(*qkv(4, 3, 2, 2, 2, 2), attn_mask=Arr((2, 1, 1, 3))),
            S(*qkv(4, 3, 2, 2, 1, 2), attn_mask=SEEN),
            S(*qkv(4, 3, 2, 2, 2, 1, 2), scale=0.3),
            S(Arr((1, 4, 3, 2)), Arr((1, 2, 2, 2)), Arr((1, 2, 2, 3)), enable_gqa=True),
            S(Arr((2, 3, 2)), Arr((4, 2)), Arr((1, 4, 3))),
            S(*qkv(17, 19, 9, 7), is_causal=True),
            S(*qkv(2, 0, 3, 2, 1)),
            S(*qkv(0, 2, 3, 2, 1)),
        ],
        "f",
        path="nn.functional.scaled_dot_product_attention",
        method=False,
        ulps=64.0,
        terms=4.0,
    )
]


def attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        added = np.where(attn_mask, 0.0, -np.inf) if attn_mask.dtype == bool else attn_mask
        scores = scores + added
    weights = np.exp(scores)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


REFERENCES: dict[str, Callable[..., Any]] = {"scaled_dot_product_attention": attention}
