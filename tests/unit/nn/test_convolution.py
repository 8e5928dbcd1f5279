"""Convolutions, max pooling and channel dropouts against loops over windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def looped_conv(x: Any, w: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """One dot product per window."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * n])
    spread = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    places = [(s - k) // stride + 1 for s, k in zip(x.shape[2:], spread, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *places))
    each, made = w.shape[1], w.shape[0] // groups
    for at in itertools.product(*map(range, places)):
        cut = tuple(
            slice(p * stride, p * stride + k, dilation) for p, k in zip(at, spread, strict=True)
        )
        window = x[(slice(None), slice(None), *cut)]
        for o in range(w.shape[0]):
            part = window[:, (o // made) * each : (o // made + 1) * each]
            out[(slice(None), o, *at)] = (part * w[o]).reshape(x.shape[0], -1).sum(1)
    return out


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)]
)
def test_a_convolution_is_a_product_per_window(
    n: int, stride: int, padding: int, dilation: int, groups: int
) -> None:
    x, w = draw(2, 4, *(6, 5, 5)[:n]), draw(6, 4 // groups, *(3, 2, 2)[:n])
    b = np.arange(6.0)
    expected = looped_conv(x, w, stride, padding, dilation, groups) + b.reshape(-1, *(1,) * n)
    result = CONV[n](
        ad.from_numpy(x), ad.from_numpy(w), ad.from_numpy(b), stride, padding, dilation, groups
    )
    assert result.is_contiguous()
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-12)
    single = CONV[n](ad.from_numpy(x[0]), ad.from_numpy(w), None, stride, padding, dilation, groups)
    np.testing.assert_allclose(single.numpy(), expected[0] - b.reshape(-1, *(1,) * n), atol=1e-12)


def test_padding_by_name() -> None:
    x, w = ad.from_numpy(draw(1, 1, 7)), ad.from_numpy(draw(1, 1, 4))
    assert F.conv1d(x, w, padding="valid").shape == (1, 1, 4)
    same = F.conv1d(x, w, padding="same")
    assert same.shape == x.shape
    padded = F.pad(x, [1, 2])  # the odd one goes behind
    ad.testing.assert_close(same, F.conv1d(padded, w))


def test_derivatives_of_a_convolution_to_second_order() -> None:
    x = ad.from_numpy(draw(2, 2, 4, 3)).requires_grad_()
    w = ad.from_numpy(draw(2, 1, 2, 2)).requires_grad_()

    def func(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
        return F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 2)

    assert ad.autograd.gradcheck(func, (x, w), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(func, (x, w))


def test_per_sample_gradients_of_a_convolution() -> None:
    x, w = ad.from_numpy(draw(3, 2, 5, 5)), ad.from_numpy(draw(4, 2, 3, 3))

    def loss(w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
        return F.max_pool2d(F.conv2d(x, w), 2).square().sum()

    each = ad.func.vmap(ad.func.grad(loss), in_dims=(None, 0))(w, x)
    for i in range(3):
        ad.testing.assert_close(each[i], ad.func.grad(loss)(w, x[i]))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((ad.ones(2, 2), ad.ones(1, 1, 1, 1)), r"Expected 3D \(unbatched\) or 4D \(batched\)"),
        ((ad.ones(1, 3, 4, 4), ad.ones(2, 2, 1, 1)), "to have 2 channels, but got 3 channels"),
        ((ad.ones(1, 2, 2, 2), ad.ones(2, 2, 3, 3)), "Kernel size can't be greater than actual"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), ad.ones(3)), "expected bias to be 1-dim"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1)), "Expected 3-dimensional input for 3-dim"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1).double()), "should be the same"),
        ((ad.ones(1, 2, 4, 4), ad.ones(3, 1, 1, 1), None, 1, 0, 1, 2), "divisible by 2 at"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), None, 0), "non-positive stride"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), None, (1, 1, 1)), "or a list of 2 values"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), None, 1, -1), "negative padding"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), None, 2, "same"), "strided convolutions"),
        ((ad.ones(1, 2, 4, 4), ad.ones(2, 2, 1, 1), None, 1, "odd"), "Invalid padding string"),
    ],
)
def test_bad_arguments_of_a_convolution(args: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*args)


def test_layers_of_convolutions() -> None:
    layer = ad.nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=1, groups=2, bias=False)
    assert repr(layer) == (
        "Conv2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, bias=False)"
    )
    x = ad.from_numpy(draw(1, 2, 6, 6)).float()
    ad.testing.assert_close(layer(x), F.conv2d(x, layer.weight, None, 2, 1, 1, 2))
    assert ad.nn.Conv1d(1, 2, 3)(ad.ones(1, 1, 5)).shape == (1, 2, 3)
    assert ad.nn.Conv3d(1, 2, 2)(ad.ones(1, 3, 3, 3)).shape == (2, 2, 2, 2)
    for wrong in ({"groups": 0}, {"groups": 3}, {"padding": "odd"}):
        with pytest.raises(ValueError):
            ad.nn.Conv2d(2, 4, 3, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="out_channels must be divisible"):
        ad.nn.Conv2d(2, 3, 3, groups=2)
    with pytest.raises(ValueError, match="strided"):
        ad.nn.Conv2d(2, 4, 3, stride=2, padding="same")
    with pytest.raises(ValueError, match="padding_mode must be one of"):
        ad.nn.Conv2d(2, 4, 3, padding_mode="odd")


