"""Convolutions, max pooling, dropouts and ``functional_call`` beside PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")


def ours(t: Any) -> ad.Tensor:
    return ad.from_numpy(t.detach().numpy().copy())


def check(result: Any, expected: Any) -> None:
    assert tuple(result.shape) == tuple(expected.shape)
    np.testing.assert_allclose(
        result.detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-6
    )


def both(name: str) -> tuple[Any, Any]:
    return getattr(ad.nn.functional, name), getattr(torch.nn.functional, name)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions(n: int) -> None:
    torch.manual_seed(0)
    mine, theirs = both(f"conv{n}d")
    for groups, stride, padding, dilation in itertools.product(
        (1, 2), (1, 2), (0, 1, "same"), (1, 2)
    ):
        if padding == "same" and stride != 1:
            continue
        x = torch.randn(2, 4, *(7, 6, 5)[:n], dtype=torch.double, requires_grad=True)
        w = torch.randn(6, 4 // groups, *(3, 2, 2)[:n], dtype=torch.double, requires_grad=True)
        b = torch.randn(6, dtype=torch.double)
        y = theirs(x, w, b, stride, padding, dilation, groups)
        g = torch.randn_like(y)
        a, v = ours(x).requires_grad_(), ours(w).requires_grad_()
        z = mine(a, v, ours(b), stride, padding, dilation, groups)
        check(z, y)
        expected = torch.autograd.grad(y, [x, w], g)
        for got, want in zip(ad.autograd.grad(z, [a, v], ours(g)), expected, strict=True):
            check(got, want)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling(n: int) -> None:
    torch.manual_seed(0)
    mine, theirs = both(f"max_pool{n}d")
    x = torch.randn(2, 3, *(9, 8, 7)[:n], dtype=torch.double, requires_grad=True)
    for k, stride, padding, dilation, ceil in itertools.product(
        (2, 3), (None, 1, 2), (0, 1), (1, 2), (False, True)
    ):
        y, i = theirs(x, k, stride, padding, dilation, ceil, return_indices=True)
        a = ours(x).requires_grad_()
        z, j = mine(a, k, stride, padding, dilation, ceil, return_indices=True)
        check(z, y)
        check(j, i)
        g = torch.randn_like(y)
        check(ad.autograd.grad(z, a, ours(g))[0], torch.autograd.grad(y, x, g)[0])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dropout1d", (3, 4, 5)),
        ("dropout1d", (4, 5)),
        ("dropout2d", (3, 4, 5, 6)),
        ("dropout3d", (2, 3, 4, 5, 6)),
        ("alpha_dropout", (3, 4)),
        ("feature_alpha_dropout", (3, 4, 5)),
    ],
)
def test_dropouts_draw_the_same_masks(name: str, shape: tuple[int, ...]) -> None:
    mine, theirs = both(name)
    x = torch.randn(*shape)
    for p in (0.3, 0.5, 1.0):
        torch.manual_seed(3)
        ad.manual_seed(3)
        check(mine(ours(x), p, True), theirs(x, p, True))


def test_layers_draw_the_same_weights() -> None:
    torch.manual_seed(1)
    ad.manual_seed(1)
    theirs, mine = torch.nn.Conv2d(3, 4, 3), ad.nn.Conv2d(3, 4, 3)
    np.testing.assert_array_equal(mine.weight.detach().numpy(), theirs.weight.detach().numpy())
    np.testing.assert_array_equal(mine.bias.detach().numpy(), theirs.bias.detach().numpy())
    assert repr(mine) == repr(theirs)
