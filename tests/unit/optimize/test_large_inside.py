"""Large answers inside `compile` and `scan`: instructions, by products or by sparse factors."""

import pytest

import adjoint as ad
from adjoint import optimize

DOUBLE = {"dtype": ad.float64}
SIZE = 2100  # beyond which no whole matrix is made


def chain(u, a):
    edge = u.new_zeros(1)
    left, right = ad.cat([edge, u[:-1]]), ad.cat([u[1:], edge])
    return 4 * u - left - right + 0.1 * a * ad.exp(u) - a[0] * a


def mean_field(u, a):
    return u + 0.1 * ad.sin(u) * a + 0.2 * u.mean() - 1


SOLVERS = {
    "sparse": lambda a, n: optimize.root(chain, ad.zeros(n, **DOUBLE), a).x,
    "products": lambda a, n: optimize.root(mean_field, ad.zeros(n, **DOUBLE), a).x,
    "anderson": lambda a, n: (
        optimize.root(mean_field, ad.zeros(n, **DOUBLE), a, method="anderson").x
    ),
    "SciPy's krylov": lambda a, n: (
        optimize.root(mean_field, ad.zeros(n, **DOUBLE), a, method="krylov").x
    ),
    "fixed point": lambda a, n: optimize.fixed_point(
        lambda u: 0.3 * ad.cos(u) * a + 0.1 * u.mean(), ad.zeros(n, **DOUBLE)
    ),
}


def spread(s, n):
    return s[0] + s[1] * ad.linspace(0, 1, n, **DOUBLE)


def points():
    return [ad.tensor(v, **DOUBLE, requires_grad=True) for v in ([0.5, 1.0], [1.2, 0.7])]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_large_answer_in_a_program_has_the_bits_of_eager_to_second_order(name):
    def f(s):
        return SOLVERS[name](spread(s, SIZE), SIZE)[::700]

    def slope(f, s):
        return ad.autograd.grad((f(s) ** 2).sum(), s, create_graph=True)[0]

    compiled = ad.compile(f)
    for s in points():
        assert ad.equal(compiled(s), f(s))
        found, wanted = slope(compiled, s), slope(f, s)
        assert ad.equal(found, wanted)
        second = [ad.autograd.grad(g.sum(), s)[0] for g in (found, wanted)]
        ad.testing.assert_close(*second, rtol=1e-8, atol=1e-10)
    assert len(compiled.programs) == 1 and not compiled.reasons


@pytest.mark.parametrize("name", ["sparse", "products"])
def test_a_large_answer_in_the_step_of_a_scan_is_the_plain_loop(name):
    def step(s, x):
        u = SOLVERS[name](spread(s + x, SIZE), SIZE)
        return 0.5 * s + ad.stack([u.mean(), u[7]]), u[::500]

    def scanned(s):
        return ad.scan(step, s, ad.arange(3, **DOUBLE) / 10)[1]

    def plain(s):
        rows = []
        for x in ad.arange(3, **DOUBLE) / 10:
            s, row = step(s, x)
            rows.append(row)
        return ad.stack(rows)

    s = points()[0]
    assert ad.equal(scanned(s), plain(s))
    slopes = [ad.autograd.grad(f(s).sum(), s)[0] for f in (scanned, plain)]
    ad.testing.assert_close(*slopes, rtol=1e-11, atol=1e-13)


def test_tangents_of_a_large_answer_in_a_program():
    for name in ("sparse", "products"):

        def moved(s, name=name):
            f = lambda s: SOLVERS[name](spread(s, SIZE), SIZE)[::700]  # noqa: E731
            return ad.func.jvp(f, (s,), (ad.ones_like(s),))[1]

        compiled = ad.compile(moved)
        for s in points():
            s = s.detach()
            ad.testing.assert_close(compiled(s), moved(s), rtol=1e-9, atol=1e-11)


def test_a_program_raises_where_a_large_equation_has_no_answer():
    @ad.compile
    def f(a):
        return optimize.root(lambda u: u * u + a, ad.ones(SIZE, **DOUBLE)).x

    f(ad.tensor(-1.0, **DOUBLE))
    with pytest.raises(optimize.ConvergenceError, match="found no answer"):
        f(ad.tensor(1.0, **DOUBLE))
    assert ad.equal(f(ad.tensor(-4.0, **DOUBLE)), 2 * ad.ones(SIZE, **DOUBLE))
    assert len(f.programs) == 1
