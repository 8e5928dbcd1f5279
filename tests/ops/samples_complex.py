"""Samples of functions whose formulas for complex numbers are their own; and of frexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Op, Sample

SHAPES = ((2, 3), (), (0, 3), (67,))


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def of_complex(name: str, samples: list[Sample], **more: Any) -> Op:
    path = more.pop("path", name)
    return Op(f"{name}_of_complex", samples, "c", path=path, method=False, ulps=32, **more)


OPS = [
    *(
        of_complex(name, [S(Arr(s), Arr(s)) for s in SHAPES] + [S(Arr((2, 1)), Arr((3,)))])
        for name in ("logaddexp", "logaddexp2")
    ),
    of_complex("sinc", [S(Arr(s, 0.1, 2)) for s in SHAPES]),
    of_complex("silu", [S(Arr(s)) for s in SHAPES], path="nn.functional.silu"),
    of_complex("logcumsumexp", [S(Arr((3, 4), -1, 1), 0), S(Arr((2, 5), -1, 1), 1), S(Arr(()), 0)]),
    of_complex("rms_norm", [
        S(Arr((2, 3), 0.5, 2), (3,)), S(Arr((2, 3), 0.5, 2), (3,), Arr((3,)), 1e-3),
    ], path="nn.functional.rms_norm"),
    Op("frexp", [S(Arr(s, -9, 9, (-8, -4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8))) for s in SHAPES],
       "fh"),
]  # fmt: skip


def rms_norm(x: Any, shape: Any, weight: Any = 1, eps: float | None = None) -> Any:
    axes = tuple(range(-len(shape), 0))
    least = np.finfo(x.dtype).eps if eps is None else eps
    return x / np.sqrt(np.mean(x * x, axes, keepdims=True) + least) * weight


def frexp(x: Any) -> Any:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


REFERENCES: dict[str, Callable[..., Any]] = {
    "logaddexp_of_complex": lambda a, b: np.log(np.exp(a) + np.exp(b)),
    "logaddexp2_of_complex": lambda a, b: np.log2(2**a + 2**b),
    "sinc_of_complex": lambda z: np.sin(np.pi * z) / (np.pi * z),
    "silu_of_complex": lambda z: z / (1 + np.exp(-z)),
    "logcumsumexp_of_complex": lambda z, dim: (
        np.log(np.cumsum(np.exp(z), axis=dim)) if z.ndim else z
    ),
    "rms_norm_of_complex": rms_norm,
    "frexp": frexp,
}
