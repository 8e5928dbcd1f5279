"""More axes than a tensor keeps in its header: what changes shapes in place works for them too."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

SEVEN = (2, 1, 3, 1, 2, 1, 2)


def seven() -> Any:
    return ad.arange(24.0).reshape(SEVEN)


def test_out_grows_to_many_axes_and_shrinks_again() -> None:
    x, out = seven(), ad.empty(0)
    assert ad.exp(x, out=out) is out and out.shape == SEVEN and out.equal(x.exp())
    ad.exp(x[0], out=out.resize_(0))
    assert out.shape == SEVEN[1:] and out.equal(x[0].exp())
    ad.exp(x.reshape(1, 1, *SEVEN), out=out.resize_(0))
    assert out.shape == (1, 1, *SEVEN) and out.sum() == x.exp().sum()


def test_shapes_change_in_place() -> None:
    x = seven()
    assert x.squeeze_(1).shape == (2, 3, 1, 2, 1, 2)
    assert x.unsqueeze_(0).unsqueeze_(-1).shape == (1, 2, 3, 1, 2, 1, 2, 1)
    x.transpose_(1, 2)
    assert x.shape == (1, 3, 2, 1, 2, 1, 2, 1) and not x.is_contiguous()
    assert x.equal(seven().reshape(1, 2, 3, 1, 2, 1, 2, 1).transpose(1, 2))
    y = ad.arange(2.0).resize_((1,) * 7)
    assert y.shape == (1,) * 7 and y.item() == 0.0


def test_histories_follow() -> None:
    leaf = seven().requires_grad_()
    y = leaf * 2
    y.squeeze_(1).transpose_(0, 5)
    (y * y).sum().backward()
    assert leaf.grad is not None and leaf.grad.equal(8 * leaf.detach())


@pytest.mark.parametrize("shapes", [((2,), SEVEN), (SEVEN, (2,)), (SEVEN, SEVEN[::-1])])
def test_data_of_another_number_of_axes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, new = ad.zeros(shapes[0]), ad.ones(shapes[1])
    x.data = new
    assert x.shape == shapes[1] and x.equal(new) and new.shape == shapes[1]


def test_new_places_lie_in_memory_as_results_do() -> None:
    x = ad.ones(2, 3, 4).permute(2, 0, 1)
    assert ad.exp(x, out=ad.empty(0)).stride() == x.exp().stride() == (1, 12, 4)
    assert ad.add(x, x, out=ad.empty(0, 5)).stride() == (1, 12, 4)
    assert ad.exp(x, out=ad.zeros(4, 2, 3)).stride() == (6, 3, 1)
    spread = ad.ones(3, 1).expand(3, 4)
    assert ad.exp(spread, out=ad.empty(0)).is_contiguous()
