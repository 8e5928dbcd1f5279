"""Messages of pooling, unpooling, fold, and layers that learn their sizes."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from tests.errors.table import Row, check, refusals

F: Any = ad.nn.functional
image, line = ad.ones(1, 4, 5, 5), ad.ones(1, 4, 6)
places = ad.zeros(1, 4, 2, 2, dtype=ad.int64)
quarter = ad.ones(1, 4, 2, 2)
m, n = ad.ones(2, 3), ad.zeros(2, 3, dtype=ad.int64)
samples = ad.full((1, 4, 2), 0.5)


class Half(ad.nn.modules.lazy.LazyModuleMixin, ad.nn.Module):
    """A lazy layer that does not say how to give its parameters a shape."""


class Forgetful(ad.nn.LazyConv1d):
    """One whose parameters have no shape afterwards either."""

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


@refusals(
    (lambda: F.max_pool2d(image, (2, 2, 2)), RuntimeError, "a single int, or a tuple of two ints"),
    (lambda: F.max_pool2d(image, 2, (1, 1, 1)), RuntimeError, "omitted, a single int, or a tuple"),
    (lambda: F.max_pool2d(image, 0), RuntimeError, "kernel_size should be greater than zero"),
    (lambda: F.max_pool2d(image, 2, 0), RuntimeError, "stride should not be zero"),
    (lambda: F.max_pool2d(image, 2, padding=-1), RuntimeError, "pad must be non-negative"),
    (lambda: F.avg_pool2d(ad.ones(3), 2), RuntimeError, "Expected 3D or 4D (batch mode) tensor"),
    (lambda: F.avg_pool2d(image, 2, divisor_override=0), RuntimeError, "divisor must be not zero"),
    (lambda: F.avg_pool2d(image, 7), RuntimeError, "Output size is too small"),
    (lambda: F.avg_pool3d(image, 6, 1, 1), RuntimeError, "[4, 5, 5] is smaller than kernel_size"),
    (lambda: F.adaptive_avg_pool2d(image, (-1, 2)), RuntimeError, "greater than or equal to 0"),
    (lambda: F.adaptive_avg_pool2d(image, "a"), TypeError, "output_size must be an int or a tuple"),
    (lambda: F.adaptive_avg_pool2d(ad.ones(2), (1, 1)), ValueError, "should be at least 3"),
    (lambda: F.adaptive_avg_pool1d(line, (1, 2)), RuntimeError, "output_size must be 1 numbers"),
    (lambda: F.adaptive_max_pool1d(ad.ones(3), 1), RuntimeError, "Expected 2D or 3D tensor"),
    (lambda: F.adaptive_max_pool2d(image[:, :0], 1), RuntimeError, "non-zero size for non-batch"),
    (lambda: F.fractional_max_pool2d(image, 2), ValueError, "either an output_size or an"),
    (
        lambda: F.fractional_max_pool2d(image, 2, output_ratio=(0.5,)),
        ValueError,
        "requires output_ratio to either be",
    ),
    (lambda: F.fractional_max_pool2d(image, 5, 2), RuntimeError, "too large relative to input"),
    (lambda: F.fractional_max_pool2d(image, 0, 2), RuntimeError, "kernel_size must be positive"),
    (
        lambda: F.fractional_max_pool2d(image, 2, 2, _random_samples=samples.double()),
        TypeError,
        "Expect _random_samples to have the same dtype",
    ),
    (
        lambda: F.fractional_max_pool2d(image, 2, 2, _random_samples=samples[0]),
        RuntimeError,
        "Expect _random_samples of shape [1, 4, 2]",
    ),
    (lambda: F.max_unpool2d(quarter, places.int(), 2), RuntimeError, "should be type int64"),
    (lambda: F.max_unpool2d(places, places, 2), NotImplementedError, "not implemented for"),
    (lambda: F.max_unpool2d(quarter, places[..., :1], 2), RuntimeError, "shape of indices to be"),
    (lambda: F.max_unpool2d(quarter, places + 99, 2), RuntimeError, "invalid max index: 99"),
    (lambda: F.max_unpool2d(quarter, places, 2, 0), RuntimeError, "strides should be greater than"),
    (
        lambda: F.max_unpool2d(quarter, places, 2, output_size=(9, 9)),
        ValueError,
        "dim 0 must be between 2 and 6",
    ),
    (
        lambda: F.max_unpool2d(quarter, places, 2, output_size=(4,)),
        ValueError,
        "should be a sequence containing 2 or 4 elements",
    ),
    (lambda: F.max_unpool2d(m, n, 1), RuntimeError, "max_unpooling2d should be a 3d or 4d Tensor"),
    (lambda: F.max_unpool2d(quarter[:, :0], places[:, :0], 2), RuntimeError, "with dimension 1 be"),
    (lambda: F.unfold(m, 2), IndexError, "unfold expects a 3D or 4D (batch mode) input"),
    (lambda: F.unfold(image[:, :0], 2), RuntimeError, "Expected 3D or 4D (batch mode) tensor"),
    (lambda: F.unfold(image.long(), 2), NotImplementedError, '"im2col" not implemented for'),
    (lambda: F.unfold(image, 9), RuntimeError, "shape of the array of sliding blocks as (-3, -3)"),
    (lambda: F.unfold(image, 0), RuntimeError, "kernel size should be greater than zero"),
    (lambda: F.unfold(image, 2, 1, -1), RuntimeError, "padding should be non-negative"),
    (lambda: F.unfold(image, (1, 1, 1)), RuntimeError, "expected kernel_size equals to 2"),
    (lambda: F.fold(ad.ones(2), 4, 2), RuntimeError, "Expected 2D or 3D (batch mode) tensor"),
    (lambda: F.fold(line.long(), 4, 2), NotImplementedError, '"col2im" not implemented for'),
    (lambda: F.fold(line, 4, 3), RuntimeError, "divisible by the product of kernel_size"),
    (lambda: F.fold(line, 4, 2), RuntimeError, "the calculated number of sliding blocks 3 * 3 = 9"),
    (lambda: Half()(1), NotImplementedError, "initialize_parameters is not implemented for Half"),
    (lambda: Forgetful(2, 3)(line), RuntimeError, "has not been fully initialized"),
    (lambda: ad.nn.LazyConv2d(2, 3)(line[0]), RuntimeError, "Expected 3D (unbatched) or 4D"),
    (lambda: ad.nn.LazyConv2d(2, 3).weight.shape, RuntimeError, "of an uninitialized parameter"),
    (
        lambda: ad.nn.LazyConv2d(2, 3).weight.share_memory_(),
        RuntimeError,
        "Can't share memory on an uninitialized",
    ),
    (lambda: ad.nn.LazyConv2d(2, 3).weight + 1, ValueError, "use an uninitialized parameter in"),
)
def test_pooling(row: Row) -> None:
    check(row)
