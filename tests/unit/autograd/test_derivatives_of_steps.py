"""Ops that look like steps or counts: a derivative where there is one, an error where not."""

from __future__ import annotations

import pytest

import adjoint as ad


def leaf(*values):
    return ad.tensor(values, requires_grad=True)


def test_the_weights_of_bincount_have_a_derivative():
    at, w = ad.tensor([1, 0, 1], dtype=ad.int32), leaf(1.0, 2.0, 3.0)
    ad.bincount(at, w, minlength=4).backward(ad.tensor([5.0, 7.0, 9.0, 11.0]))
    assert w.grad.tolist() == [7, 5, 7]
    w64 = w.detach().double().requires_grad_()
    assert ad.autograd.gradcheck(lambda w: ad.bincount(at, w), (w64,), check_forward_ad=True)


def test_heaviside_passes_the_gradient_on_at_zero_alone():
    x, v = leaf(-1.0, 0.0, 2.0), leaf(5.0, 6.0, 7.0)
    ad.heaviside(x, v).backward(ad.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [0, 0, 0]
    assert v.grad.tolist() == [0, 2, 0]


def test_nextafter_moves_along():
    x, y = leaf(1.0, 2.0, 3.0), leaf(1.0, 5.0, 0.0)
    ad.nextafter(x, y).backward(ad.tensor([2.0, 3.0, 4.0]))
    assert x.grad.tolist() == [0, 3, 4]
    assert y.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("op", [ad.unique, ad.unique_consecutive])
def test_unique_says_in_backward_that_it_has_none(op):
    x = leaf(1.0, 2.0, 2.0)
    values, inverse = op(x, return_inverse=True)
    assert values.requires_grad
    assert not inverse.requires_grad
    with pytest.raises(NotImplementedError, match="the derivative for '_unique2' or"):
        (values.sum() + x.sum()).backward()
    with pytest.raises(NotImplementedError, match="the derivative for '_unique2' or"):
        ad.func.jvp(op, (x.detach(),), (ad.ones(3),))
    assert not op(x.detach()).requires_grad
    assert not op(ad.tensor([1, 2])).requires_grad
