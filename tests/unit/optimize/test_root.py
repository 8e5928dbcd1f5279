"""``root``, ``fixed_point`` and ``implicit``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint.func import grad, jacrev, vmap
from adjoint.optimize import ConvergenceError, fixed_point, implicit, least_squares, root

from .derivatives import check_answer

DOUBLE = {"dtype": ad.float64}


def pair(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return ad.stack([x[0] ** 2 + x[1] - t[0], x[1] ** 3 + x[0] * t[1] - 2])


@pytest.mark.parametrize("method", ["newton", "broyden", "anderson"])
def test_derivatives_by_own_methods(method: str) -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        return root(pair, ad.ones(2, **DOUBLE), args=(t,), method=method).x

    check_answer(solve, ad.tensor([2.0, 1.2], **DOUBLE))


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov", "broyden1", "df-sane"])
def test_methods_of_scipy(method: str) -> None:
    pytest.importorskip("scipy")
    at = ad.tensor([2.0, 1.2], **DOUBLE)

    def solve(t: ad.Tensor, by: str) -> ad.Tensor:
        return root(pair, ad.ones(2, **DOUBLE), args=t, method=by).x

    assert (solve(at, method) - solve(at, "newton")).abs().max() < 1e-5
    wanted = jacrev(solve)(at, "newton")
    assert (jacrev(solve)(at, method) - wanted).abs().max() < 1e-4


def test_tensors_of_the_closure_get_gradients() -> None:
    layer = ad.nn.Linear(3, 3).double()
    raw = ad.zeros(3, **DOUBLE, requires_grad=True)
    scale = ad.nn.functional.softplus(raw)
    z = root(lambda z: z - 0.3 * ad.tanh(layer(z)) * scale - 1, ad.zeros(3, **DOUBLE)).x
    z.sum().backward()

    def by_hand(weight: ad.Tensor, bias: ad.Tensor, raw: ad.Tensor) -> ad.Tensor:
        x = ad.zeros(3, **DOUBLE)
        for _ in range(60):  # a contraction: differentiated through its steps
            x = 0.3 * ad.tanh(x @ weight.mT + bias) * ad.nn.functional.softplus(raw) + 1
        return x.sum()

    given = layer.weight.detach(), layer.bias.detach(), raw.detach()
    wanted = ad.func.grad(by_hand, argnums=(0, 1, 2))(*given)
    for tensor, gradient in zip((layer.weight, layer.bias, raw), wanted, strict=True):
        ad.testing.assert_close(tensor.grad, gradient, rtol=1e-9, atol=1e-11)


def test_what_is_read_may_depend_on_something_else_that_is_read() -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        square = t * t
        first = root(lambda x: x**3 + x - square - t, ad.ones(2, **DOUBLE)).x
        return root(lambda x: x**3 + first * x - square - t, ad.ones(2, **DOUBLE)).x

    check_answer(solve, ad.tensor([0.9, 0.7], **DOUBLE))


class State(NamedTuple):
    a: ad.Tensor
    b: ad.Tensor


def test_structures_and_complex_numbers() -> None:
    k = ad.tensor(2.0, **DOUBLE, requires_grad=True)

    def fun(s: State) -> dict[str, ad.Tensor]:
        return {"one": s.a**2 - 4 * k, "two": s.b - s.a.sum()}

    found = root(fun, State(ad.ones(3, **DOUBLE), ad.zeros((), **DOUBLE)))
    assert isinstance(found.x, State) and found.success and found.nit > 0
    found.x.b.backward()
    assert math.isclose(float(k.grad), 3 / math.sqrt(float(k)), rel_tol=1e-12)
    z = root(lambda z: z**3 - 1, ad.tensor([1j], dtype=ad.complex128)).x
    assert abs(complex(z[0]) - complex(-0.5, math.sqrt(0.75))) < 1e-12


def test_numbers_are_float64_and_the_start_has_no_gradient() -> None:
    start = ad.tensor([1.0], **DOUBLE, requires_grad=True)
    assert root(lambda x: x**2 - 2, 1).x.dtype == ad.float64
    assert not root(lambda x: x**2 - 2, start).x.requires_grad


def test_badly_scaled_equations() -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        def fun(x: ad.Tensor) -> ad.Tensor:
            return ad.stack([1e6 * (x[0] - t[0]), 1e-6 * (x[1] ** 2 - 1e8 * t[1])])

        return root(fun, ad.tensor([0.0, 1e4], **DOUBLE)).x

    at = ad.tensor([1e-3, 2.0], **DOUBLE)
    wanted = ad.diag(ad.tensor([1.0, 1e4 / (2 * math.sqrt(2.0))], **DOUBLE))
    ad.testing.assert_close(jacrev(solve)(at), wanted, rtol=1e-10, atol=1e-12)


def test_third_derivative() -> None:
    def solve(a: ad.Tensor) -> ad.Tensor:
        return root(lambda x: x * x - a, 1.0).x

    at = ad.tensor(2.0, **DOUBLE)
    wanted = 3 / 8 * 2.0**-2.5
    assert math.isclose(float(grad(grad(grad(solve)))(at)), wanted, rel_tol=1e-10)
    batched = vmap(grad(grad(grad(solve))))(at.expand(2))
    ad.testing.assert_close(batched, ad.full((2,), wanted, **DOUBLE), rtol=1e-10, atol=0)


def no_root(x: ad.Tensor) -> ad.Tensor:
    return x * x + 1


def flat(x: ad.Tensor) -> ad.Tensor:
    return 0 * x + 1


def not_a_number(x: ad.Tensor) -> ad.Tensor:
    return ad.log(-x.abs())


@pytest.mark.parametrize(
    ("fun", "reason"),
    [(no_root, "found no answer"), (flat, "singular"), (not_a_number, "not finite")],
)
def test_no_answer(fun: Any, reason: str) -> None:
    with pytest.raises(ConvergenceError, match=reason) as caught:
        root(fun, 1.0)
    assert not caught.value.result.success and "x = [" in str(caught.value)
    with pytest.raises(ConvergenceError, match=f"(?s){reason}.*samples of vmap|samples of vmap"):
        vmap(lambda t: root(lambda x: fun(x) * t, 1.0).x)(ad.ones(2, **DOUBLE))


def test_an_answer_without_derivative() -> None:
    a = ad.tensor(0.0, **DOUBLE, requires_grad=True)
    x = root(lambda x: x**3 - a, 0.0).x  # at once, where the slope is zero
    with pytest.raises(ad.linalg.LinAlgError, match=r"no derivative.*multiple root"):
        x.backward()


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="2 elements where x0 has 3"):
        root(lambda x: x[:2], ad.zeros(3))
    with pytest.raises(ValueError, match="no method 'secant'"):
        root(no_root, 1.0, method="secant")
    with pytest.raises(TypeError, match="no floating-point numbers"):
        root(no_root, ad.tensor([1, 2]))
    with pytest.raises(TypeError, match="no option 'maxit'"):
        root(no_root, 1.0, options={"maxit": 3})


@pytest.mark.parametrize("method", ["anderson", "newton", "broyden"])
def test_fixed_point(method: str) -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        return fixed_point(lambda x: ad.cos(t * x), ad.ones(2, **DOUBLE), method=method)

    check_answer(solve, ad.tensor([0.9, 0.7], **DOUBLE), second=1e-5)


def test_a_solver_of_ones_own() -> None:
    calls = []

    @implicit(lambda x, a: x**2 - a)
    def square_root(a: ad.Tensor) -> ad.Tensor:
        calls.append(a.requires_grad)
        return ad.from_numpy(a.numpy() ** 0.5)

    a = ad.tensor([4.0, 9.0], **DOUBLE, requires_grad=True)
    (g,) = ad.autograd.grad(square_root(a).sum(), a, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), a)
    assert calls == [False]
    ad.testing.assert_close(g.detach(), ad.tensor([1 / 4, 1 / 6], **DOUBLE))
    ad.testing.assert_close(h, ad.tensor([-1 / 32, -1 / 108], **DOUBLE))

    @implicit(lambda x, a: x**2 - a)
    def wrong(a: ad.Tensor) -> ad.Tensor:
        return a.detach() / 2

    with pytest.raises(ConvergenceError, match=r"wrong.*does not solve the equation"):
        wrong(a)


def test_equations_of_very_different_sizes_are_solved() -> None:
    generator = ad.Generator().manual_seed(0)
    for _ in range(40):
        weights, b, sizes = (ad.randn(n, generator=generator, **DOUBLE) for n in ((4, 4), 4, 4))
        scale = 10 ** (4 * sizes)

        def residual(x: ad.Tensor) -> ad.Tensor:
            return x**3 + 2 * x + 0.3 * ad.tanh(weights @ x) - 3 * b  # noqa: B023

        found = root(lambda x: scale * residual(x), ad.zeros(4, **DOUBLE))  # noqa: B023
        assert residual(found.x).abs().max() < 1e-9
        # Factors that serve twice: a dozen steps of Newton's method would be many.
        assert found.nit <= 12


def test_a_method_may_be_one_of_scipys_functions() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    a = ad.tensor(2.0, **DOUBLE, requires_grad=True)
    for method in (optimize.root, optimize.fsolve):
        x = root(lambda x: x * x - a, [1.0], method=lambda *given, m=method: m(*given)).x
        (slope,) = ad.autograd.grad(x[0], a)
        assert slope.item() == pytest.approx(0.5 / math.sqrt(2))
    with pytest.raises(ConvergenceError, match="the method that was given found no answer"):
        root(lambda x: x * x + 1, [1.0], method=optimize.root)
    with pytest.raises(ConvergenceError, match="OverflowError"):
        root(lambda x: x - 2 + 0.3 * x.sin().flip(0), [-1.2, 1.0], method="excitingmixing")


def test_numbers_count_beside_tensors() -> None:
    a = ad.tensor(3.0, **DOUBLE, requires_grad=True)
    x = root(lambda x: [x[0] - a, x[1] * x[0] - 6], [a.detach() + 1, 1.0]).x
    (slope,) = ad.autograd.grad(x[1], a)
    assert x[1].item() == pytest.approx(2) and slope.item() == pytest.approx(-2 / 3)
    with pytest.raises(ConvergenceError, match="singular"):
        root(lambda x: [x[0] - 1, 3.0], [1.0, 1.0])


def test_functions_that_read_plain_numbers_are_refused() -> None:
    for solve in (root, least_squares):
        with pytest.raises(TypeError, match="does not depend on x, as far as derivatives can tell"):
            solve(lambda x: [float(x[0]) - 1, x[1].item() - 2], [3.0, 3.0])
    assert least_squares(lambda x: x**2, [0.0]).success  # stationary, but it is read


MULTIPLE = {
    "double": (lambda x, k: (x - 1) ** 2 - k, 3.0),
    "triple": (lambda x, k: (x - 1) ** 3 - k, 3.0),
    "beside another": (
        lambda x, k: ad.stack([(x[0] - 1) ** 2 - k, x[1] - 2.7]),
        ad.tensor([3.0, 0.0], dtype=ad.float64),
    ),
}


@pytest.mark.parametrize("method", ["newton", "lm", "broyden", "anderson"])
@pytest.mark.parametrize("name", MULTIPLE)
def test_a_root_that_is_nearly_found_as_a_multiple_one_has_no_derivative(name, method):
    fun, start = MULTIPLE[name]
    k = ad.tensor(0.0, dtype=ad.float64, requires_grad=True)
    found = ad.optimize.root(fun, start, args=(k,), method=method)
    with pytest.raises(ad.linalg.LinAlgError, match="multiple root"):
        found.x.sum().backward()


def test_simple_roots_of_any_scale_are_no_multiple_ones():
    for scale in (1e-12, 1e-3, 1.0, 1e6):
        k = ad.tensor(2.0 * scale, dtype=ad.float64, requires_grad=True)
        for method in ("newton", "hybr", "lm"):
            found = ad.optimize.root(
                lambda x, k: (x / k) ** 3 - 8, 1.5 * scale, args=(k,), method=method
            )
            (g,) = ad.autograd.grad(found.x, k)
            assert abs(g.item() - 2) < 1e-8
