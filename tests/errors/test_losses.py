"""Messages of losses, normalization and their arguments."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core
from tests.errors.table import Row, check, refusals

core: Any = _core
F = ad.nn.functional
x = ad.ones(2, 3)
target = ad.tensor([0, 1])
s = ad.tensor(1.0)


@refusals(
    (
        lambda: F.mse_loss(x, x, reduction="max"),
        ValueError,
        "max is not a valid value for reduction",
    ),
    (lambda: F.nll_loss(x, ad.ones(2, 1).long()), RuntimeError, "target has shape [2, 1]"),
    (
        lambda: F.nll_loss(x, target[:1]),
        ValueError,
        "batch_size (2) to match target batch_size (1)",
    ),
    (lambda: F.nll_loss(x, target.float()), RuntimeError, "convert it with target.long()"),
    (lambda: F.nll_loss(x, target + 5), IndexError, "Target 5 is out of bounds for 3 classes"),
    (
        lambda: F.nll_loss(ad.ones(2, 3, 4), ad.ones(2, 5).long()),
        RuntimeError,
        "target size [2, 4]",
    ),
    (lambda: F.nll_loss(s, target), ValueError, "Expected 1 or more dimensions (got 0)"),
    (lambda: F.nll_loss(x, target, weight=ad.ones(2)), RuntimeError, "either for all 3 classes"),
    (lambda: F.nll_loss(x, target, weight=ad.ones(3).double()), RuntimeError, "dtype float32 but"),
    (
        lambda: F.nll_loss(x, target, weight=ad.ones(3, requires_grad=True)),
        RuntimeError,
        "have requires_grad True: pass weight.detach()",
    ),
    (lambda: F.nll_loss(x.long(), target), NotImplementedError, "convert with .float()"),
    (lambda: F.smooth_l1_loss(x, x, beta=-1), RuntimeError, "negative values for beta, got -1"),
    (lambda: F.huber_loss(x, x, delta=0), RuntimeError, "non-positive values for delta, got 0"),
    (
        lambda: F.binary_cross_entropy(x, x[:1]),
        ValueError,
        "Please ensure they have the same size.",
    ),
    (lambda: F.binary_cross_entropy(x * 2, x), RuntimeError, "should be between 0 and 1"),
    (
        lambda: F.binary_cross_entropy(x, x.double()),
        RuntimeError,
        "Found dtype float64 but expecte",
    ),
    (
        lambda: F.binary_cross_entropy_with_logits(x, s),
        ValueError,
        "must be the same as input size",
    ),
    (
        lambda: core.binary_cross_entropy(x, x[:1]),
        ValueError,
        "binary_cross_entropy: Using a target size (torch.Size([1, 3]))",
    ),
    (
        lambda: ad.binary_cross_entropy_with_logits(x, s),
        ValueError,
        "Target size (torch.Size([])) must be the same as input size (torch.Size([2, 3]))",
    ),
    (
        lambda: F.mse_loss(x.long(), x.long()),
        NotImplementedError,
        '"mse_loss" not implemented for int64: it needs floating-point tensors',
    ),
    (lambda: F.cross_entropy(s, target), ValueError, "Expected 1 or more dimensions (got 0)"),
    (lambda: F.cross_entropy(s, s), ValueError, "Expected 1 or more dimensions (got 0)"),
    (lambda: F.cross_entropy(x, target[:1]), ValueError, "to match target batch_size (1)."),
    (lambda: F.cross_entropy(x, x, weight=ad.ones(2)), RuntimeError, "either for all 3 classes or"),
    (lambda: F.cross_entropy(x, x.long()), RuntimeError, "with class probabilities, got int64"),
    (lambda: F.cross_entropy(x, target, label_smoothing=2.0), RuntimeError, "0.0 and 1.0. Got: 2"),
    (
        lambda: F.cross_entropy(x, x, ignore_index=1),
        RuntimeError,
        "not supported for floating poin",
    ),
    (lambda: F.layer_norm(x, ()), RuntimeError, "at least one element, but got normalized_shape ="),
    (
        lambda: F.layer_norm(x, (2,)),
        RuntimeError,
        "expected input with shape [*, 2], but got input",
    ),
    (
        lambda: F.layer_norm(x, (3,), ad.ones(2)),
        RuntimeError,
        "of shape [2] and normalized_shape =",
    ),
    (lambda: F.layer_norm(x, (3,), ad.ones(3).double()), RuntimeError, "mixed dtype (CPU)"),
)
def test_losses(row: Row) -> None:
    check(row)
