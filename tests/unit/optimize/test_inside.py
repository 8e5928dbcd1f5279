"""Solvers inside `compile` and `scan`: an instruction with the values and derivatives of eager."""

import warnings

import pytest

import adjoint as ad
from adjoint import optimize

DOUBLE = {"dtype": ad.float64}
times = ad.linspace(0, 1, 5, **DOUBLE)


def ones():
    return ad.ones(2, **DOUBLE)


def of_root(method):
    return lambda a: optimize.root(lambda x: x + 0.2 * ad.sin(x * a) - 1, ones(), method=method).x


def of_minimum(**options):
    def minimum(a):
        return optimize.minimize(
            lambda x: ((x - a) ** 4).sum() + (x * x).sum() + x[0] * x[1], 0 * ones(), **options
        ).x

    return minimum


def of_fit(**options):
    def fit(a):
        return optimize.least_squares(
            lambda p: p[0] * ad.exp(-p[1] * times) - a[0] * ad.exp(-a[1] * times * times),
            [1.0, 0.3],
            **options,
        ).x

    return fit


def of_composite(a):
    def residual(x):
        return {"p": x["p"] ** 3 + x["p"] - a, "q": x["q"] - x["p"].sum()}

    found = optimize.root(residual, {"p": ones(), "q": ad.zeros((), **DOUBLE)}).x
    return ad.stack([found["p"].prod(), found["q"]])


def of_bracket(a):
    return optimize.root_scalar(lambda x: x**3 + a[0] * x - a[1], bracket=(0, 3)).root * ones()


def of_one_number(a):
    found = optimize.minimize_scalar(
        lambda x: (x - a[0]) ** 2 + a[1] * x**4, bounds=(0.0, a[0] * 0.6), method="bounded"
    )
    return found.x


def of_linear_fit(a):
    A = ad.stack([times * a[0], times**2, ad.ones_like(times)], 1)
    return optimize.lsq_linear(A, ad.cos(3 * times) * a[1], (0.0, 0.8)).x


@optimize.implicit(lambda x, a, s: x**3 + s * x - a)
def of_ones_own(a, s):
    x = 0 * ones()
    for _ in range(12 + int(a.abs().max())):  # as many steps as the values ask for
        x = x - (x**3 + s * x - a) / (3 * x**2 + s)
    return x


SOLVERS = {
    "one's own": lambda a: of_ones_own(a, s=1 + a[1]),
    "bracket": of_bracket,
    "one number": of_one_number,
    "linear fit": of_linear_fit,
    "newton": of_root("newton"),
    "broyden": of_root("broyden"),
    "anderson": of_root("anderson"),
    "SciPy's hybr": of_root("hybr"),
    "fixed point": lambda a: optimize.fixed_point(lambda x: ad.cos(x) * a / 2, ones()),
    "composite": of_composite,
    "minimum": of_minimum(),
    "trust region": of_minimum(method="trust-ncg"),
    "bounds": of_minimum(bounds=[(0.0, 0.3), (None, 5.0)]),
    "constraint": of_minimum(
        constraints={"type": "eq", "fun": lambda x: x.sum() + x[0] ** 2 - 0.4}
    ),
    "constraints and bounds": of_minimum(
        bounds=[(0.0, 0.3), (None, 5.0)],
        constraints=[{"type": "ineq", "fun": lambda x: 0.5 - x.sum()}],
        method="trust-constr",
    ),
    "fit": of_fit(),
    "fit by huber between bounds": of_fit(loss="huber", bounds=(0.0, 1.1)),
}


def points():
    return [ad.tensor(v, **DOUBLE, requires_grad=True) for v in ([0.5, 1.0], [1.2, 0.7])]


def gradient(f, a):
    return ad.autograd.grad(f(a).sum(), a, create_graph=True)[0]


@pytest.mark.parametrize("name", list(SOLVERS))
def test_a_compiled_solver_gives_the_bits_of_eager_to_second_order(name):
    f = SOLVERS[name]
    compiled = ad.compile(f)
    for a in points():
        assert ad.equal(compiled(a), f(a))
        found, wanted = gradient(compiled, a), gradient(f, a)
        assert ad.equal(found, wanted)
        assert ad.equal(*(ad.autograd.grad(g.sum(), a)[0] for g in (found, wanted)))
    assert len(compiled.programs) == 1


