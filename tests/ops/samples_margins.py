"""Samples and references of the losses of margins, distances and likelihoods, and of distances.

Read `samples.py` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."
REDUCTIONS = ("mean", "sum", "none")
SIGNS = np.array([1, -1, 1, -1, -1])


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def I(*values: Any) -> Array:  # noqa: E743 - an index
    return np.array(values, np.int64)


def loss(name: str, samples: list[Sample], **more: Any) -> Op:
    more = {"dtypes": "f", "path": F + name, "method": False, "ulps": 64.0, "terms": 4.0, **more}
    return Op(name, samples, **more)


def reductions(*args: Any, **kwargs: Any) -> list[Sample]:
    return [S(*args, **kwargs, reduction=r) for r in REDUCTIONS]


X, Y = Arr((5, 3)), Arr((5, 3), 0.3, 2.5)
COUNTS = Arr((5, 3), 1.2, 6)
VAR = Arr((5, 3), 0.3, 2)

# fmt: off
OPS = [
    loss("cosine_embedding_loss", [
        *reductions(X, Y, SIGNS), S(X, Y, SIGNS, margin=0.2), S(Arr((3,)), Arr((3,)), np.array(1)),
    ]),
    loss("hinge_embedding_loss", [
        *reductions(Arr((5,), -2, 2, (1.0,)), SIGNS),
        S(Arr((2, 5), -2, 2, (0.5,)), SIGNS, margin=0.5), S(Arr((0, 5)), SIGNS, reduction="sum"),
    ]),
    loss("margin_ranking_loss", [
        *reductions(Arr((5,)), Arr((5,), 3, 6), SIGNS), S(Arr((5,)), Arr((5,), 3, 6), SIGNS, 0.5),
        S(Arr((2, 5)), Arr((2, 5), 3, 6), SIGNS.reshape(1, 5)),
    ]),
    loss("soft_margin_loss", [
        *reductions(Arr((5,)), SIGNS), S(Arr((2, 5)), SIGNS), S(Arr(()), np.array(-1)),
    ]),
    loss("multi_margin_loss", [
        *reductions(X, I(0, 2, 1, 1, 0)), S(X, I(0, 2, 1, 1, 0), p=2), S(Arr((3,)), np.array(1)),
        S(X, I(0, 2, 1, 1, 0), margin=0.4, weight=Arr((3,), 0.5, 2)), S(Arr((3,)), I(2)),
        S(Arr((0, 3)), np.zeros(0, np.int64), reduction="none"),
    ], constants=("weight",)),
    loss("multilabel_margin_loss", [
        *reductions(Arr((3, 4)), I([3, 0, -1, 1], [1, -1, 0, 2], [0, 1, 2, 3])),
        S(Arr((4,)), I(1, 2, -1, -1)),
    ]),
    loss("multilabel_soft_margin_loss", [
        *reductions(X, Arr((5, 3), 0, 1)), S(X, Arr((5, 3), 0, 1), weight=Arr((3,), 0.5, 2)),
        S(Arr((4,)), Arr((4,), 0, 1)),
    ]),
    loss("triplet_margin_loss", [
        *reductions(X, Y, Arr((5, 3), -1, 3)), S(X, Y, Arr((5, 3)), margin=3.0, swap=True),
        S(X, Y, Arr((5, 3)), p=1, margin=4.0), S(Arr((3,)), Arr((3,)), Arr((3,)), margin=9.0),
    ]),
    loss("triplet_margin_with_distance_loss", [
        *reductions(X, Y, Arr((5, 3), -1, 3)), S(X, Y, Arr((5, 3)), margin=3.0, swap=True),
    ]),
    loss("poisson_nll_loss", [
        *reductions(X, COUNTS), S(Y, COUNTS, log_input=False), S(X, COUNTS, full=True),
        S(X, Arr((5, 3), 0, 3, (1.0,)), full=True), S(Y, COUNTS, log_input=False, eps=0.1),
    ]),
    loss("gaussian_nll_loss", [
        *reductions(X, Y, VAR), S(X, Y, Arr((5,), 0.3, 2)), S(X, Y, Arr((5, 1), 0.3, 2), full=True),
        S(X, Y, 0.7),
    ]),
    loss("pairwise_distance", [
        S(X, Y), S(X, Arr((3,), 3, 5)), S(X, Y, p=1.0), S(X, Y, p=3.0, keepdim=True),
        S(X, Y, eps=0.5), S(Arr(()), Arr(())), S(Arr((0, 3)), Arr((3,))),
    ], path=""),
    loss("cosine_similarity", [
        S(X, Y), S(X, Y, dim=0), S(X, Arr((3,)), dim=-1), S(Arr((2, 3, 4)), Arr((3, 1))),
        S(Arr((0, 3)), Arr((0, 3))),
    ], path=""),
    loss("pdist", [
        S(X), S(X, 1.0), S(X, 3.0), S(X, p=float("inf")),
        S(Arr((2, 7))),
    ], path=""),
]
# fmt: on


def reduced(losses: Any, reduction: str) -> Any:
    return losses if reduction == "none" else getattr(np, reduction)(losses)


def cosine(x: Array, y: Array, axis: int = -1, tiny: float = 0.0) -> Any:
    squares = ((x * x).sum(axis) + tiny) * ((y * y).sum(axis) + tiny)
    return (x * y).sum(axis) / np.sqrt(squares)


def cosine_embedding(
    x: Array, y: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    cos = cosine(x, y, tiny=1e-12)
    return reduced(np.where(target == 1, 1 - cos, np.maximum(0, cos - margin)), reduction)


def hinge_embedding(x: Array, target: Array, margin: float = 1.0, reduction: str = "mean") -> Any:
    return reduced(np.where(target == 1, x, np.maximum(0, margin - x)), reduction)


def ranking(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: str = "mean") -> Any:
    return reduced(np.maximum(0, -target * (x - y) + margin), reduction)


def soft_margin(x: Array, target: Array, reduction: str = "mean") -> Any:
    return reduced(np.logaddexp(0, -target * x), reduction)


def multi_margin(
    x: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    losses = []
    for row, label in zip(np.atleast_2d(x), np.atleast_1d(target), strict=True):
        rest = np.delete(row, label)
        scale = 1 if weight is None else weight[label]
        losses.append(scale * np.sum(np.maximum(0, margin - row[label] + rest) ** p) / row.size)
    out = np.array(losses, x.dtype)
    return reduced(out if target.ndim else out.reshape(()), reduction)


def multilabel_margin(x: Array, target: Array, reduction: str = "mean") -> Any:
    losses = []
    for row, given in zip(np.atleast_2d(x), np.atleast_2d(target), strict=True):
        stop = list(given).index(-1) if -1 in given else given.size
        labels = [int(i) for i in given[:stop]]
        pairs = [(j, i) for j in labels for i in range(row.size) if i not in labels]
        losses.append(sum((max(0, 1 - row[j] + row[i]) for j, i in pairs), 0 * row[0]) / row.size)
    out = np.array(losses, x.dtype)
    return reduced(out if x.ndim > 1 else out.reshape(()), reduction)


def multilabel_soft(x: Array, y: Array, weight: Any = 1, reduction: str = "mean") -> Any:
    losses = weight * (y * np.logaddexp(0, -x) + (1 - y) * np.logaddexp(0, x))
    return reduced(losses.mean(-1), reduction)


def distance(x: Array, y: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    difference = np.abs(x - y + eps)
    if not difference.ndim:
        return difference
    return (difference**p).sum(-1, keepdims=keepdim) ** (1 / np.longdouble(p))


def triplet(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    near, far = distance(anchor, positive, p), distance(anchor, negative, p)
    if swap:
        far = np.minimum(far, distance(positive, negative, p))
    return reduced(np.maximum(0, margin + near - far), reduction)


def poisson(
    x: Array,
    y: Array,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    losses = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    if full:
        large = np.maximum(y, 1)
        stirling = large * np.log(large) - large + 0.5 * np.log(2 * np.longdouble(np.pi) * large)
        losses = losses + np.where(y > 1, stirling, 0)
    return reduced(losses, reduction)


def gaussian(x: Array, y: Array, var: Any, full: bool = False, reduction: str = "mean") -> Any:
    var = np.asarray(var)
    var = var[..., None] if var.shape == x.shape[:-1] and var.ndim else var
    losses = 0.5 * (np.log(var) + (x - y) ** 2 / var)
    return reduced(losses + (0.5 * np.log(2 * np.longdouble(np.pi)) if full else 0), reduction)


def pdist(x: Array, p: float = 2.0) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    size = np.abs(x[first] - x[second])
    if p == np.inf:
        return size.max(1, initial=0)
    return (size**p).sum(1) ** (1 / np.longdouble(p))


def angle(x: Array, y: Array, dim: int = 1) -> Any:
    x, y = np.broadcast_arrays(x, y)
    return cosine(x, y, dim)


REFERENCES: dict[str, Callable[..., Any]] = {
    "cosine_embedding_loss": cosine_embedding,
    "hinge_embedding_loss": hinge_embedding,
    "margin_ranking_loss": ranking,
    "soft_margin_loss": soft_margin,
    "multi_margin_loss": multi_margin,
    "multilabel_margin_loss": multilabel_margin,
    "multilabel_soft_margin_loss": multilabel_soft,
    "triplet_margin_loss": triplet,
    "triplet_margin_with_distance_loss": triplet,
    "poisson_nll_loss": poisson,
    "gaussian_nll_loss": gaussian,
    "pairwise_distance": distance,
    "cosine_similarity": angle,
    "pdist": pdist,
}
