"""linear_cross_entropy is cross_entropy of linear, in one piece or in many."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

CUT = [
    None,
    nn.LinearCrossEntropyOptions(),
    nn.LinearCrossEntropyOptions(batch_chunk_size=2),
    nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio"),
]


def grads(loss: Any, *leaves: Any) -> Any:
    return [loss.detach(), *ad.autograd.grad(loss.sum(), leaves)]


@pytest.mark.parametrize("options", CUT, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_pieces_are_the_whole(options: Any, reduction: str) -> None:
    ad.manual_seed(0)
    x, w, b = (ad.randn(*s, dtype=ad.float64, requires_grad=True) for s in ((7, 3), (5, 3), (5,)))
    target, weight = ad.tensor([0, 4, 2, -100, 1, 1, 3]), ad.rand(5, dtype=ad.float64)
    got = F.linear_cross_entropy(
        x, w, target, linear_bias=b, weight=weight, reduction=reduction, options=options
    )
    want = F.cross_entropy(F.linear(x, w, b), target, weight=weight, reduction=reduction)
    for mine, whole in zip(grads(got, x, w, b), grads(want, x, w, b), strict=True):
        ad.testing.assert_close(mine, whole)


def test_the_module_has_a_linear_layer_for_more_axes() -> None:
    loss = nn.LinearCrossEntropyLoss(5, 4, out_features=(2, 3), bias=True)
    assert loss.linear.weight.shape == (24, 5)
    assert loss(ad.randn(2, 5), ad.zeros(2, 2, 3, dtype=ad.int64)).shape == ()
    assert "num_classes=4" in repr(loss)


def test_options_that_cannot_be_kept_warn() -> None:
    with pytest.warns(UserWarning, match="``options`` ignored"):
        F.linear_cross_entropy(
            ad.ones(2, 3), ad.ones(4, 3), ad.tensor([0, 1]), label_smoothing=0.1, options=CUT[1]
        )


X, W, T = ad.ones(2, 3), ad.ones(4, 3), ad.tensor([0, 1])
BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: F.linear_cross_entropy(X[None], W, T), RuntimeError, "dimensionality 1 or 2"),
    (lambda: F.linear_cross_entropy(X, W[0], T), RuntimeError, "dimensionality at least 2"),
    (lambda: F.linear_cross_entropy(X, W[:, :2], T), RuntimeError, "in_features"),
    (
        lambda: F.linear_cross_entropy(X, W, T, linear_bias=X[0]),
        RuntimeError,
        "expected linear_bias shape",
    ),
    (lambda: F.linear_cross_entropy(X[0], W[:, None], T), RuntimeError, "requires batched input"),
    (
        lambda: F.linear_cross_entropy(X, W, ad.ones(2, 4), ignore_index=1),
        RuntimeError,
        "contains probabilities",
    ),
    (lambda: F.linear_cross_entropy(X, W, T[:1], options=CUT[1]), ValueError, "batch_size"),
    (lambda: nn.LinearCrossEntropyOptions(acc_policy="x"), ValueError, "invalid acc_policy"),
    (lambda: nn.LinearCrossEntropyOptions(chunking_method="x"), ValueError, "chunking_method"),
    (lambda: nn.LinearCrossEntropyOptions(batch_chunk_size=0), ValueError, "batch_chunk_size"),
    (lambda: nn.LinearCrossEntropyOptions(acc_dtype=ad.int64), ValueError, "acc_dtype"),
    (
        lambda: nn.LinearCrossEntropyOptions(False, 3, "aspect_ratio")._rows(8, 2, 8),
        ValueError,
        "different chunk sizes",
    ),
    (lambda: nn.LinearCrossEntropyLoss(2, 3, weight=ad.ones(2)), RuntimeError, "weight shape"),
    (lambda: nn.LinearCrossEntropyLoss(2, 3, label_smoothing=2), RuntimeError, "label_smoothing"),
]


@pytest.mark.parametrize("row", BAD, ids=lambda row: row[2])
def test_refusals(row: tuple[Any, type[Exception], str]) -> None:
    call, kind, part = row
    with pytest.raises(kind, match=part):
        call()
