"""Integrals of samples, beside SciPy's, and of functions, beside exact ones."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, vmap
from adjoint.integrate import cumulative_simpson, cumulative_trapezoid, quad, simpson, trapezoid
from adjoint.optimize import ConvergenceError

DOUBLE = {"dtype": ad.float64}


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9])
@pytest.mark.parametrize("spaced", [False, True])
def test_samples(n: int, spaced: bool) -> None:
    scipy = pytest.importorskip("scipy.integrate")
    rng = np.random.default_rng(n)
    y = rng.random((3, n))
    places = {"x": np.sort(rng.random(n))} if spaced else {"dx": 0.3}
    ours = {k: ad.from_numpy(v) if spaced else v for k, v in places.items()}
    for name, options in (
        ("trapezoid", {}),
        ("simpson", {}),
        ("cumulative_trapezoid", {"initial": 0}),
        ("cumulative_simpson", {"initial": 0}),
    ):
        wanted = getattr(scipy, name)(y, **places, **options)
        got = getattr(ad.integrate, name)(ad.from_numpy(y), **ours, **options)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-13, atol=1e-15)


def test_derivatives_and_axes_of_samples() -> None:
    y = ad.rand(4, 5, **DOUBLE)
    x = ad.tensor([0.0, 0.3, 0.5, 1.0], **DOUBLE)
    for f in (trapezoid, simpson, cumulative_trapezoid, cumulative_simpson):
        along = functools.partial(f, axis=0)
        assert ad.autograd.gradcheck(along, (y.requires_grad_(), x.requires_grad_()))


def test_polynomials_are_exact() -> None:
    for k in range(23):
        value, _ = quad(ad.pow, 0.0, 1.0, args=k, epsabs=1e-2)
        assert math.isclose(float(value), 1 / (k + 1), rel_tol=1e-14)


def test_infinite_ends_and_derivatives() -> None:
    def bell(k: ad.Tensor) -> ad.Tensor:
        return quad(lambda x: ad.exp(-k * x * x), -math.inf, math.inf)[0]

    k = ad.tensor(2.0, **DOUBLE)
    assert math.isclose(float(bell(k)), math.sqrt(math.pi / 2), rel_tol=1e-9)
    assert math.isclose(float(grad(bell)(k)), -0.5 * math.sqrt(math.pi) * 2**-1.5, rel_tol=1e-9)
    second = 0.75 * math.sqrt(math.pi) * 2**-2.5
    assert math.isclose(float(grad(grad(bell))(k)), second, rel_tol=1e-8)
    half, _ = quad(lambda x: 1 / (1 + x * x), 0, math.inf)
    assert math.isclose(float(half), math.pi / 2, rel_tol=1e-9)
    left, _ = quad(ad.exp, -math.inf, 1.0)
    assert math.isclose(float(left), math.e, rel_tol=1e-9)


def test_ends_have_derivatives() -> None:
    def area(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        return quad(lambda x: x**2, a, b)[0]

    ends = ad.tensor(0.5, **DOUBLE), ad.tensor(1.5, **DOUBLE)
    slopes = grad(area, argnums=(0, 1))(*ends)
    assert [round(float(s), 12) for s in slopes] == [-0.25, 2.25]
    assert math.isclose(float(area(*ends[::-1])), -float(area(*ends)), rel_tol=1e-15)


def test_functions_of_several_values_and_samples() -> None:
    value, error = quad(lambda x: ad.stack([ad.sin(x), ad.cos(50 * x)]), 0, math.pi)
    ad.testing.assert_close(value, ad.tensor([2.0, 0.0], **DOUBLE), rtol=1e-10, atol=1e-10)
    assert error < 1e-7
    k = ad.tensor([1.0, 2.0], **DOUBLE)
    many = vmap(lambda k: quad(lambda x: ad.exp(-k * x), 0, 1)[0])(k)
    ad.testing.assert_close(many, (1 - ad.exp(-k)) / k)


def test_points_where_a_function_jumps() -> None:
    def jumps(x: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        return ad.where(x < at.detach(), 1.0, 3.0) * ad.exp(x)

    def area(at: ad.Tensor, begin: float = 0.0, end: float = 1.0) -> ad.Tensor:
        return quad(lambda x: jumps(x, at), begin, end, points=at)[0]

    at = ad.tensor(0.3, **DOUBLE)
    exact = 3 * math.e - 1 - 2 * math.exp(0.3)
    for value in (area(at), -area(at, 1.0, 0.0), ad.compile(area)(at)):
        assert abs(value.item() - exact) < 1e-13
    # The jump moves; the second derivative is that of its height there.
    for derivative in (grad(area), grad(grad(area)), ad.compile(grad(area))):
        assert abs(derivative(at).item() + 2 * math.exp(0.3)) < 1e-12
    rows = ad.tensor([0.3, 0.6], **DOUBLE)
    wanted = ad.stack([grad(area)(at) for at in rows])
    ad.testing.assert_close(vmap(grad(area))(rows), wanted)
    # In any order, twice, or beyond the ends.
    kinks = quad(lambda x: (x - 0.5).abs() + (x - 0.2).abs(), 0, 1, points=[0.5, 0.2, 7, 0.5])
    assert abs(kinks[0].item() - 0.59) < 1e-15 and kinks[1] < 1e-15
    with pytest.raises(ValueError, match="points are for finite ends"):
        quad(ad.sin, 0, math.inf, points=[1.0])
    with pytest.raises(ValueError, match="a point is NaN"):
        quad(ad.sin, 0, 1, points=[math.nan])
    with pytest.raises(ValueError, match="make more intervals than"):
        quad(ad.sin, 0, 1, points=[0.2, 0.4], limit=2)


def test_full_output_and_complex_functions() -> None:
    def full(b: ad.Tensor) -> tuple[ad.Tensor, ...]:
        value, _, info = quad(ad.sqrt, 0.0, b, full_output=True, limit=40)
        return value, *(ad.as_tensor(info[k]) for k in ("rlist", "elist", "alist", "last", "neval"))

    b = ad.tensor(1.0, **DOUBLE)
    value, pieces, errors, left, last, neval = full(b)
    ad.testing.assert_close(pieces.sum(), value)
    assert len(left) == 40 and (left[: int(last)].diff() > 0).all() and not left[int(last) :].any()
    assert errors.sum() < 1.49e-8 and neval == 15 * (2 * last - 1)
    for eager, recorded in zip(full(b), ad.compile(full)(b), strict=True):
        ad.testing.assert_close(recorded, eager)
    wave, error, info = quad(lambda x: ad.exp(1j * x), 0, 1, complex_func=True, full_output=1)
    assert abs(complex(wave) - (np.exp(1j) - 1) / 1j) < 1e-14 and error < 1e-14
    assert abs(complex(info["rlist"].sum()) - complex(wave)) < 1e-15
    with pytest.raises(NotImplementedError, match="multiply the function"):
        quad(ad.sin, 0, 1, weight="cos", wvar=3.0)


def test_no_integral() -> None:
    with pytest.raises(ConvergenceError, match="200 intervals were not enough"):
        quad(lambda x: 1 / x, 0, 1)


def test_integrals_are_parts_of_programs() -> None:
    def f(p: ad.Tensor) -> ad.Tensor:
        whole = quad(lambda x: ad.exp(-p[0] * x * x), -math.inf, math.inf)[0]
        return whole + quad(lambda x: ad.cos(p[1] * x), 0, p[0])[0]

    run, steep = ad.compile(f, fullgraph=True), ad.compile(ad.func.grad(f), fullgraph=True)
    many = ad.compile(ad.vmap(ad.func.grad(f)), fullgraph=True)
    for at in (ad.tensor([1.3, 0.7], **DOUBLE), ad.tensor([40.0, 9.0], **DOUBLE)):
        ad.testing.assert_close(run(at), f(at), rtol=1e-12, atol=0)
        ad.testing.assert_close(steep(at), ad.func.grad(f)(at), rtol=1e-10, atol=1e-12)
        ad.testing.assert_close(many(at[None])[0], steep(at), rtol=1e-8, atol=1e-10)
    assert len(run.programs) == 1
    with pytest.raises(ConvergenceError, match=r"not finite|not enough"):
        ad.compile(lambda p: quad(lambda x: 1 / (x - p), 0, 1)[0])(ad.tensor(0.3, **DOUBLE))


def test_samples_may_be_arrays_and_lists() -> None:
    y, x = np.array([1.0, 2.0, 4.0, 3.0]), [0, 1, 3, 4.5]
    scipy = pytest.importorskip("scipy.integrate")
    for name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"):
        ours, theirs = getattr(ad.integrate, name), getattr(scipy, name)
        np.testing.assert_allclose(ours(y, x=x).numpy(), theirs(y, x=x))
        np.testing.assert_allclose(ours(list(y), dx=0.5).numpy(), theirs(y, dx=0.5))
    assert quad(lambda x: 2.0, 0, 3)[0].item() == pytest.approx(6)
