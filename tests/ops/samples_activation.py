"""Samples and references of the activations that `samples_shape.py` leaves out, of embedding, and
of the shrinking functions. Read `samples.py` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def I(*values: Any) -> Array:  # noqa: E743 - an index
    return np.array(values, np.int64)


def around(*kinks: float, low: float = -2.0, high: float = 2.0, **kwargs: Any) -> list[Sample]:
    """The pointwise shapes, with no value at a kink."""
    return [
        S(Arr(s, low, high, kinks), **kwargs) for s in ((2, 3), (), (0, 3), (67,), (2, 1, 2, 1, 2))
    ]


def activation(name: str, samples: list[Sample], dtypes: str = "fh", **more: Any) -> Op:
    more = {"ulps": 8.0, "pointwise": True, "path": F + name, "method": False, **more}
    return Op(name, samples, dtypes, **more)


TABLE = Arr((4, 3))

# fmt: off
OPS = [
    activation("elu", [*around(0.0), *around(0.0, alpha=0.7)[:2]], inplace=True),
    activation("celu", [*around(0.0), *around(0.0, alpha=0.7)[:2]]),
    activation("selu", around(0.0)),
    activation("logsigmoid", around()),
    activation("mish", around()),
    activation("hardsigmoid", around(-3.0, 3.0, low=-5, high=5), ulps=4, terms=1),
    activation("hardswish", around(-3.0, 3.0, low=-5, high=5), ulps=4, terms=1),
    activation("hardtanh", [
        *around(-1.0, 1.0), S(Arr((5,), -2, 2, (0.5,)), -3.0, 0.5),
    ], inplace=True, ulps=0),
    activation("hardtanh_integers", [S(Arr((2, 3)), 0, 1), S(Arr((67,)), 0.0, 1.0)], "i",
               path=F + "hardtanh", ulps=0, diff=False, pointwise=False),
    activation("threshold", [
        S(Arr(s, -2, 2, (0.5,)), 0.5, 2.0) for s in ((2, 3), (), (0, 3), (67,))
    ], inplace=True, ulps=0),
    activation("hardshrink", [
        *around(-0.5, 0.5), S(Arr((7,), -2, 2, (-0.3, 0.3)), 0.3),
    ], ulps=0, path="", method=True, pointwise=False),
    activation("softshrink", [
        *around(-0.5, 0.5), S(Arr((7,), -2, 2, (-0.3, 0.3)), 0.3),
    ], ulps=2, terms=1, pointwise=False),
    activation("tanhshrink", around(), ulps=4, terms=1, pointwise=False),
    activation("glu", [
        S(Arr((2, 4))), S(Arr((4, 3)), 0), S(Arr((6,))), S(Arr((0, 4))), S(Arr((2, 4, 2)), dim=1),
    ], pointwise=False),
    activation("threshold_integers", [S(Arr((2, 3)), 1, 7), S(Arr((67,)), 0, 2)], "i",
               path=F + "threshold", ulps=0, diff=False),
    Op("embedding", [
        S(I([0, 2], [3, 0]), TABLE), S(np.array(2), TABLE), S(np.zeros((0, 2), np.int64), TABLE),
        S(I(1, 1, 0, 1), TABLE), S(np.array([3, 1], np.int32), TABLE), S(I(2, 0), Arr((3, 0))),
    ], "bifh", path=F + "embedding", method=False),
    Op("embedding_padded", [
        S(I([0, 2], [3, 0]), TABLE, padding_idx=0), S(I(1, 3, 3), TABLE, padding_idx=-1),
    ], "fh", path=F + "embedding", method=False),
    Op("embedding_scaled", [
        S(I(1, 1, 0, 1), TABLE, scale_grad_by_freq=True),
    ], "fh", path=F + "embedding", method=False),
]
# fmt: on


def elu(x: Array, alpha: float = 1.0, scale: Any = 1, input_scale: Any = 1) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x) * input_scale))


def softshrink(x: Array, lambd: float = 0.5) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - lambd, 0)


def glu(x: Array, dim: int = -1) -> Any:
    first, second = np.split(x, 2, axis=dim)
    return first / (1 + np.exp(-second))


def hardsigmoid(x: Array) -> Any:
    return np.clip(x + 3, 0, 6) / 6


def looked_up(index: Array, weight: Array, **_: Any) -> Any:
    return weight[index]


def threshold(x: Array, limit: Any, value: Any) -> Any:
    return np.where(x <= limit, np.asarray(value, x.dtype), x)  # NaN stays


# The constants of the paper, to more digits than long double holds.
SELU_ALPHA = np.longdouble("1.6732632423543772848170429916717")
SELU_SCALE = np.longdouble("1.0507009873554804934193349852946")

REFERENCES: dict[str, Callable[..., Any]] = {
    "elu": elu,
    "celu": lambda x, alpha=1.0: elu(x, alpha, 1, 1 / np.longdouble(alpha)),
    "selu": lambda x: elu(x, SELU_ALPHA, SELU_SCALE),
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    "softshrink": softshrink, "tanhshrink": lambda x: x - np.tanh(x), "glu": glu,
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: x * hardsigmoid(x),
    "hardtanh": lambda x, low=-1, high=1: np.clip(x, low, high),
    "hardtanh_integers": lambda x, low, high: np.clip(x, int(low), int(high)),
    "threshold": threshold, "threshold_integers": threshold,
    "embedding": looked_up, "embedding_padded": looked_up, "embedding_scaled": looked_up,
}  # fmt: skip
