"""Functions drawn at random, run as machine code and eagerly; every bit has to agree.

``ADJOINT_ISA=base python -m tests.unit.compiler.native_programs 0 1000`` tries as many as one likes
with an instruction set. A NaN is a NaN: which of two it is, where two meet, is open.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

UNARY = ["sin", "cos", "exp", "neg", "abs", "sqrt", "rsqrt", "square", "reciprocal", "relu", "sign"]
UNARY += ["floor", "round", "trunc", "tanh", "log"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1e5, -3e7, 88.7, -104.0, 710.0, 0.5]
SHAPES: list[tuple[int, ...]] = [
    (),
    (1,),
    (3,),
    (17,),
    (1000,),
    (5, 7),
    (32, 3),
    (16, 16, 3),
    (8, 40),
    (129, 33),
    (20011,),
    (70, 300),
]
Leaves = list[ad.Tensor]


def value(rng: np.random.Generator, shape: tuple[int, ...], dtype: ad.dtype) -> ad.Tensor:
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2, shape)
    flat = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
    some = rng.integers(0, max(flat.size, 1), 2 if flat.size > 8 and rng.random() < 0.3 else 0)
    flat[some] = rng.choice(SPECIAL, len(some))
    return ad.tensor(np.asarray(flat).reshape(shape), dtype=ad.float64).to(dtype)


def leaves(seed: int, shape: tuple[int, ...], dtype: ad.dtype) -> Leaves:
    """One of the shape, some that are broadcast to it, one that lies otherwise in memory."""
    rng = np.random.default_rng(seed)
    found = [value(rng, shape, dtype)]
    found.append(value(rng, tuple(n if k % 2 else 1 for k, n in enumerate(shape)), dtype))
    found.append(value(rng, shape[1:], dtype))
    found.append(value(rng, shape[::-1], dtype).permute(tuple(reversed(range(len(shape))))))
    return [t.requires_grad_() for t in found]


def function(seed: int) -> Callable[[Leaves], list[Any]]:
    """Some ops, a sum or two, gradients."""
    draw = random.Random(seed)
    kinds = ["unary", "binary", "binary", "where", "scaled", "sum", "number", "roll", "cat", "pad"]
    lines = [
        (
            draw.choice(kinds),
            draw.choice(UNARY),
            draw.choice(BINARY),
            [draw.random() for _ in "abc"],
        )
        for _ in range(draw.randint(2, 14))
    ]

    def run(given: Leaves) -> list[Any]:
        values = list(given)
        for kind, unary, binary, (x, y, z) in lines:
            late = values[-4:]
            a, b, c = (
                late[int(x * len(late))],
                values[int(y * len(values))],
                values[int(z * len(values))],
            )
            if kind == "unary":
                made = getattr(ad, unary)(a)
            elif kind == "binary":
                made = getattr(ad, binary)(a, b)
            elif kind == "where":
                made = ad.where(a > b, a, c)
            elif kind == "scaled":
                made = ad.add(a, b, alpha=round(z, 2))
            elif kind == "sum" and a.ndim:
                made = a.sum(int(z * a.ndim), keepdim=True)
            elif kind == "roll" and a.ndim:
                made = ad.roll(a, 1 if y < 0.5 else -2, int(z * a.ndim))
            elif kind == "cat" and a.ndim and a.shape[-1] > 2:
                made = ad.cat([a[..., 1:], a[..., :1]], -1)
            elif kind == "pad" and a.ndim and a.shape[0] > 2:
                made = ad.cat([ad.zeros_like(a[:1]), a[1:] - a[:-1]])
            else:
                made = a * round(z, 3) + 0.1
            values.append(made)
        total = values[-1].sum() + (values[-2] * 0.5).sum()
        return [
            values[-1],
            total,
            *ad.autograd.grad(total, given, allow_unused=True, retain_graph=True),
        ]

    return run


def normal(results: list[Any]) -> list[Any]:
    """Shapes and bits, with one NaN for all."""
    found = []
    for t in results:
        a = None if t is None else np.array(t.detach())
        if a is not None and a.dtype.kind == "f":
            a[np.isnan(a)] = np.nan
        found.append(a if a is None else (a.shape, a.tobytes()))
    return found


def native_names(compiled: Any) -> list[str]:
    """What a listing says of instructions that are machine code, or that some parts of them are."""
    return [row[0] for row in compiled.programs[0].program.code() if row[0].startswith("native")]


def compare(seed: int) -> bool:
    """Whether a function has been machine code at all, in part."""
    draw = random.Random(seed)
    shape, dtype = draw.choice(SHAPES), draw.choice([ad.float32, ad.float64])
    plain = function(seed)
    compiled = ad.compile(plain, fullgraph=True)
    for call in range(3):
        given = leaves(1000 * seed + call, shape, dtype)
        want, got = normal(plain(given)), normal(compiled(given))
        assert got == want, (
            seed,
            shape,
            dtype,
            call,
            [g == w for g, w in zip(got, want, strict=True)],
        )
    return bool(native_names(compiled))


def main(first: int, last: int) -> int:
    ad.compiler.set_native("always")
    return sum(compare(seed) for seed in range(first, last))


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        print(main(int(sys.argv[1]), int(sys.argv[2])), "were machine code")
