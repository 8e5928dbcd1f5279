"""Messages of resizing, grids, bags of embeddings and losses of sequences."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from tests.errors.table import Row, check, refusals

F = nn.functional
x = ad.ones(2, 3)
t = ad.tensor([0, 1])
s = ad.tensor(1.0)
line, plane, volume = ad.ones(1, 1, 4), ad.ones(1, 1, 4, 4), ad.ones(1, 1, 2, 2, 2)


@refusals(
    (lambda: F.interpolate(line), ValueError, "either size or scale_factor should be defined"),
    (lambda: F.interpolate(line, 2, 2.0), ValueError, "only one of size or scale_factor should be"),
    (lambda: F.interpolate(line, (2, 2)), ValueError, "of [4] and output size of (2, 2)"),
    (lambda: F.interpolate(line, 2.5), TypeError, "expected size to be one of int or Tuple[int]"),  # type: ignore[arg-type]
    (
        lambda: F.interpolate(line, 2, align_corners=True),
        ValueError,
        "can only be set with the",
    ),
    (
        lambda: F.interpolate(line, 2, recompute_scale_factor=True),
        ValueError,
        "not meaningful with an explicit size",
    ),
    (lambda: F.interpolate(line, 2, antialias=True), ValueError, "Anti-alias option is restricted"),
    (lambda: F.interpolate(plane, 2, mode="lanczos"), ValueError, "requires antialias=True"),
    (
        lambda: F.interpolate(plane, 2, mode="lanczos", antialias=True, align_corners=True),
        ValueError,
        "does not support align_corners=True",
    ),
    (
        lambda: F.interpolate(line, 2, mode="bilinear"),
        NotImplementedError,
        "bilinear mode needs",
    ),
    (
        lambda: F.interpolate(x, 2, mode="odd"),
        NotImplementedError,
        "nearest-exact (got odd)",
    ),
    (lambda: F.interpolate(line.long(), 2), NotImplementedError, "'nearest' not implemented"),
    (
        lambda: F.interpolate(line, 0),
        RuntimeError,
        "got input [4] and output [0]",
    ),
    (lambda: F.grid_sample(plane, ad.ones(1, 1, 1, 2), "odd"), ValueError, "to be 'bilinear'"),
    (
        lambda: F.grid_sample(plane, ad.ones(1, 1, 1, 2), padding_mode="a"),
        ValueError,
        "padding_mode",
    ),
    (
        lambda: F.grid_sample(plane, x, align_corners=True),
        RuntimeError,
        "same number of dimensions",
    ),
    (
        lambda: F.grid_sample(plane, ad.ones(2, 1, 1, 2), align_corners=True),
        RuntimeError,
        "to have same batch size",
    ),
    (
        lambda: F.grid_sample(plane, ad.ones(1, 1, 1, 3), align_corners=True),
        RuntimeError,
        "size 2 in last dimension",
    ),
    (
        lambda: F.grid_sample(plane[..., :0], ad.ones(1, 1, 1, 2), align_corners=True),
        RuntimeError,
        "non-empty spatial dimensions",
    ),
    (
        lambda: F.grid_sample(plane, ad.ones(1, 1, 1, 2).double(), align_corners=True),
        RuntimeError,
        "same dtype, but input has",
    ),
    (
        lambda: F.grid_sample(plane.long(), ad.ones(1, 1, 1, 2).long(), align_corners=True),
        NotImplementedError,
        '"grid_sampler" not implemented for',
    ),
    (
        lambda: F.grid_sample(volume, ad.ones(1, 1, 1, 1, 3), "bicubic", align_corners=True),
        RuntimeError,
        "bicubic interpolation only supports 4D input",
    ),
    (lambda: F.affine_grid(t, (1, 1, 2, 2), True), ValueError, "theta to have floating point type"),
    (
        lambda: F.affine_grid(x, (1, 1, 2), True),
        NotImplementedError,
        "4D and 5D sizes, for 2D",
    ),
    (lambda: F.affine_grid(x, (1, 1, 2, 2), True), ValueError, "of shape Nx2x3 for size"),
    (
        lambda: F.affine_grid(ad.ones(1, 2, 3), (1, 1, 0, 2), True),
        ValueError,
        "positive output size. Got (1, 1, 0, 2)",
    ),
    (
        lambda: F.affine_grid(ad.ones(2, 2, 3), (1, 1, 2, 2), True),
        RuntimeError,
        "as many affine matrices as samples, got 2",
    ),
)
def test_resizing_and_grids(row: Row) -> None:
    check(row)


def bag(index: Any, weight: Any = x, offsets: Any = None, **kwargs: Any) -> Any:
    return F.embedding_bag(index, weight, offsets, **kwargs)


def native_bag(*given: Any, **kwargs: Any) -> Any:
    return ad._core._embedding_bag(*given, **kwargs)


zero = ad.tensor([0])


@refusals(
    (
        lambda: bag(t, per_sample_weights=x),
        ValueError,
        "per_sample_weights ([2, 3]) is not",
    ),
    (lambda: bag(t, s), ValueError, "weight has to be a 2D Tensor, but got Tensor of dimension 0"),
    (lambda: bag(t), ValueError, "offsets has to be a 1D Tensor but got None"),
    (lambda: bag(t, offsets=x), ValueError, "offsets has to be a 1D Tensor"),
    (lambda: bag(t.reshape(1, 2), offsets=t), ValueError, "if input is 2D, then offsets has to be"),
    (
        lambda: bag(s.long()),
        ValueError,
        "but got Tensor of dimension 0",
    ),
    (
        lambda: bag(t, offsets=zero, mode="odd"),
        ValueError,
        "mode has to be one of sum, mean or max",
    ),
    (
        lambda: bag(t, offsets=zero, mode="max", scale_grad_by_freq=True),
        ValueError,
        "max mode does not support scaling",
    ),
    (lambda: bag(t, offsets=zero, mode="max", sparse=True), ValueError, "support sparse weights"),
    (
        lambda: bag(t, offsets=zero, per_sample_weights=ad.ones(2)),
        NotImplementedError,
        "only supported for mode='sum' (got mode='mean')",
    ),
    (lambda: bag(t, offsets=zero, padding_idx=5), RuntimeError, "padding_idx must be within"),
    (lambda: bag(t.float(), offsets=zero), RuntimeError, "'indices' to have one of the following"),
    (lambda: bag(t, offsets=zero.float()), RuntimeError, "'offsets' to have one of the following"),
    (
        lambda: bag(t + 1, offsets=zero),
        RuntimeError,
        "but found idx to be 2 where there are 2 rows",
    ),
    (lambda: bag(t, offsets=t[1:]), RuntimeError, "offsets[0] has to be 0"),
    (lambda: bag(t, offsets=ad.tensor([0, 2, 1])), RuntimeError, "offsets[2] is 1 after 2"),
    (lambda: bag(t, offsets=ad.tensor([0, 3])), RuntimeError, "but got offsets[-1] of 3"),
    (lambda: bag(t, offsets=t[:0]), RuntimeError, "offsets are empty, but there are 2 indices"),
    (
        lambda: bag(t, offsets=t[:0], include_last_offset=True),
        RuntimeError,
        "number of offset should be at least 1",
    ),
    (lambda: bag(t, x.long(), zero), NotImplementedError, '"embedding_bag" not implemented'),
    (lambda: native_bag(s, t, zero), RuntimeError, "'weight' must be 2-D, got shape []"),
    (lambda: native_bag(x, t, s.long()), RuntimeError, "must be 1-D, got [2] and []"),
    (lambda: native_bag(x, t, zero, mode=3), ValueError, "mode has to be one of sum, mean or max"),
    (
        lambda: native_bag(x, t, zero, mode=1, per_sample_weights=ad.ones(2)),
        RuntimeError,
        "per_sample_weights is only supported for mode='sum'",
    ),
    (
        lambda: native_bag(x, t, zero, per_sample_weights=ad.ones(3)),
        RuntimeError,
        "of 2 elements of float32, but got shape [3]",
    ),
    (
        lambda: nn.EmbeddingBag(2, 3, _weight=ad.ones(1, 3)),
        AssertionError,
        "Shape of weight does not match",
    ),
    (lambda: nn.EmbeddingBag.from_pretrained(s), AssertionError, "expected to be 2-dimensional"),
)
def test_bags(row: Row) -> None:
    check(row)


def ctc(logs: Any = ad.zeros(4, 1, 3), targets: Any = ad.tensor([[1, 2]]), **kwargs: Any) -> Any:  # noqa: B008
    lengths = kwargs.pop("inputs", (4,)), kwargs.pop("labels", (2,))
    return F.ctc_loss(logs, targets, *lengths, **kwargs)


@refusals(
    (lambda: ctc(inputs=ad.tensor([4.0])), RuntimeError, "lengths must be integral"),
    (lambda: ctc(inputs=4), TypeError, "lengths must be Tensor or tuple of ints, not int"),
    (lambda: ctc(inputs=(4.5,)), TypeError, "must be whole numbers, got [4.5]"),
    (lambda: ctc(s), RuntimeError, "log_probs must be [T, N, C], got []"),
    (lambda: ctc(ad.zeros(4, 1, 3).half()), NotImplementedError, '"ctc_loss_cpu" not implemented'),
    (lambda: ctc(targets=x), RuntimeError, "to have one of int32, int64, but got"),
    (lambda: ctc(blank=3), RuntimeError, "blank must be in label range"),
    (lambda: ctc(inputs=(4, 4)), RuntimeError, "input_lengths must be of size batch_size: 2 for 1"),
    (lambda: ctc(ad.zeros(4, 0, 3), inputs=(), labels=()), RuntimeError, "must not be empty"),
    (lambda: ctc(inputs=(5,)), RuntimeError, "at least 0 and at most 4, got [5]"),
    (lambda: ctc(labels=(-1,)), RuntimeError, "to have value at least 0, got [-1]"),
    (lambda: ctc(targets=t[:1]), RuntimeError, "size 2 at dimension 0, but got size 1"),
    (lambda: ctc(labels=(3,)), RuntimeError, "to be [1, at least 3] or one after the other"),
    (lambda: ctc(targets=ad.tensor([[1, 3]])), RuntimeError, "targets must lie in [0, 3)"),
)
def test_losses_of_sequences(row: Row) -> None:
    check(row)
