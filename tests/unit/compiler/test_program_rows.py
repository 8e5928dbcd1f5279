"""Short rows of fused loops: gathered, repeated and scattered as eager execution has them."""

from __future__ import annotations

import random

import pytest

import adjoint as ad

from .test_program_fusion import check, uniform

DTYPES = (ad.float32, ad.float64, ad.int64, ad.float16)


def operand(rng: random.Random, seed: int, shape: tuple[int, ...], dtype: ad.dtype) -> ad.Tensor:
    """Draw a tensor that broadcasts to a shape, often one that does not lie as its result does."""
    kept = [n if rng.random() < 0.7 else 1 for n in shape]
    order = list(range(len(shape)))
    if rng.random() < 0.4:
        rng.shuffle(order)
    room = [2 * kept[axis] + 1 if rng.random() < 0.3 else kept[axis] for axis in order]
    whole = uniform(seed, *room, dtype=dtype)
    cut = whole[
        tuple(slice(1, None, 2) if room[k] != kept[a] else slice(None) for k, a in enumerate(order))
    ]
    return cut.permute([order.index(axis) for axis in range(len(shape))])


@pytest.mark.parametrize("seed", range(40))
def test_broadcast_and_strided_operands_of_short_rows(seed: int) -> None:
    rng = random.Random(seed)
    row = rng.choice((2, 3, 3, 3, 4, 5, 16, 17))
    shape = (*rng.choice(((7,), (200,), (5, 11), (32, 32), (3, 4, 19), (3000,))), row)
    dtypes = [rng.choice(DTYPES[:3] if rng.random() < 0.8 else DTYPES) for _ in range(3)]
    if rng.random() < 0.6:
        dtypes = [dtypes[0]] * 3

    def make(run: int) -> list[ad.Tensor]:
        same = random.Random(seed)
        return [operand(same, 3 * run + k, shape, d) for k, d in enumerate(dtypes)]

    check(lambda a, b, c: (a - b, (a - b) * c + a, ad.maximum(b, c) * 2), make)
