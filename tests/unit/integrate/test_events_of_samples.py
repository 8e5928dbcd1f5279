"""Events of `solve_ivp` under `vmap`: each sample has those that a loop over samples finds."""

import functools

import pytest

import adjoint as ad
from adjoint import integrate, optimize

DOUBLE = {"dtype": ad.float64}
METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "Rodas5P", "Rodas3"]


def lands(t, y, *rest):
    return y[0]


lands.terminal, lands.direction = True, -1


def turns(t, y, *rest):
    return y[1]


def thrown(a, method="RK45", events=(lands, turns), **options):
    """A ball, thrown up; weights and speeds are such that one of the samples never lands."""
    options = {"rtol": 1e-8, "atol": 1e-10, **options}
    return integrate.solve_ivp(
        lambda t, y: ad.stack([y[1], -9.81 * a[0] - 0.1 * y[1] * a[1]]),
        (0.0, 3.0),
        ad.stack([1.0 + a[1], 3 * a[1]]),
        method,
        events=list(events),
        **options,
    )


def samples():
    return ad.tensor([[1.0, 1.0], [2.0, 0.5], [0.05, 3.0], [0.7, 2.0]], **DOUBLE)


def padded(t, n):
    return ad.cat([t, ad.full((n - len(t), *t.shape[1:]), ad.nan, **DOUBLE)])


def assert_near(found, wanted, close):
    assert found.shape == wanted.shape
    assert ad.equal(ad.isnan(found), ad.isnan(wanted))
    away = (found - wanted).nan_to_num(0.0).abs()
    assert not away.numel() or float(away.max()) <= close


@pytest.mark.parametrize("method", METHODS)
def test_each_sample_ends_at_its_own_event(method):
    times = [0.1, 0.5, 1.0, 2.5]

    def of(a):
        found = thrown(a, method, t_eval=times)
        return found.t, found.y, found.t_events, found.y_events, found.status

    t, y, at, states, status = ad.vmap(of)(samples())
    close = 1e-4 if method in ("RK23", "Rodas3") else 1e-6
    for k, a in enumerate(samples()):
        one = thrown(a, method, t_eval=times)
        for e in range(2):
            assert_near(at[e][k], padded(one.t_events[e], at[e].shape[1]), close)
            if len(one.t_events[e]):
                assert_near(states[e][k], padded(one.y_events[e], at[e].shape[1]), close)
        assert_near(t[k], padded(one.t, 4), 0)
        assert_near(y[k].mT, padded(one.y.mT, 4), close)
        assert int(status[k]) == one.status
    assert int(status.sum()) == 3


def test_steps_of_a_sample_end_with_its_event():
    t, y = ad.vmap(lambda a: (lambda f: (f.t, f.y))(thrown(a)))(samples())
    for k, a in enumerate(samples()):
        one = thrown(a)
        rows = int((~ad.isnan(t[k])).sum())
        assert bool(ad.isnan(t[k, rows:]).all()) and bool(ad.isnan(y[k, :, rows:]).all())
        assert bool((t[k, 1:rows] > t[k, : rows - 1]).all())
        ad.testing.assert_close(t[k, rows - 1], one.t[-1], rtol=1e-7, atol=1e-7)
        ad.testing.assert_close(y[k, :, rows - 1], one.y[:, -1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "Rodas5P"])
def test_events_of_samples_have_first_and_second_derivatives(method):
    def of(a):
        found = thrown(a, method)
        times, states = found.t_events, found.y_events
        return times[0].nansum() + 0.1 * states[0].nansum() + states[1].nansum()

    def one(a):
        found = thrown(a, method)
        parts = [found.t_events[0], *(0.1 * s for s in found.y_events[0]), *found.y_events[1]]
        return sum((p.sum() for p in parts), 0 * a.sum())

    rows = samples()
    gradients = ad.stack([ad.func.grad(one)(a) for a in rows])
    close = {"rtol": 1e-5, "atol": 1e-5}
    ad.testing.assert_close(ad.vmap(ad.func.grad(of))(rows), gradients, **close)
    ad.testing.assert_close(ad.func.grad(lambda r: ad.vmap(of)(r).sum())(rows), gradients, **close)
    tangents = ad.func.jvp(ad.vmap(of), (rows,), (rows,))[1]
    ad.testing.assert_close(tangents, (gradients * rows).sum(1), **close)

    def second(f):
        return lambda a: ad.func.jacrev(lambda b: ad.func.grad(f)(b)[0])(a)

    found = ad.vmap(second(of))(rows)
    wanted = ad.stack([second(one)(a) for a in rows])
    ad.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_samples_may_differ_in_how_often_an_event_happens():
    def swings(w):
        found = integrate.solve_ivp(
            lambda t, y: ad.stack([y[1], -w * w * y[0]]),
            (0, 5),
            [1.0, 0.0],
            events=lambda t, y: y[0],
            rtol=1e-9,
            atol=1e-11,
        )
        return found.t_events[0]

    w = ad.tensor([1.0, 3.0, 0.1], **DOUBLE)
    found = ad.vmap(swings)(w)
    assert found.shape == (3, 5)
    exact = (ad.arange(5, **DOUBLE) + 0.5) * ad.pi / w[:, None]
    assert_near(found, ad.where(exact <= 5, exact, ad.nan), 1e-7)
    slope = ad.func.grad(lambda w: ad.vmap(swings)(w).nansum())(w)
    ad.testing.assert_close(slope, (-exact / w[:, None] * (exact <= 5)).sum(1), rtol=1e-6, atol=0)


