"""A backward pass that writes over gradients writes only over those that nobody sees."""

from __future__ import annotations

import pytest

import adjoint as ad

CHAINS = {
    "mul": lambda x: x * 3 * x,
    "exp": lambda x: ad.exp(x) * 2,
    "neg": lambda x: -(-x * 2),
    "div": lambda x: 2 / x / 3,
    "pow": lambda x: x**3 * 2,
    "square": lambda x: ad.square(x) * 2,
    "sin": lambda x: ad.sin(x) * 2,
    "log": lambda x: ad.log(x) * 2,
    "sqrt": lambda x: ad.sqrt(x) * 2,
    "tanh": lambda x: ad.tanh(x) * 2,
    "sigmoid": lambda x: ad.sigmoid(x) * 2,
    "relu": lambda x: ad.relu(x) * 2,
}
SLOPES = {
    "mul": lambda x: 6 * x,
    "exp": lambda x: 2 * ad.exp(x),
    "neg": lambda x: 2 + 0 * x,
    "div": lambda x: -2 / (3 * x * x),
    "pow": lambda x: 6 * x * x,
    "square": lambda x: 4 * x,
    "sin": lambda x: 2 * ad.cos(x),
    "log": lambda x: 2 / x,
    "sqrt": lambda x: 1 / ad.sqrt(x),
    "tanh": lambda x: 2 * (1 - ad.tanh(x) ** 2),
    "sigmoid": lambda x: 2 * ad.sigmoid(x) * (1 - ad.sigmoid(x)),
    "relu": lambda x: 2 + 0 * x,
}


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("name", CHAINS)
def test_gradients_given_by_the_user_keep_their_values(name, size):
    x = (ad.arange(size, dtype=ad.float64) / size + 0.5).requires_grad_()
    given = ad.ones(size, dtype=ad.float64)
    y = CHAINS[name](x)
    y.backward(given)
    assert ad.equal(given, ad.ones(size, dtype=ad.float64))
    assert ad.allclose(x.grad, SLOPES[name](x.detach()))


@pytest.mark.parametrize("name", CHAINS)
def test_gradients_that_hooks_keep_are_not_written_over(name):
    x = ad.tensor([0.5, 1.5], dtype=ad.float64, requires_grad=True)
    kept = []
    y = CHAINS[name](x)
    y.register_hook(kept.append)
    y.backward(ad.ones(2, dtype=ad.float64) * 5)
    assert kept[0].tolist() == [5.0, 5.0]


def test_retained_and_captured_gradients_are_not_written_over():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    a = x * 2
    a.retain_grad()
    b = ad.exp(a) * 3
    b.sum().backward()
    expected = 3 * ad.exp(a.detach())
    assert ad.allclose(a.grad, expected)
    a2 = x * 2
    ga, gx = ad.autograd.grad((ad.exp(a2) * 3).sum(), (a2, x))
    assert ad.allclose(ga, expected)
    assert ad.allclose(gx, 2 * expected)


def test_the_same_gradient_sent_two_ways_is_not_written_over():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.tensor([3.0, 4.0], requires_grad=True)
    (x * 2 + y * 3).backward(ad.ones(2))  # add hands the same gradient to both products
    assert x.grad.tolist() == [2.0, 2.0]
    assert y.grad.tolist() == [3.0, 3.0]
