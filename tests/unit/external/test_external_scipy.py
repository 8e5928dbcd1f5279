"""Functions of tensors that SciPy's solvers call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")


@dataclass
class Valley:
    x: ad.Tensor
    y: ad.Tensor
    name: str = "valley"


def double(value: Any) -> ad.Tensor:
    return ad.tensor(value, dtype=ad.float64)


def rosenbrock(p: Valley) -> ad.Tensor:
    return ((1 - p.x) ** 2 + 100 * (p.y - p.x**2) ** 2).sum()


def start() -> Valley:
    return Valley(double([-1.0, 0.5]), double([2.0, 1.5]))


@pytest.mark.parametrize("method", ["BFGS", "Newton-CG", "trust-exact", "trust-krylov"])
def test_minimize_with_gradients_and_hessians_of_a_composite(method: str) -> None:
    f = ad.scipy_callback(rosenbrock, start())
    second = {"Newton-CG": {"hessp": f.hessp}, "trust-krylov": {"hessp": f.hessp}}
    more = {} if method == "BFGS" else second.get(method, {"hess": f.hess})
    found = optimize.minimize(f.fun, f.x0, jac=f.jac, method=method, tol=1e-8, **more)
    best = f.unpack(found.x)
    assert isinstance(best, Valley) and best.name == "valley"
    np.testing.assert_allclose(best.x, [1.0, 1.0], atol=1e-5)
    np.testing.assert_allclose(best.y, [1.0, 1.0], atol=1e-5)
    both = optimize.minimize(f.fun_and_jac, f.x0, jac=True, method="BFGS")
    np.testing.assert_allclose(both.x, np.ones(4), atol=1e-4)


def test_derivatives_against_formulas() -> None:
    f = ad.scipy_callback(
        lambda p: (p["a"] ** 3).sum() * p["b"], {"a": double([1.0, 2.0]), "b": double(3.0)}
    )
    assert f.x0.tolist() == [1.0, 2.0, 3.0]
    x = np.array([2.0, 1.0, 0.5])
    assert f.fun(x) == 4.5
    assert f.jac(x).tolist() == [6.0, 1.5, 9.0]
    hessian = [[6.0, 0.0, 12.0], [0.0, 3.0, 3.0], [12.0, 3.0, 0.0]]
    assert f.hess(x).tolist() == hessian
    assert (
        f.hessp(x, np.array([1.0, -1.0, 2.0])).tolist() == (hessian @ np.array([1, -1, 2])).tolist()
    )


def test_least_squares_and_root() -> None:
    t = ad.linspace(0, 1, 7, dtype=ad.float64)
    y = 2 * ad.exp(-3 * t)

    def residuals(p: Any, shift: float) -> Any:
        return p[0] * ad.exp(-p[1] * t) - y + shift

    f = ad.scipy_callback(residuals, double([1.0, 1.0]), 0.0)
    found = optimize.least_squares(f.fun, f.x0, jac=f.jac)
    np.testing.assert_allclose(found.x, [2.0, 3.0], rtol=1e-8)
    shifted = optimize.least_squares(f.fun, f.x0, jac=f.jac, args=(0.1,))
    assert shifted.cost > 1e-4
    g = ad.scipy_callback(lambda z: (z[0] ** 2 + z[1] - 3, z[0] - z[1] + 1), double([1.0, 1.0]))
    assert g.jac(np.array([1.0, 0.0])).tolist() == [[2.0, 1.0], [1.0, -1.0]]
    solved = optimize.root(g.fun, g.x0, jac=g.jac)
    np.testing.assert_allclose(g.fun(solved.x), 0, atol=1e-10)


def test_an_implicit_solver_of_differential_equations() -> None:
    def slope(t: float, state: Any) -> Any:
        return {"u": -1000 * (state["u"] - np.cos(t)), "v": -state["v"]}

    f = ad.scipy_callback(slope, 0.0, {"u": double(0.0), "v": double([1.0, 2.0])}, argnum=1)
    found = integrate.solve_ivp(f.fun, (0, 1), f.x0, method="BDF", jac=f.jac, rtol=1e-8, atol=1e-10)
    end = f.unpack(found.y[:, -1])
    np.testing.assert_allclose(end["v"], np.exp(-1) * np.array([1.0, 2.0]), rtol=1e-6)
    np.testing.assert_allclose(end["u"], np.cos(1), rtol=1e-2)


def test_a_value_and_its_derivatives_share_one_evaluation() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return (x**2).sum()

    g = ad.scipy_callback(f, double([1.0, 2.0]))
    x = np.array([1.0, 3.0])
    g.fun(x), g.jac(x), g.hess(x)
    assert len(calls) == 1
    x[0] = 2.0  # SciPy changes its vectors in place
    assert g.fun(x) == 13.0 and len(calls) == 2


def test_externals_inside_and_float32() -> None:
    e = ad.external(lambda x: np.cosh(x - 1))
    f = ad.scipy_callback(lambda x: e(x).sum(), np.zeros(3))
    found = optimize.minimize(f.fun, f.x0, jac=f.jac)
    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-5)
    single = ad.scipy_callback(lambda x: (x**2).sum(), ad.tensor([1.0, 2.0]))
    assert single.unpack(single.x0).dtype == ad.float32
    assert single.jac(single.x0).dtype == np.float64


def test_what_cannot_be_given_is_told() -> None:
    with pytest.raises(TypeError, match="no floating tensor"):
        ad.scipy_callback(lambda x: x, ad.tensor([1, 2]))
    with pytest.raises(TypeError, match="complex"):
        ad.scipy_callback(lambda x: x, {"z": ad.tensor([1j])})
    with pytest.raises(ValueError, match="argnum=1"):
        ad.scipy_callback(lambda x: x, double([1.0]), argnum=1)
    f = ad.scipy_callback(lambda x: x * 2, double([1.0, 2.0]))
    with pytest.raises(ValueError, match="2 numbers is needed, got 3"):
        f.fun(np.zeros(3))
    with pytest.raises(ValueError, match="only a function of one number"):
        f.hess(np.zeros(2))
    with pytest.raises(TypeError, match="SciPy gave 2"):
        f.fun(np.zeros(2), 1)
    with pytest.raises(TypeError, match="needs a function, got int"):
        ad.scipy_callback(3, double([1.0]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="given a point and a vector"):
        f.hessp(np.zeros(2))
    with pytest.raises(TypeError, match="must return a tensor"):
        ad.scipy_callback(lambda x: 1.0, double([1.0])).fun(np.ones(1))
    with pytest.raises(ValueError, match="another composite"):
        f.pack(double([1.0]))
    constant = ad.scipy_callback(lambda x: double(2.0), double([1.0, 2.0]))
    assert constant.jac(np.ones(2)).tolist() == [0.0, 0.0]
