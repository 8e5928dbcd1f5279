"""Externals with rules of their own: what a tangent or a Hessian takes, patterns beside rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import adjoint as ad

N = 60
RNG = np.random.default_rng(0)
MATRIX = np.eye(N) + RNG.normal(size=(N, N)) / N
BANDS = sp.diags([np.ones(N - 1), -2 * np.ones(N), np.ones(N - 1)], [-1, 0, 1]).tocsr()
X = np.linspace(0.1, 1.0, N)
V = RNG.normal(size=N)


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


class Counted:
    def __init__(self, rule):
        self.rule, self.calls = rule, 0

    def __call__(self, *args):
        self.calls += 1
        return self.rule(*args)


def waves(**options):
    rule = Counted(lambda g, x: np.cos(x) * (MATRIX.T @ g))
    return ad.external(lambda x: MATRIX @ np.sin(x), vjp=lambda g, x: rule(g, x), **options), rule


def test_a_tangent_beside_a_vjp_takes_one_difference():
    f, rule = waves()
    found = ad.func.jvp(f, (float64(X),), (float64(V),))[1].numpy()
    np.testing.assert_allclose(found, MATRIX @ (np.cos(X) * V), rtol=1e-7, atol=1e-9)
    assert rule.calls == 0 and f.evaluator.count < 20
    assert f.cost(float64(X)).jvp == 4 and "a jvp takes 4 more" in str(f.cost(float64(X)))


def test_a_wrong_vjp_is_found_by_a_tangent_that_does_not_come_from_it():
    f = ad.external(lambda x: MATRIX @ np.sin(x), vjp=lambda g, x: np.cos(x) * (MATRIX @ g))
    report = ad.check(f, float64(X), order=1)
    assert report.verdict == "wrong" and report.first.dot.status == "wrong"
    assert ad.check(waves()[0], float64(X), order=1).verdict == "right"


def test_products_with_a_hessian_take_a_few_calls_of_a_vjp():
    f, rule = waves()
    total = ad.func.grad(lambda z: (f(z) ** 2).sum())
    found = ad.func.jvp(total, (float64(X),), (float64(V),))[1].numpy()
    j, y = MATRIX * np.cos(X), MATRIX @ np.sin(X)
    exact = 2 * j.T @ (j @ V) - 2 * np.sin(X) * (MATRIX.T @ y) * V
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-7)
    assert rule.calls <= 7  # three of them compare the steps


def test_many_tangents_at_one_point_make_the_jacobian_in_the_end():
    f, rule = waves()
    found = ad.func.jacfwd(f)(float64(X)).numpy()
    np.testing.assert_allclose(found, MATRIX * np.cos(X), rtol=1e-6, atol=1e-8)
    assert rule.calls <= N and f.evaluator.count < 3 * N


def test_a_recorded_vjp_is_transposed():
    a = float64(MATRIX)
    rule = Counted(lambda g, x: x.cos() * (a.T @ g))
    f = ad.external(lambda x: a @ x.sin(), vjp=lambda g, x: rule(g, x), arrays="tensor")
    found = ad.func.jvp(f, (float64(X),), (float64(V),))[1].numpy()
    np.testing.assert_allclose(found, MATRIX @ (np.cos(X) * V), rtol=1e-13, atol=1e-14)
    assert rule.calls == 1 and f.evaluator.count == 1


def test_a_vjp_that_only_looks_recorded_is_not_transposed():
    rule = lambda g, x: ad.tensor(np.cos(x.numpy()) * (MATRIX.T @ g.detach().numpy()))  # noqa: E731
    f = ad.external(lambda x: float64(MATRIX) @ x.sin(), vjp=rule, arrays="tensor")
    found = ad.func.jvp(f, (float64(X),), (float64(V),))[1].numpy()
    np.testing.assert_allclose(found, MATRIX @ (np.cos(X) * V), rtol=1e-7, atol=1e-9)


# --- linear functions -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [None, lambda g, x: MATRIX.T @ g])
def test_a_linear_function_has_exact_tangents_and_no_curvature(rule):
    f = ad.external(lambda x: MATRIX @ x + 1.0, linear=True, vjp=rule)
    x, v = float64(X), float64(V)
    np.testing.assert_allclose(ad.func.jvp(f, (x,), (v,))[1].numpy(), MATRIX @ V, atol=1e-12)
    before = f.evaluator.count
    ad.func.jvp(f, (x,), (v,))
    assert f.evaluator.count - before == 1 + f.cost(x).jvp == 2
    hessian = ad.func.hessian(lambda z: (f(z) ** 2).sum())(x).numpy()
    np.testing.assert_allclose(hessian, 2 * MATRIX.T @ MATRIX, rtol=1e-9, atol=1e-10)


def test_a_function_that_is_not_linear_is_refused():
    for transform in (
        lambda f: ad.func.grad(lambda q: f(q).sum())(float64(X)),
        lambda f: ad.func.jvp(f, (float64(X),), (float64(V),)),
    ):
        with pytest.raises(ad.external.ExternalError, match="is not linear"):
            transform(ad.external(np.sin, linear=True))


# --- patterns -------------------------------------------------------------------------------------


def squares(x):
    return BANDS @ x**2


J = BANDS.toarray() * 2 * X
H = 2 * J.T @ J + np.diag(4 * (BANDS.T @ (BANDS @ X**2)))


@pytest.mark.parametrize(
    "options",
    [
        {"sparsity": BANDS},
        {"jacobian": lambda x: BANDS @ sp.diags(2 * x)},
        {"vjp": lambda g, x: 2 * x * (BANDS.T @ g), "sparsity": BANDS},
        {"jvp": lambda t, x: BANDS @ (2 * x * t), "sparsity": BANDS},
        {"jacobian": lambda x: BANDS.toarray() * 2 * x, "sparsity": BANDS},
    ],
)
def test_detection_sees_patterns_of_every_kind_for_both_orders(options):
    f = ad.external(squares, **options)
    jacobian = ad.func.jacobian(f, sparsity="detect")
    np.testing.assert_allclose(jacobian(float64(X)).toarray(), J, atol=1e-7)
    assert jacobian.passes == 3
    hessian = ad.func.hessian(lambda z: (f(z) ** 2).sum(), sparsity="detect")
    np.testing.assert_allclose(hessian(float64(X)).toarray(), H, atol=1e-5)
    assert hessian.passes == 5
    assert f.evaluator.count < 4 * N


def test_an_elementwise_rule_takes_one_call():
    rule = Counted(lambda g, x: g * np.cos(x))
    f = ad.external(np.sin, vjp=lambda g, x: rule(g, x), elementwise=True)
    np.testing.assert_allclose(f.jacobian(float64(X)).numpy(), np.diag(np.cos(X)))
    assert rule.calls == 2  # one, and one that verifies


def test_a_pattern_that_a_rule_contradicts_is_refused():
    f = ad.external(squares, vjp=lambda g, x: 2 * x * (BANDS.T @ g), sparsity=np.eye(N))
    with pytest.raises(ad.external.ExternalError, match="sparsity= misses entries"):
        f.jacobian(float64(X))


def test_sparse_blocks_of_several_inputs_and_outputs_stay_sparse():
    f = ad.external(
        lambda a, b: (BANDS @ a * b, a + b),
        jacobian=lambda a, b: ((sp.diags(b) @ BANDS, sp.diags(BANDS @ a)), (sp.eye(N), None)),
    )
    found = f.jacobian(float64(X), float64(V)).numpy()
    assert found.shape == (2 * N, 2 * N)
    np.testing.assert_allclose(found[:N, :N], V[:, None] * BANDS.toarray())
    np.testing.assert_allclose(found[N:], np.hstack([np.eye(N), np.zeros((N, N))]))


def test_a_full_pattern_that_was_detected_is_never_refused():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(8, 8)) * 3  # some outputs saturate
        f = ad.external(lambda x, a=a: np.tanh(a @ x))
        x = rng.normal(size=8)
        found = ad.func.jacobian(f, sparsity="detect")(float64(x)).toarray()
        exact = a / np.cosh(a @ x)[:, None] ** 2
        np.testing.assert_allclose(found, exact, atol=1e-7 * np.abs(exact).max())


# --- what a result may be -------------------------------------------------------------------------


def test_a_whole_number_is_a_float_that_happened_to_be_whole():
    f = ad.external(lambda x: max(0, float(x)))
    for value, slope in ((-1.0, 0.0), (2.0, 1.0)):
        x = float64(value, requires_grad=True)
        y = f(x)
        assert y.dtype == ad.float64 and y.item() == max(0.0, value)
        y.backward()
        assert x.grad.item() == pytest.approx(slope, abs=1e-9)
    several = ad.external(lambda x: {"lift": 0 if x < 1.05 else 2.0 * (x - 1.05), "steps": 3})
    found = several(float64(2.0))
    assert found["steps"] == 3 and isinstance(found["steps"], int)


def test_a_time_limit_covers_the_call_itself():
    import time

    f = ad.external(lambda x: time.sleep(5 * float(x)) or x, workers=1, timeout=0.3)
    try:
        assert f(float64(0.0)).item() == 0.0
        with pytest.raises(ad.external.EvaluationError, match=r"within timeout=0\.3 s"):
            f(float64(1.0))
    finally:
        f.close()


def test_numbers_drawn_in_a_worker_with_a_time_limit_are_found_out():
    f = ad.external(lambda x: x + np.random.normal(), workers=1, timeout=20)  # noqa: NPY002
    x = float64(1.0, requires_grad=True)
    try:
        with pytest.raises(ad.external.ExternalError, match="different values for the same input"):
            f(x).backward()
    finally:
        f.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"derivative": "forward"},
        {"elementwise": True},
        {"sparsity": np.eye(6)},
        {"linear": True},
        {"derivative": "complex-step"},
        {"verify": False},
        {"probe": False},
        {"step": 1e-4},
    ],
)
def test_later_derivatives_cost_what_was_told(options):
    f = ad.external((lambda x: 2 * x) if "linear" in options else np.sin, **options)
    x = float64(np.linspace(0.4, 1.0, 6), requires_grad=True)
    f(x).sum().backward()
    before, cost = f.evaluator.count, f.cost(x)
    f(x).sum().backward()
    assert f.evaluator.count - before == cost.forward + cost.vjp
    if not options.get("elementwise"):
        before = f.evaluator.count
        ad.func.jvp(f, (x.detach(),), (x.detach(),))
        assert f.evaluator.count - before <= cost.forward + cost.jvp


def test_a_pattern_is_a_matrix_and_that_is_said_at_once():
    with pytest.raises(ValueError, match=r"sparsity='detect': .* fix: a dense or scipy.sparse"):
        ad.external(np.sin, sparsity="detect")


# --- second derivatives through a rule ------------------------------------------------------------

QUICK = {  # they change within less than a difference of derivatives by the rule takes
    "wave": (lambda v: np.sin(v / 1e-5), lambda v: np.cos(v / 1e-5) / 1e-5, 1e10, np.sin, 1e-5),
    "peak": (
        lambda v: 1 / ((v - 2) ** 2 + 1e-8),
        lambda v: -2 * (v - 2) / ((v - 2) ** 2 + 1e-8) ** 2,
        None,
        lambda v: 8 * (v - 2) ** 2 / ((v - 2) ** 2 + 1e-8) ** 3 - 2 / ((v - 2) ** 2 + 1e-8) ** 2,
        None,
    ),
}


def rules(slope):
    yield {"vjp": lambda g, v: g * slope(v)}
    yield {"jvp": lambda t, v: t * slope(v)}
    yield {"jacobian": lambda v: np.diag(slope(v))}


@pytest.mark.parametrize("at", [1.0, 1.99, 2.00003, 2.0002])
@pytest.mark.parametrize("name", list(QUICK))
def test_second_derivatives_through_a_rule_are_right_or_warned_of(name, at):
    function, slope, factor, second, unit = QUICK[name]
    x = np.array([at, 0.5])
    wanted = second(x) if factor is None else -factor * second(x / unit)
    for rule in rules(slope):
        f = ad.external(function, **rule)
        for outer in (ad.func.jacfwd, ad.func.jacrev):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                found = outer(ad.func.grad(lambda v, f=f: f(v).sum()))(ad.tensor(x)).numpy()
            off = np.abs(found.diagonal() - wanted).max() / np.abs(wanted).max()
            assert off < 1e-5 or (seen and off < 1e-2)


@pytest.mark.parametrize("inside", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_does_not_shorten_the_steps_of_a_rule(dtype, inside):
    bands = BANDS if inside is np.float64 else BANDS.astype(dtype)

    def slope(v):
        t = np.tanh(bands @ v)
        return sp.diags(v * (1 - t * t)) @ bands + sp.diags(t)

    f = ad.external(lambda v: np.tanh(bands @ v) * v, vjp=lambda g, v: slope(v).T @ g)
    matrix = ad.tensor(BANDS.toarray())
    wanted = ad.func.hessian(lambda v: (((matrix @ v).tanh() * v) ** 2).sum())(float64(X)).numpy()
    found = ad.func.hessian(lambda v: (f(v) ** 2).sum())(ad.tensor(X.astype(dtype))).numpy()
    limit = 1e-2 if dtype is np.float32 else 1e-7
    assert np.abs(found - wanted).max() < limit * np.abs(wanted).max()


def test_a_second_derivative_through_a_rule_is_compared_once():
    f = ad.external(np.sin, vjp=lambda g, v: g * np.cos(v))
    x = ad.tensor([0.5, 1.0, np.pi / 2]).double()
    for _ in range(2):
        told = f.cost(x)
        (g,) = ad.autograd.grad(f(x.requires_grad_()).sum(), x, create_graph=True)
        before = f.evaluator.count
        ad.autograd.grad(g.sum(), x)
        assert f.evaluator.count - before == told.second == 4


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("how", ["elementwise", "sparsity", "dense"])
def test_calls_of_a_jvp_are_counted_by_colours(how, verify):
    n, calls = 12, 0
    pattern = np.eye(n) if how == "elementwise" else sum(np.eye(n, k=j) for j in (-1, 0, 1))
    options = {"elementwise": {"elementwise": True}, "sparsity": {"sparsity": pattern}}

    def jvp(t, v):
        nonlocal calls
        calls += 1
        return pattern @ (t * np.cos(v))

    f = ad.external(lambda v: pattern @ np.sin(v), jvp=jvp, verify=verify, **options.get(how, {}))
    x = ad.tensor(np.linspace(0.3, 1, n), requires_grad=True)
    told = f.cost(x).derivative_calls
    f(x).sum().backward()
    assert calls == told