@pytest.mark.parametrize(
    "name",
    ["newton", "bounds", "constraint", "fit", "bracket", "one number", "linear fit", "one's own"],
)
def test_transforms_of_a_solver_are_compiled(name):
    f = SOLVERS[name]

    def of_samples(a):
        return ad.vmap(ad.vmap(lambda c: f(c * a)))(1 + 0.1 * ad.arange(4, **DOUBLE).reshape(2, 2))

    for transformed in (
        of_samples,
        lambda a: ad.func.jvp(f, (a,), (a,))[1],
        ad.func.jacrev(f),
        ad.func.hessian(lambda a: f(a).sum()),
    ):
        compiled = ad.compile(transformed)
        for a in points():
            assert ad.equal(compiled(a.detach()), transformed(a.detach()))
        assert len(compiled.programs) == 1


@pytest.mark.parametrize(
    "name", ["newton", "fixed point", "minimum", "bounds", "fit", "bracket", "one's own"]
)
def test_a_solver_in_the_step_of_a_scan_is_the_plain_loop(name):
    f = SOLVERS[name]

    def step(state, row, a):
        state = f(a + 0.1 * state + row)
        return state, state.sum()

    def scanned(a):
        return ad.scan(lambda s, row: step(s, row, a), 0 * ones(), times)[1]

    def plain(a):
        state, rows = 0 * ones(), []
        for row in times:
            state, out = step(state, row, a)
            rows.append(out)
        return ad.stack(rows)

    a = points()[0]
    assert ad.equal(scanned(a), plain(a))
    ad.testing.assert_close(gradient(scanned, a), gradient(plain, a), rtol=1e-13, atol=1e-15)


def test_a_program_raises_where_the_solver_finds_nothing():
    @ad.compile
    def f(a):
        return optimize.root(lambda x: x * x + a, ones()).x

    f(-ones())
    with pytest.raises(optimize.ConvergenceError, match="found no answer"):
        f(ones())
    assert ad.equal(f(-4 * ones()), 2 * ones())
    assert len(f.programs) == 1


def test_a_solver_of_ones_own_is_checked_in_each_run():
    @optimize.implicit(lambda x, a: x**2 - a)
    def root(a):
        found = a.sqrt() if float(a.sum()) < 9 else a
        return found if float(a.sum()) < 90 else found[:1]

    f = ad.compile(lambda a: root(a).sum())
    assert float(f(4 * ones())) == 4
    with pytest.raises(optimize.ConvergenceError, match="does not solve the equation: the residu"):
        f(9 * ones())
    with pytest.raises(ValueError, match="the answer has 1 elements where it had 2"):
        f(90 * ones())
    assert len(f.programs) == 1 and not f.reasons


def test_a_derivative_that_is_not_there_is_an_error_in_a_program_too():
    @ad.compile
    def f(a):
        return optimize.root(lambda x: x**3 + a * x, 0 * ones()).x

    for value, error in ((1.0, None), (0.0, ad.linalg.LinAlgError)):
        a = (value * ones()).requires_grad_()
        y = f(a).sum()
        if error is None:
            y.backward()
            continue
        with pytest.raises(error, match="singular"):
            y.backward()


def test_counts_inside_a_program_are_those_of_its_call():
    @ad.compile
    def f(a):
        found = optimize.root(lambda x: x**3 - a, ones(), method="newton")
        return found.x, found.nit

    near, far = (int(f(a)[1]) for a in (ones(), 1e6 * ones()))
    assert near < far == optimize.root(lambda x: x**3 - 1e6, ones()).nit


def test_what_cannot_be_recorded_runs_as_python_and_says_so_once():
    @ad.compile
    def f(a):
        return optimize.minimize(lambda x: ((x - a) ** 2).sum(), ones(), callback=lambda x: None).x

    with pytest.warns(UserWarning, match="runs eagerly"):
        found = f(ones())
    ad.testing.assert_close(found, ones())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(2 * ones())
