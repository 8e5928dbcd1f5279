"""Inputs that PyTorch itself gets wrong: empty ones (its answers are garbage, or it crashes) and
numbers that overflow on the way.
"""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.nn import functional as F


def test_a_soft_margin_loss_does_not_overflow() -> None:
    x = ad.tensor([900.0, 900.0, -900.0], requires_grad=True)
    loss = F.soft_margin_loss(x, ad.tensor([1, -1, 1]), reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [0.0, 900.0, 900.0]
    assert x.grad is not None and x.grad.tolist() == [0.0, 1.0, -1.0]


def test_no_samples_have_no_multilabel_margin_loss() -> None:
    x = ad.zeros(0, 4, requires_grad=True)
    target = ad.zeros(0, 4, dtype=ad.int64)
    loss = F.multilabel_margin_loss(x, target, reduction="sum")
    loss.backward()
    assert loss.item() == 0 and x.grad is not None and x.grad.shape == (0, 4)


@pytest.mark.parametrize("rows", [0, 1])
def test_one_row_has_no_pairs(rows: int) -> None:
    x = ad.ones(rows, 3, requires_grad=True)
    distances = ad.pdist(x)
    distances.sum().backward()
    assert distances.shape == (0,)
    assert x.grad is not None and not x.grad.any()


def test_no_channels_are_shuffled_into_no_pixels() -> None:
    x = ad.zeros(1, 0, 2, 4, requires_grad=True)
    up, down = ad.pixel_shuffle(x, 2), ad.pixel_unshuffle(x, 2)
    assert up.shape == (1, 0, 4, 8) and down.shape == (1, 0, 1, 2)
    (up.sum() + down.sum()).backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_what_is_cut_off_whole_cannot_be_wrapped() -> None:
    with pytest.raises(RuntimeError, match="no elements left to pad with"):
        F.pad(ad.ones(1, 1, 4), (-4, 3), "circular")
