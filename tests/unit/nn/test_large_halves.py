"""Layers of short dtypes, computed in float32, at sizes that let other threads run meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

LAYERS: dict[str, Callable[[Any], Any]] = {
    "RNN": lambda x: nn.RNN(16, 64, dtype=x.dtype)(x)[0],
    "LSTM": lambda x: nn.LSTM(16, 64, dtype=x.dtype)(x)[0],
    "GRU": lambda x: nn.GRU(16, 64, dtype=x.dtype)(x)[0],
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("dtype", [ad.bfloat16, ad.float16], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_both_passes_end_at_any_size(layer: str, dtype: Any) -> None:
    x = ad.ones(8, 64, 16, dtype=dtype, requires_grad=True)
    y = LAYERS[layer](x)
    y.sum().backward()
    assert y.dtype == dtype and x.grad.dtype == dtype
    assert bool(y.isfinite().all()) and bool(x.grad.isfinite().all())