# --- pooling ------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("k", "stride", "padding", "dilation", "ceil"),
    [(2, None, 0, 1, False), (3, 2, 1, 1, True), (2, 1, 1, 2, False), (3, 3, 0, 1, True)],
)
def test_pooling_takes_the_largest_and_says_where_it_stands(
    n: int, k: int, stride: int | None, padding: int, dilation: int, ceil: bool
) -> None:
    x = draw(2, 3, *(7, 6, 5)[:n])
    values, places = POOL[n](
        ad.from_numpy(x), k, stride, padding, dilation, ceil, return_indices=True
    )
    step = stride or k
    spread = dilation * (k - 1) + 1
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), 2),
        values.numpy().reshape(2, 3, -1),
    )
    for at in itertools.product(*map(range, values.shape[2:])):
        cut = tuple(
            slice(
                max(0, p * step - padding) if dilation == 1 else None, p * step - padding + spread
            )
            for p in at
        )
        if dilation != 1:
            cut = tuple(
                slice(
                    next(i for i in range(p * step - padding, s, dilation) if i >= 0),
                    p * step - padding + spread,
                    dilation,
                )
                for p, s in zip(at, x.shape[2:], strict=True)
            )
        window = x[(slice(None), slice(None), *cut)].reshape(2, 3, -1)
        np.testing.assert_array_equal(
            values.numpy()[(slice(None), slice(None), *at)], window.max(-1)
        )


def test_the_gradient_of_pooling_goes_to_the_largest() -> None:
    x = ad.tensor([[1.0, 3.0, 2.0, 2.0]], requires_grad=True)
    F.max_pool1d(x, 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 0]]  # of equal ones, the first


def test_pooling_of_integers_and_single_samples() -> None:
    x = ad.arange(16).view(1, 4, 4)
    assert F.max_pool2d(x, 2, padding=1).tolist() == [[[0, 2, 3], [8, 10, 11], [12, 14, 15]]]
    layer = ad.nn.MaxPool2d(2, return_indices=True)
    values, places = layer(x.float())
    assert values.long().tolist() == places.tolist() == [[[5, 7], [13, 15]]]
    assert repr(layer) == (
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert ad.nn.MaxPool1d(2)(ad.ones(1, 1, 4)).shape == (1, 1, 2)
    assert ad.nn.MaxPool3d(2)(ad.ones(1, 4, 4, 4)).shape == (1, 2, 2, 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((ad.ones(1, 1, 4, 4), 2, 2, 2), "at most half of effective kernel size"),
        ((ad.ones(1, 1, 4, 4), 5), "Output size is too small"),
        ((ad.ones(4, 4), 2), r"Expected 3D or 4D \(batch mode\)"),
        ((ad.ones(1, 1, 4, 4), 0), "kernel_size should be greater than zero"),
    ],
)
def test_bad_arguments_of_pooling(args: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.max_pool2d(*args)


# --- dropouts of channels -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (ad.nn.Dropout1d, (20, 30, 3)),
        (ad.nn.Dropout2d, (20, 30, 2, 2)),
        (ad.nn.Dropout3d, (20, 30, 2, 1, 2)),
    ],
)
def test_channels_are_dropped_whole(layer: Any, shape: tuple[int, ...]) -> None:
    ad.manual_seed(0)
    made = layer(0.25)
    out = made(ad.ones(shape)).reshape(shape[0] * shape[1], -1)
    assert bool(((out == 0).all(1) | (out == 1 / 0.75).all(1)).all())
    assert 0.15 < (out[:, 0] == 0).float().mean().item() < 0.35
    ad.testing.assert_close(made.eval()(ad.ones(shape)), ad.ones(shape))


def test_samples_without_a_batch_lose_channels_too() -> None:
    ad.manual_seed(0)
    out = F.dropout1d(ad.ones(50, 4), 0.5)
    assert set(out.sum(1).tolist()) == {0.0, 8.0}
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input"):
        F.dropout1d(ad.ones(2))
    with pytest.warns(UserWarning, match="Received a 3-D input to dropout3d"):
        F.dropout3d(ad.ones(2, 2, 2))
    with pytest.warns(UserWarning, match="channel-wise 1D dropout behavior"):
        F.dropout2d(ad.ones(2, 2, 2))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        F.feature_alpha_dropout(ad.ones(2), training=True)
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        F.dropout2d(ad.ones(2, 2))


@pytest.mark.parametrize("layer", [ad.nn.AlphaDropout, ad.nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(layer: Any) -> None:
    ad.manual_seed(0)
    x = ad.randn(300, 200)
    out = layer(0.3)(x)
    assert abs(out.mean().item()) < 0.02
    assert abs(out.var().item() - 1) < 0.03
    assert (out != x).any()
    assert layer(1.0)(x).abs().sum().item() == 0
    assert layer(0.3).eval()(x) is x
    changed = x.clone()
    assert F.alpha_dropout(changed, 0.3, True, inplace=True) is changed


def test_steps_of_one_window_or_tap_may_be_huge() -> None:
    x, w = ad.arange(6.0).reshape(1, 1, 6), ad.ones(2, 1, 2)
    assert F.conv1d(x, w, stride=2**63 - 1).tolist() == [[[1.0], [1.0]]]
    assert F.conv1d(x, w[..., :1], dilation=2**62).tolist() == [[x[0, 0].tolist()] * 2]
