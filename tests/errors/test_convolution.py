"""Messages of convolutions and pooling: sizes, strides, padding, groups."""

from __future__ import annotations

import adjoint as ad
from tests.errors.table import Row, check, refusals

f, m = ad.arange(4.0), ad.ones(2, 3)
F = ad.nn.functional
image = ad.ones(1, 4, 5, 5)
kernels = ad.ones(2, 4, 3, 3)


@refusals(
    (
        lambda: F.conv2d(image, kernels, padding=-1),
        RuntimeError,
        "negative padding is not supporte",
    ),
    (
        lambda: F.conv2d(image, kernels, padding="up"),
        RuntimeError,
        "'up'; expected 'valid' or 'same'",
    ),
    (
        lambda: F.conv2d(image, kernels, stride=2, padding="same"),
        RuntimeError,
        "for strided convol",
    ),
    (
        lambda: F.conv2d(image, m),
        RuntimeError,
        "weight should have at least three dimensions, got [2, 3]",
    ),
    (
        lambda: F.conv2d(image, kernels, groups=3),
        RuntimeError,
        "Given groups=3, expected weight to",
    ),
    (
        lambda: F.conv2d(image, kernels[:, :3]),
        RuntimeError,
        "to have 3 channels, but got 4 channels",
    ),
    (
        lambda: F.conv2d(image, kernels, f),
        RuntimeError,
        "with 2 elements, but got bias of size [4]",
    ),
    (
        lambda: F.conv2d(image, kernels.double()),
        RuntimeError,
        "Input type (float32) and weight type (float64) should be the same",
    ),
    (lambda: F.conv2d(image[..., :2], kernels), RuntimeError, "Kernel size can't be greater than"),
    (
        lambda: F.conv2d(image, kernels, stride=(1, 1, 1)),
        RuntimeError,
        "or a list of 2 values to match the convolution dimensions",
    ),
    (
        lambda: F.conv2d(image, kernels, stride=0),
        RuntimeError,
        "non-positive stride is not supported, got stride=[0, 0]",
    ),
    (lambda: F.conv2d(f, kernels), RuntimeError, "input to conv2d, but got input of size: [4]"),
    (
        lambda: F.max_pool2d(image, 2, padding=2),
        RuntimeError,
        "but got pad=2, kernel_size=2 and dil",
    ),
    (lambda: F.max_pool2d(image, 9), RuntimeError, "Output size is too small"),
    (lambda: F.dropout1d(f), RuntimeError, "Expected 2D or 3D input, but received a 1D input"),
    (lambda: F.feature_alpha_dropout(f, 0.5, True), RuntimeError, "requires at least 2 dimensions"),
    (lambda: ad.nn.Conv2d(4, 2, 3, groups=0), ValueError, "groups must be a positive integer"),
    (
        lambda: ad.nn.Conv2d(3, 2, 3, groups=2),
        ValueError,
        "in_channels must be divisible by groups",
    ),
    (
        lambda: ad.nn.Conv2d(4, 3, 3, groups=2),
        ValueError,
        "out_channels must be divisible by group",
    ),
    (lambda: ad.nn.Conv2d(4, 2, 3, padding="up"), ValueError, "Invalid padding string 'up'"),
    (lambda: ad.nn.Conv2d(4, 2, 3, padding_mode="up"), ValueError, "padding_mode must be one of"),
    (
        lambda: ad.nn.Conv2d(4, 2, 3, 2, "same"),
        ValueError,
        "not supported for strided convolutions",
    ),
)
def test_windows(row: Row) -> None:
    check(row)
