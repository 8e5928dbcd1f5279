"""The gradients at kinks that tests/ops/kinks.py lists are PyTorch's."""

from __future__ import annotations

import pytest

from tests.ops.kinks import KINKS, Kink, gradients, same

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kink", KINKS, ids=lambda kink: kink.name)
def test_pytorch_has_the_same_subgradient(kink: Kink) -> None:
    got = gradients(torch, kink)
    assert same(got, kink.grads), f"{got} instead of {kink.grads}"
