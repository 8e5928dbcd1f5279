"""The derivative of an answer reads what the solver has read, whatever its names mean later."""

# ruff: noqa: B023  # that names in functions are bound anew is what this is about

import functools

import pytest

import adjoint as ad

held = ad.zeros((), dtype=ad.float64)
rate = 0.5


def number(x, requires_grad=False):
    return ad.tensor(x, dtype=ad.float64, requires_grad=requires_grad)


def expected(a):
    """The same steps, with the function given everything."""
    s = number(0.0)
    for k in range(3):
        s = ad.optimize.root(step, s, (s, a, k)).x
    return s


def step(x, s, a, k):
    return x + 0.1 * x**3 - s * a - (k + 1)


def by_cells(a):
    s = number(0.0)
    for k in range(3):
        s = ad.optimize.root(lambda x: x + 0.1 * x**3 - s * a - (k + 1), s).x
    return s


def by_a_helper(a):
    s = number(0.0)

    def right(k):
        return s * a + (k + 1)

    for k in range(3):
        s = ad.optimize.root(lambda x: x + 0.1 * x**3 - right(k), s).x
    return s


def by_partial(a):
    s = number(0.0)
    for k in range(3):
        s = ad.optimize.root(functools.partial(lambda a, x: step(x, s, a, k), a), s).x
    return s


def by_fixed_point(a):
    s = number(0.0)
    for k in range(3):
        s = ad.optimize.fixed_point(lambda x: s * a + (k + 1) - 0.1 * x**3, s, method="newton")
    return s


def by_minimum(a):
    s = number(0.0)
    for k in range(3):
        s = ad.optimize.minimize(
            lambda x: x**2 / 2 + 0.025 * x**4 - (s * a + (k + 1)) * x, s.detach()
        ).x
    return s


def of_global(x):
    return x + 0.1 * x**3 - held * slope() - count - 1


def slope():
    return given


def by_globals(a):
    global held, given, count
    held, given = number(0.0), a
    for count in range(3):  # noqa: B007  # which `of_global` reads
        held = ad.optimize.root(of_global, held).x
    found, held, given = held, number(7.0), number(7.0)
    return found


@pytest.mark.parametrize(
    "way", [by_cells, by_a_helper, by_partial, by_fixed_point, by_minimum, by_globals]
)
def test_names_that_are_bound_anew_after_a_solve_change_no_derivative(way):
    a, b = number(0.5, True), number(0.5, True)
    (found,) = ad.autograd.grad(way(a), a, create_graph=True)
    (wanted,) = ad.autograd.grad(expected(b), b, create_graph=True)
    ad.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
    second, reference = ad.autograd.grad(found, a)[0], ad.autograd.grad(wanted, b)[0]
    ad.testing.assert_close(second, reference, rtol=1e-9, atol=0)


def test_an_attribute_that_was_changed_since_is_an_error_and_no_wrong_derivative():
    class Model:
        level = 1.0

        def residual(self, x, a):
            return x**3 + x - a * self.level

    model, a = Model(), number(2.0, True)
    x = ad.optimize.root(model.residual, 1.0, a).x
    model.level = 2.0
    with pytest.raises(RuntimeError, match=r"gives something else now(.|\n)*args="):
        x.backward()


def test_functions_that_count_their_calls_go_on_counting():
    calls = 0

    def residual(x):
        nonlocal calls
        calls += 1
        return x * x - a

    a = number(2.0, True)
    x = ad.optimize.root(residual, 1.0).x
    before = calls
    x.backward()
    assert calls > before
    ad.testing.assert_close(a.grad, number(0.5 / 2**0.5))
