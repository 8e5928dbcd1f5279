"""The least value, the residuals and the cost are differentiable, as the answer is.

A constant in their place has a gradient of zero, which nothing tells from a true one.
"""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint import optimize

DOUBLE = {"dtype": ad.float64}


def zeros(n):
    return ad.zeros(n, **DOUBLE)


def free(a):
    return optimize.minimize(lambda x: ((x - a) ** 4).sum() + ad.exp(a * x[0]), zeros(2)).fun


def bounded(a):
    def fun(x):
        return ((x - a) ** 2).sum() + x[0] * x[1] * a

    return optimize.minimize(fun, zeros(2), bounds=[(0, a / 2), (None, None)]).fun


def constrained(a):
    def fun(x):
        return (x[0] - 1) ** 2 + (x[1] - 2.5) ** 2 * a

    under = {"type": "ineq", "fun": lambda x: x[0] - 2 * x[1] * a + 2}
    return optimize.minimize(fun, ad.tensor([2.0, 0.0], **DOUBLE), constraints=under).fun


def one_unknown(a):
    return optimize.minimize_scalar(lambda x: (x - a) ** 4 + x * x * a).fun


def residuals(a):
    return lambda p: ad.stack([p[0] - a, p[1] * p[0] - 2, p[1] - a**2])


def cost(a):
    return optimize.least_squares(residuals(a), [0.5, 0.5], loss="cauchy").cost


def residual(a):
    return optimize.least_squares(residuals(a), [0.5, 0.5]).fun[1]


def linear_cost(a):
    one = ad.ones_like(a)
    A = ad.stack([ad.stack([a, one]), ad.stack([2 * one, a**2]), ad.stack([one, a])])
    return optimize.lsq_linear(A, ad.tensor([1.0, 2.0, 3.0], **DOUBLE)).cost


@pytest.mark.parametrize(
    "value", [free, bounded, constrained, one_unknown, cost, residual, linear_cost]
)
def test_values_at_the_answer_are_differentiable(value):
    a, h = ad.tensor(1.3, **DOUBLE), 1e-3

    def at(k):
        return value(a + k * h).item()

    first = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    second = (-at(2) + 16 * at(1) - 30 * at(0) + 16 * at(-1) - at(-2)) / (12 * h * h)
    slope = ad.func.grad(value)
    x = a.clone().requires_grad_()
    firsts = [
        ad.autograd.grad(value(x), x)[0],
        slope(a),
        ad.func.jvp(value, (a,), (ad.ones_like(a),))[1],
        ad.vmap(slope)(ad.stack([a, a]))[1],
        ad.compile(slope)(a),
    ]
    seconds = [
        ad.func.grad(slope)(a),
        ad.func.jvp(slope, (a,), (ad.ones_like(a),))[1],
        ad.func.hessian(value)(a),
    ]
    for found in firsts:
        assert abs(found.item() - first) < 1e-8 * max(abs(first), 1)
    for found in seconds:
        assert abs(found.item() - second) < 1e-5 * max(abs(second), 1)