def test_a_sample_that_has_ended_may_not_have_a_slope_any_more():
    def full(t, y):
        return y[0] - 4

    full.terminal = True

    def burst(a):  # 1 / (1 - a t) has a pole at 1 / a
        return integrate.solve_ivp(
            lambda t, y: a * y * y, (0, 3), [1.0], events=full, rtol=1e-9, atol=1e-12
        ).event()

    a = ad.tensor([1.0, 0.5, 2.0], **DOUBLE)
    ad.testing.assert_close(ad.vmap(burst)(a), 0.75 / a, rtol=1e-8, atol=0)
    found = ad.func.grad(lambda a: ad.vmap(burst)(a).sum())(a)
    ad.testing.assert_close(found, -0.75 / a**2, rtol=1e-7, atol=0)
    ad.testing.assert_close(ad.vmap(ad.func.hessian(burst))(a), 1.5 / a**3, rtol=1e-4, atol=0)


def test_structures_backward_in_time_mass_matrices_and_two_ends():
    def low(t, s):
        return s["x"] - 0.5

    def late(t, s):
        return t + 2.0

    low.terminal = late.terminal = 1

    def decays(k):
        found = integrate.solve_ivp(
            lambda t, s: {"x": k * s["x"], "z": 0 * s["z"]},
            (0, -4),
            {"x": ad.ones((), **DOUBLE), "z": ad.zeros(2, **DOUBLE)},
            events=[low, late],
            rtol=1e-9,
            atol=1e-12,
        )
        return found.t_events, found.y_events[0][0]["x"], found.y_events[1][0]["x"]

    k = ad.tensor([1.0, 0.2], **DOUBLE)
    (first, second), x, rest = ad.vmap(decays)(k)
    assert_near(
        first[:, 0], ad.tensor([-((2**0.5) ** 0) * 0.6931471805599453, ad.nan], **DOUBLE), 1e-7
    )
    assert_near(second[:, 0], ad.tensor([ad.nan, -2.0], **DOUBLE), 1e-9)
    assert_near(x, ad.tensor([0.5, ad.nan], **DOUBLE), 1e-9)
    assert_near(rest, ad.tensor([ad.nan, 0.6703200460356393], **DOUBLE), 1e-7)

    def half(t, y):
        return y[0] - 0.5

    half.terminal = True
    mass = ad.diag(ad.tensor([1.0, 0.0], **DOUBLE))

    def algebraic(k, method):
        return integrate.solve_ivp(
            lambda t, y: ad.stack([-k * y[1], y[1] - y[0]]),
            (0, 9),
            [1.0, 1.0],
            method,
            mass=mass,
            events=half,
            rtol=1e-7,
            atol=1e-9,
        ).event()

    for method in ("Radau", "BDF", "Rodas5P"):
        found = ad.vmap(functools.partial(algebraic, method=method))(k)
        ad.testing.assert_close(found, ad.log(ad.tensor(2.0, **DOUBLE)) / k, rtol=1e-4, atol=0)


def test_max_events_fixes_the_shapes_and_raises_where_they_do_not_do():
    def of(most):
        return integrate.solve_ivp(
            lambda t, y: ad.stack([y[1], -y[0]]),
            (0, 5),
            [1.0, 0.0],
            events=lambda t, y: y[0],
            max_events=most,
        )

    found = of(3)
    assert found.t_events[0].shape == (3,) and found.y_events[0].shape == (3, 2)
    assert ad.isnan(found.t_events[0]).tolist() == [False, False, True]
    with pytest.raises(optimize.ConvergenceError, match="was not met"):
        found.event(0, 2)
    with pytest.raises(ValueError, match="happens 2 times, more than max_events=1"):
        of(1)


def test_what_is_wrong_with_one_sample_is_said():
    def undefined(t, y):
        return ad.log(y[0] - 0.5)

    def falls(k, event):
        return integrate.solve_ivp(lambda t, y: -k * y, (0, 2), [1.0], events=event)

    k = ad.tensor([0.1, 3.0], **DOUBLE)
    with pytest.raises(ValueError, match=r"the event undefined is nan at t = \d"):
        ad.vmap(lambda k: falls(k, undefined).y)(k)
    with pytest.raises(optimize.ConvergenceError, match=r"the event .* was not met"):
        ad.vmap(lambda k: falls(k, lambda t, y: y[0] - 0.5).event())(k)


def test_random_curves_are_crossed_where_they_are_zero():
    numbers = ad.Generator().manual_seed(3)
    for trial in range(40):
        c = ad.rand(4, generator=numbers, **DOUBLE) - 0.5

        def height(t, y, c=c):
            return c[0] + c[1] * t + c[2] * t**2 + c[3] * ad.sin(5 * t)

        found = integrate.solve_ivp(
            lambda t, y: ad.cos(t)[None], (0, 3), [0.0], events=height, max_step=0.05
        ).t_events[0]
        at = ad.linspace(0, 3, 3001, **DOUBLE)
        signs = height(at, None) > 0
        assert len(found) == int((signs[1:] != signs[:-1]).sum()), trial
        assert not len(found) or float(height(found, None).abs().max()) < 1e-14, trial
