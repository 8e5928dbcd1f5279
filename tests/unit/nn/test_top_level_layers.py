"""Layers at the top level: native_layer_norm and its like with their statistics, grid_sampler."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

X = np.random.default_rng(0).standard_normal((4, 6, 5))
close = np.testing.assert_allclose


def test_layer_norm_and_its_statistics() -> None:
    x = ad.tensor(X, requires_grad=True)
    out, mean, scale = ad.native_layer_norm(x, (5,), None, None, 1e-5)
    close(out.detach().numpy(), F.layer_norm(ad.tensor(X), (5,)).numpy())
    close(mean.numpy(), X.mean(2, keepdims=True), atol=1e-14)
    close(scale.numpy(), (X.var(2, keepdims=True) + 1e-5) ** -0.5)
    assert [t.requires_grad for t in (out, mean, scale)] == [True, False, False]


def test_group_norm_and_its_statistics() -> None:
    x, weight, bias = ad.tensor(X), ad.arange(6.0).double(), ad.ones(6).double()
    out, mean, scale = ad.native_group_norm(x, weight, bias, 4, 6, 5, 3, 1e-5)
    close(out.numpy(), F.group_norm(x, 3, weight, bias).numpy(), atol=1e-14)
    rows = X.reshape(4, 3, 10)
    close(mean.numpy(), rows.mean(2), atol=1e-14)
    close(scale.numpy(), (rows.var(2) + 1e-5) ** -0.5)


def test_batch_norm_and_its_statistics() -> None:
    x, running = ad.tensor(X), (ad.zeros(6).double(), ad.ones(6).double())
    out = tuple(ad.empty(0, dtype=ad.float64) for _ in range(3))
    ad.native_batch_norm(x, None, None, *running, True, 0.1, 1e-5, out=out)
    close(out[0].numpy(), F.batch_norm(x, None, None, training=True).numpy())
    close(out[1].numpy(), X.mean((0, 2)), atol=1e-14)
    close(running[0].numpy(), 0.1 * X.mean((0, 2)))
    still = ad.native_batch_norm(x, None, None, *running, False, 0.1, 1e-5)
    assert [t.shape for t in still[1:]] == [(0,), (0,)]


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        ad.native_group_norm(ad.tensor(X), None, None, 4, 6, 5, 4, 1e-5)
    with pytest.raises(RuntimeError, match="Expected weight to be a vector"):
        ad.native_group_norm(ad.tensor(X), ad.ones(5), None, 4, 6, 5, 3, 1e-5)


def test_grid_samplers_take_numbers_for_modes() -> None:
    image, grid = ad.tensor(X[None]), ad.rand(1, 3, 2, 2, dtype=ad.float64)
    want = F.grid_sample(image, grid, "nearest", "border", align_corners=True)
    assert ad.equal(ad.grid_sampler(image, grid, 1, 1, True), want)
    assert ad.equal(ad.grid_sampler_2d(image, grid, 1, 1, True), want)
    with pytest.raises(RuntimeError, match="expected input of 5 dimensions"):
        ad.grid_sampler_3d(image, grid, 1, 1, True)
    with pytest.raises(RuntimeError, match="padding_mode must be 0, 1 or 2"):
        ad.grid_sampler(image, grid, 0, 3, True)
