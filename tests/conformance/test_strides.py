"""Results lie in memory as PyTorch's do: strides of elementwise results over drawn layouts.

Axes of length one are left out of the comparison: whatever their strides are, no element moves.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")

Geometry = tuple[tuple[int, ...], tuple[int, ...], str]

ONE: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda lib, x: x.exp(),
    "isnan": lambda lib, x: lib.isnan(x),
    "clone": lambda lib, x: x.clone(),
    "double": lambda lib, x: x.double(),
    "zeros_like": lambda lib, x: lib.zeros_like(x),
    "randn_like": lambda lib, x: lib.randn_like(x),
    "times a number": lambda lib, x: x * 2,
    "plus a 0-d tensor": lambda lib, x: x + lib.tensor(2.0),
    "clamp": lambda lib, x: x.clamp(0, 1),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "contiguous clone": lambda lib, x: x.clone(memory_format=lib.contiguous_format),
    "to": lambda lib, x: x.to(lib.float64, memory_format=lib.preserve_format),
}
TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, x, y: x + y,
    "div": lambda lib, x, y: x / y,
    "lt": lambda lib, x, y: x < y,
    "atan2": lambda lib, x, y: lib.atan2(x, y),
    "logical_and": lambda lib, x, y: lib.logical_and(x, y),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
}
THREE: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "addcmul": lambda lib, x, y, z: lib.addcmul(x, y, z),
    "lerp": lambda lib, x, y, z: lib.lerp(x, y, z),
}
MASKED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "where": lambda lib, m, x, y: lib.where(m, x, y),
    "masked_fill": lambda lib, m, x, y: x.masked_fill(m, 0),
}


def geometry(rng: random.Random, shape: list[int], dtype: str) -> Geometry:
    """A layout of this shape: axes permuted, sliced, spread out or expanded, by chance."""
    order = list(range(len(shape)))
    if rng.random() < 0.6:
        rng.shuffle(order)
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        chance = rng.random()
        if chance < 0.15:
            continue  # expanded
        if chance < 0.3:
            step *= 2  # every other element
        strides[axis] = step
        step *= shape[axis] + (2 if chance > 0.9 else 0)  # a slice of a longer axis
    return tuple(shape), tuple(strides), dtype


def operand(rng: random.Random, shape: list[int], dtype: str) -> Geometry:
    """The same for an operand that broadcasts to the shape."""
    own = [1 if rng.random() < 0.2 else size for size in shape]
    while own and rng.random() < 0.15:
        own.pop(0)
    return geometry(rng, own, dtype)


def made(lib: Any, drawn: Geometry) -> Any:
    shape, strides, dtype = drawn
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    memory = lib.ones(reach, dtype=getattr(lib, dtype))
    return memory.as_strided(shape, strides)


def check(names: dict[str, Callable[..., Any]], drawn: list[Geometry]) -> None:
    for name, f in names.items():
        ours, theirs = (f(lib, *(made(lib, one) for one in drawn)) for lib in (ad, torch))
        seen = [
            [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size != 1]
            for x in (ours, theirs)
        ]
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert seen[0] == seen[1], f"{name} of {drawn}: {ours.stride()}, not {theirs.stride()}"


@pytest.mark.parametrize("seed", range(8))
def test_results_lie_in_memory_as_in_pytorch(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(0, 5))]
        dtypes = ["float32", "float64", "int64"] if rng.random() < 0.3 else ["float32"]
        check(ONE, [geometry(rng, shape, "float32")])
        check(TWO, [operand(rng, shape, rng.choice(dtypes)) for _ in range(2)])
        check(THREE, [operand(rng, shape, "float32") for _ in range(3)])
        values = [operand(rng, shape, rng.choice(dtypes)) for _ in range(2)]
        check(MASKED, [operand(rng, shape, "bool"), *values])
