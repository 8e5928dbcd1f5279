"""``minimize`` and ``least_squares``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, hessian, jacfwd, jacrev, vmap
from adjoint.optimize import ConvergenceError, least_squares, linprog, milp, minimize

from .derivatives import check_answer

scipy_optimize = pytest.importorskip("scipy.optimize")

DOUBLE = {"dtype": ad.float64}


def rosenbrock(x: ad.Tensor, a: ad.Tensor) -> ad.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((a - x[:-1]) ** 2).sum()


def bowl(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return ((x - t) ** 2).sum() + x[0] * x[1]


@pytest.mark.parametrize(
    "method", [None, "CG", "L-BFGS-B", "Newton-CG", "trust-exact", "trust-krylov", "Nelder-Mead"]
)
def test_methods(method: str | None) -> None:
    def solve(a: ad.Tensor) -> ad.Tensor:
        return minimize(rosenbrock, ad.full((2,), 0.8, **DOUBLE), args=a, method=method).x

    thorough = method in (None, "trust-exact")
    check_answer(solve, ad.tensor([1.1], **DOUBLE), second=1e-5, thorough=thorough)


def test_bounds_hold_and_have_gradients() -> None:
    def by_target(t: ad.Tensor) -> ad.Tensor:
        return minimize(bowl, ad.zeros(2, **DOUBLE), args=t, bounds=[(0, 1), (None, 5)]).x

    check_answer(by_target, ad.tensor([3.0, 1.0], **DOUBLE))

    def by_bound(t: ad.Tensor) -> ad.Tensor:
        target = ad.full((2,), 3.0, **DOUBLE)
        return minimize(
            bowl, ad.zeros(2, **DOUBLE), args=target, bounds=[(0, t[0]), (None, t[1])]
        ).x

    check_answer(by_bound, ad.tensor([1.0, 5.0], **DOUBLE))
    found = minimize(bowl, ad.zeros(2, **DOUBLE), ad.tensor([3.0, 1.0], **DOUBLE), bounds=(0, 1))
    assert found.active.tolist() == [0]


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints(method: str) -> None:
    def on_circle(t: ad.Tensor) -> ad.Tensor:
        circle = {"type": "eq", "fun": lambda x: (x**2).sum() - t[0]}
        start = ad.ones(2, **DOUBLE)
        return minimize(bowl, start, args=t, constraints=circle, method=method).x

    thorough = method == "SLSQP"
    check_answer(on_circle, ad.tensor([3.0, 1.0], **DOUBLE), thorough=thorough)

    def below(t: ad.Tensor) -> ad.Tensor:
        held = {"type": "ineq", "fun": lambda x: 1 - x.sum() * t[1]}
        free = {"type": "ineq", "fun": lambda x: x[0] + 10}
        start = ad.full((2,), 0.1, **DOUBLE)
        return minimize(bowl, start, args=t, constraints=[held, free], method=method).x

    check_answer(below, ad.tensor([3.0, 1.0], **DOUBLE), second=1e-5, thorough=thorough)


def test_samples_that_are_held_by_different_bounds() -> None:
    targets = ad.tensor([[3.0, 1.0], [0.2, 0.3], [-2.0, 0.5]], **DOUBLE)

    def solve(t: ad.Tensor) -> ad.Tensor:
        return minimize(bowl, ad.full((2,), 0.5, **DOUBLE), args=t, bounds=(0, 1)).x

    def loss(t: ad.Tensor) -> ad.Tensor:
        return (solve(t) ** 2).sum()

    ad.testing.assert_close(vmap(solve)(targets), ad.stack([solve(t) for t in targets]))
    wanted = ad.stack([grad(loss)(t) for t in targets])
    ad.testing.assert_close(vmap(grad(loss))(targets), wanted)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG", "Nelder-Mead"])
def test_no_minimum(method: str) -> None:
    with warnings.catch_warnings(), pytest.raises(ConvergenceError, match="found no minimum"):
        warnings.simplefilter("ignore")
        options = {"maxiter": 100} if method != "Newton-CG" else None
        minimize(lambda x: -x.sum(), ad.zeros(2, **DOUBLE), method=method, options=options)


def valley(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return bowl(x, t) + (x**4).sum()


def with_slope(x: ad.Tensor, t: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    return valley(x, t), slope_of(x, t)


def slope_of(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return grad(valley)(x, t)


def unseen(x: ad.Tensor, t: ad.Tensor) -> float:
    return float(valley(x, t))


def bend_of(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return hessian(valley)(x, t)


def product_of(x: ad.Tensor, p: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    return bend_of(x, t) @ p


@pytest.mark.parametrize(
    ("fun", "given"),
    [
        (valley, {"jac": slope_of}),
        (valley, {"jac": lambda x, t: slope_of(x, t).detach().numpy()}),
        (with_slope, {"jac": True}),
        (valley, {"jac": "2-point"}),
        (valley, {"jac": "cs", "method": "SLSQP"}),
        (valley, {"jac": "3-point", "method": "trust-constr"}),
        (valley, {"hess": bend_of, "method": "trust-exact"}),
        (valley, {"hess": lambda x, t: bend_of(x, t).detach().numpy(), "method": "Newton-CG"}),
        (valley, {"hess": "2-point", "method": "trust-krylov"}),
        (valley, {"hess": scipy_optimize.BFGS(), "method": "trust-constr"}),
        (valley, {"jac": slope_of, "hessp": product_of, "method": "trust-ncg"}),
        (unseen, {"jac": slope_of}),
        (unseen, {"jac": slope_of, "bounds": (0, 1)}),
        (lambda x, t: (unseen(x, t), slope_of(x, t)), {"jac": True, "method": "CG"}),
    ],
)
def test_derivatives_that_are_given(fun: Any, given: dict[str, Any]) -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        return minimize(fun, ad.full((2,), 0.5, **DOUBLE), args=t, **given).x

    def wanted(t: ad.Tensor) -> ad.Tensor:
        bounds = given.get("bounds")
        return minimize(valley, ad.full((2,), 0.5, **DOUBLE), args=t, bounds=bounds).x

    t = ad.tensor([3.0, 1.0], **DOUBLE)
    ad.testing.assert_close(solve(t), wanted(t))
    ad.testing.assert_close(jacrev(solve)(t), jacrev(wanted)(t))
    ad.testing.assert_close(jacfwd(jacrev(solve))(t), jacfwd(jacrev(wanted))(t), atol=1e-6, rtol=0)


def test_derivatives_that_are_given_are_called() -> None:
    calls = {"fun": 0, "jac": 0, "hess": 0, "hessp": 0}

    def counted(name: str, function: Any) -> Any:
        def call(*given: Any) -> Any:
            calls[name] += 1
            return function(*given)

        return call

    t, start = ad.tensor([3.0, 1.0], **DOUBLE), ad.full((2,), 0.5, **DOUBLE)
    jac, hess = counted("jac", slope_of), counted("hess", bend_of)
    hessp = counted("hessp", product_of)
    minimize(valley, start, t, "trust-exact", jac=jac, hess=hess)
    assert calls["jac"] > 2 and calls["hess"] > 2
    minimize(valley, start, t, "trust-ncg", hess=hess, hessp=hessp)
    assert calls["hessp"] == 0  # as SciPy has it
    minimize(valley, start, t, "trust-ncg", hessp=hessp)
    assert calls["hessp"] > 2
    both = counted("fun", lambda x, t: (float(valley(x, t)), slope_of(x, t)))
    found = minimize(both, start, t, jac=True)
    assert calls["fun"] < 2 * found.nfev + 12  # a value and its gradient from one call


def test_given_derivatives_of_samples_and_in_programs() -> None:
    targets = ad.tensor([[3.0, 1.0], [0.2, 0.3]], **DOUBLE)
    for given in (
        {"jac": slope_of},
        {"jac": "2-point"},
        {"hess": bend_of, "method": "trust-exact"},
        {"hessp": product_of, "method": "trust-ncg"},
    ):

        def solve(t: ad.Tensor, given: Any = given) -> ad.Tensor:
            return minimize(valley, ad.full((2,), 0.5, **DOUBLE), args=t, **given).x

        each = ad.stack([solve(t) for t in targets])
        ad.testing.assert_close(vmap(solve)(targets), each)
        program = ad.compile(solve)
        assert program(targets[0]).tolist() == each[0].tolist()
        assert program(targets[1]).tolist() == each[1].tolist()
        assert not program.reasons


def test_wrong_derivatives_are_told() -> None:
    t, start = ad.tensor([3.0, 1.0], **DOUBLE), ad.full((2,), 0.5, **DOUBLE)
    with pytest.raises(ConvergenceError, match=r"jac is not the gradient of fun: at x0 it is off"):
        minimize(valley, start, t, jac=lambda x, t: -slope_of(x, t))
    with pytest.raises(TypeError, match="neither fun nor jac"):
        minimize(unseen, start, t, jac=lambda x, t: slope_of(x, t).detach().numpy())
    with pytest.raises(TypeError, match=r"a value and its gradient, \(f, g\)"):
        minimize(valley, start, t, jac=True)
    with pytest.raises(TypeError, match="jac is a function, True"):
        minimize(valley, start, t, jac="4-point")
    with pytest.raises(ValueError, match="takes no differences for a gradient"):
        minimize(valley, start, t, "trust-ncg", jac="2-point")
    with pytest.raises(ValueError, match="jac has 3 elements"):
        minimize(valley, start, t, jac=lambda x, t: ad.zeros(3))
    with pytest.raises(TypeError, match="hess is a function, one of"):
        minimize(valley, start, t, hess="whole")
    with pytest.raises(ValueError, match=r"hess has the shape \[3, 3\]"):
        minimize(valley, start, t, "trust-exact", hess=lambda x, t: ad.eye(3))
    with pytest.raises(TypeError, match="hessp is a function"):
        minimize(valley, start, t, hessp=3)
    with pytest.warns(RuntimeWarning, match="does not use gradient information"):
        minimize(valley, start, t, "Nelder-Mead", jac=slope_of)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="must give one number"):
        minimize(lambda x: x, ad.zeros(2))
    with pytest.raises(ValueError, match="3 bounds for 2 unknowns"):
        minimize(lambda x: (x**2).sum(), ad.zeros(2), bounds=[(0, 1)] * 3)
    for refused in (linprog, milp):
        with pytest.raises(NotImplementedError, match="fix:"):
            refused([1.0])


TIMES = ad.linspace(0, 2, 9, **DOUBLE)
DATA = 2 * ad.exp(-1.3 * TIMES) + 0.1 * ad.sin(20 * TIMES)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "dogbox"},
        {"loss": "soft_l1", "f_scale": 0.05},
        {"loss": "cauchy", "f_scale": 0.05},
        {"bounds": ([0, 0], [5, 1])},
        {"jac": "sparse"},
    ],
)
def test_fits(options: dict[str, Any]) -> None:
    def solve(t: ad.Tensor) -> ad.Tensor:
        def residuals(p: ad.Tensor) -> ad.Tensor:
            return p[0] * ad.exp(-p[1] * TIMES) - DATA * t[0] - t[1]

        return least_squares(residuals, [1.0, 0.5], **options).x

    thorough = not options or "bounds" in options
    check_answer(solve, ad.tensor([1.0, 0.1], **DOUBLE), second=1e-5, thorough=thorough)


def test_a_fit_that_is_exact_and_one_that_fails() -> None:
    fit = least_squares(lambda p: p - ad.tensor([1.0, 2.0], **DOUBLE), [0.0, 0.0], method="lm")
    assert fit.x.tolist() == [1.0, 2.0] and fit.cost == 0
    with pytest.raises(ConvergenceError, match="evaluations the cost is"):
        least_squares(lambda p: ad.exp(p) + 1e-3 * p, [3.0], max_nfev=2)


@pytest.mark.parametrize("method", ["trust-constr", "SLSQP"])
@pytest.mark.parametrize("radius", [1.0, 1.1, 1.3])
def test_methods_that_stay_inside_find_what_holds_the_answer(method: str, radius: float) -> None:
    r = ad.tensor(radius, dtype=ad.float64, requires_grad=True)
    at = ad.tensor([2.0, 1.0 + 2 * (radius - 1)], dtype=ad.float64)
    x = ad.optimize.minimize(
        lambda v: ((v - at) ** 2).sum(),
        ad.zeros(2, dtype=ad.float64),
        method=method,
        bounds=[(None, None), (None, r / 2)],
        constraints={"type": "ineq", "fun": lambda v: r**2 - v @ v},
    ).x
    # On the circle, and for the larger ones at the bound as well.
    assert float((x.detach() ** 2).sum()) == pytest.approx(radius**2, rel=1e-9)
    y = min(radius * float(at[1] / at.norm()), radius / 2)
    assert x[1].item() == pytest.approx(y, rel=1e-7)
    (slope,) = ad.autograd.grad(x.sum(), r)
    assert slope.item() == pytest.approx(float(x.detach().sum()) / radius, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_quadratics_that_begin_at_their_bounds(seed: int) -> None:
    """Elements that stay zero have no unit: rounding in them must not decide anything."""
    rng = np.random.default_rng(seed)
    n = 3 + seed % 3
    half = rng.normal(size=(n, n))
    H = ad.tensor(half @ half.T + 0.1 * np.eye(n))
    c = ad.tensor(3 * rng.normal(size=n), requires_grad=True)
    rows, room = ad.tensor(rng.normal(size=(n - 1, n))), ad.tensor(rng.uniform(0.1, 1, n - 1))

    def check(x: ad.Tensor, free: ad.Tensor, active: ad.Tensor) -> None:
        """The derivative by c is that of the free elements on the active rows."""
        found = ad.stack([ad.autograd.grad(one, c, retain_graph=True)[0] for one in x])
        m, k = int(free.sum()), int(active.sum())
        kkt = ad.zeros(m + k, m + k, **DOUBLE)
        kkt[:m, :m] = H[free][:, free]
        kkt[m:, :m] = rows[active][:, free]
        kkt[:m, m:] = kkt[m:, :m].mT.clone()
        exact = ad.zeros(n, n, **DOUBLE)
        exact[free.nonzero(), free.nonzero().flatten()] = ad.linalg.inv(kkt)[:m, :m]
        ad.testing.assert_close(found, exact, rtol=1e-8, atol=1e-10)

    for method in ("L-BFGS-B", "SLSQP", "trust-constr"):
        x = minimize(
            lambda x: x @ H @ x / 2 - c @ x, ad.zeros(n, **DOUBLE), method=method, bounds=(0, None)
        ).x
        free, slope = x > 0, (H @ x - c).detach()
        assert (x >= 0).all() and (slope[free].abs() < 1e-10).all() and (slope[~free] > 0).all()
        check(x, free, ad.zeros(n - 1, dtype=ad.bool))
    for method in ("SLSQP", "trust-constr"):
        x = minimize(
            lambda x: x @ H @ x / 2 - c @ x,
            ad.zeros(n, **DOUBLE),
            method=method,
            bounds=(0, None),
            constraints={"type": "ineq", "fun": lambda x: room - rows @ x},
        ).x
        slack = (room - rows @ x).detach()
        assert (x >= 0).all() and (slack > -1e-12).all()
        check(x, x > 0, slack < 1e-10)


def test_limits_of_constraints_may_be_tensors() -> None:
    optimize = pytest.importorskip("scipy.optimize")

    def edge(limit: ad.Tensor) -> ad.Tensor:
        ball = optimize.NonlinearConstraint(lambda x: (x**2).sum(), -np.inf, limit)
        return minimize(lambda x: ((x - 1) ** 2).sum(), [0.1, 0.1], constraints=ball).x[0]

    at = ad.tensor(0.5, **DOUBLE)
    ad.testing.assert_close(edge(at), at.new_tensor(0.5))  # sqrt(limit / 2)
    ad.testing.assert_close(grad(edge)(at), at.new_tensor(0.5))
    ad.testing.assert_close(vmap(edge)(at[None] * 1.44), at.new_tensor([0.6]))


def test_a_saddle_is_not_a_minimum() -> None:
    def two_wells(p: ad.Tensor) -> ad.Tensor:
        return minimize(lambda x: (x[0] ** 2 - p) ** 2 + x[1] ** 2, [0.0, 1.0]).x

    one = ad.tensor(1.0, **DOUBLE)
    for run in (two_wells, ad.compile(two_wells), lambda p: vmap(two_wells)(ad.stack([p, -p]))):
        with pytest.raises(ConvergenceError, match="stopped at a saddle"):
            run(one)
    flat = minimize(lambda x: (x[0] - x[1]) ** 2, [1.0, 0.0]).x  # a valley is one
    ad.testing.assert_close(flat[0], flat[1])


@pytest.mark.parametrize("method", ["BFGS", "CG"])
def test_a_minimum_that_scipy_doubts_is_said_to_be_checked(method: str) -> None:
    def valley(x: Any, m: Any) -> Any:
        return m.exp(x[0] / 3) - x[0] + m.exp(x[1] / 7) - x[1] + (x[0] - x[1]) ** 2 / 3

    asked: dict[str, Any] = {"method": method, "options": {"gtol": 1e-40}}
    theirs = scipy_optimize.minimize(lambda x: valley(x, np), [0.0, 1.0], **asked)
    assert (theirs.success, theirs.status) == (False, 2)  # of precision loss
    ours = minimize(lambda x: valley(x, ad), [0.0, 1.0], **asked)
    assert (ours.success, ours.status) == (True, 0)
    assert ours.message == "The conditions of a minimum were checked, and hold."
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-5)
