"""`solve_ivp` with events and dense output inside `compile` and `scan`: parts of the program."""

import warnings

import pytest

import adjoint as ad
from adjoint import integrate, optimize

from .test_events_of_samples import METHODS, lands, samples, thrown, turns


def of_events(method):
    """All that has a fixed shape."""

    def of(a):
        found = thrown(a, method, t_eval=[0.1, 1.0, 2.5], max_events=2)
        parts = [found.t, found.y, *found.t_events, *found.y_events, found.status.double()]
        return ad.cat([p.flatten() for p in parts])

    return of


def derivatives(f, a):
    a = a.clone().requires_grad_()
    y = f(a)
    (slope,) = ad.autograd.grad(y.nansum(), a, create_graph=True)
    return y, slope, ad.autograd.grad(slope[1], a)[0]


@pytest.mark.parametrize("method", METHODS)
def test_a_program_has_the_events_of_eager_calls_to_second_order(method):
    f = of_events(method)
    compiled = ad.compile(f)
    for a in samples():
        found, wanted = derivatives(compiled, a), derivatives(f, a)
        for x, y in zip(found, wanted, strict=True):
            ad.testing.assert_close(x, y, rtol=1e-12, atol=1e-12, equal_nan=True)
        assert ad.equal(ad.isnan(found[0]), ad.isnan(wanted[0]))
    assert len(compiled.programs) == 1 and not compiled.reasons


def test_times_and_states_of_events_have_the_bits_of_eager_calls():
    def f(a):
        found = thrown(a, events=[lands])
        return ad.cat([found.t_events[0], found.y_events[0][0]])

    compiled = ad.compile(f)
    for a in samples()[:2]:
        found, wanted = derivatives(compiled, a), derivatives(f, a)
        assert ad.equal(found[0], wanted[0]) and ad.equal(found[1], wanted[1])
        ad.testing.assert_close(found[2], wanted[2], rtol=1e-13, atol=1e-14)
    # Where it is not met there is no place eagerly, and NaN in a program.
    assert bool(ad.isnan(compiled(samples()[2].requires_grad_())).all())
    assert compiled.programs and not compiled.reasons


def test_events_in_the_step_of_a_scan_are_those_of_a_plain_loop():
    def bounce(state, gravity):
        found = integrate.solve_ivp(
            lambda t, y: ad.stack([y[1], -gravity]),
            (0, 5),
            state,
            events=lands,
            rtol=1e-8,
            atol=1e-10,
        )
        after = ad.stack([1e-9 + 0 * state[0], -0.8 * found.y_events[0][0, 1]])
        return after, found.event()

    def by(loop):
        def total(first):
            state = ad.stack([first, 0 * first])
            return loop(state, ad.tensor([9.81, 9.0, 8.0, 3.0], dtype=ad.float64))

        return total

    def plainly(state, rows):
        times = []
        for g in rows:
            state, t = bounce(state, g)
            times.append(t)
        return ad.stack(times)

    first = ad.tensor(2.0, dtype=ad.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = by(lambda state, rows: ad.scan(bounce, state, rows)[1])
        wanted = by(plainly)
        assert ad.equal(found(first), wanted(first))
        slopes = [ad.func.grad(lambda x, f=f: f(x).sum())(first) for f in (found, wanted)]
    ad.testing.assert_close(*slopes, rtol=1e-11, atol=0)


def test_dense_output_is_a_part_of_a_program():
    def f(k):
        found = integrate.solve_ivp(lambda t, y: -k * y, (0, 2), [1.0, 2.0], dense_output=True)
        return found.sol(0.7), found.sol(k), found.sol([0.1, 2.0])

    compiled = ad.compile(f)
    for k in (0.5, 1.5):
        k = ad.tensor(k, dtype=ad.float64, requires_grad=True)
        for found, wanted in zip(compiled(k), f(k), strict=True):
            ad.testing.assert_close(found, wanted, rtol=1e-14, atol=0)
            slopes = [ad.autograd.grad(y.sum(), k, retain_graph=True)[0] for y in (found, wanted)]
            ad.testing.assert_close(*slopes, rtol=1e-12, atol=0)
    assert len(compiled.programs) == 1
    with pytest.raises(ValueError, match="the time 3 lies outside of the interval from 0 to 2"):
        compiled(ad.tensor(3.0, dtype=ad.float64))


def test_a_program_raises_for_events_as_eager_calls_do():
    def twice(t, y):
        return ad.sin(6 * t)

    def undefined(t, y, *rest):
        return ad.log(1 - t * y[0])

    def of(event, **options):
        return ad.compile(
            lambda a: thrown(a, events=[event], t_eval=[3.0], max_events=1, **options).event()
        )

    first, never = samples()[0], samples()[2]
    program = of(lands)
    program(first)
    with pytest.raises(optimize.ConvergenceError, match="the event lands was not met"):
        program(never)
    with pytest.raises(ValueError, match="the event twice happens 6 times, more than max_events=1"):
        of(twice)(first)
    with pytest.raises(ValueError, match=r"the event undefined is nan at t = \d"):
        of(undefined)(first)
    program(first)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"t_eval": [1.0], "events": [turns]}, "how often the event turns of solve_ivp.. happens"),
        ({"events": ()}, "t_eval= says how many states there are"),
        ({"t_eval": [1.0], "events": (), "gradient": "forward"}, "the gradient .* is discrete"),
    ],
)
def test_what_depends_on_values_runs_eagerly_and_says_what_to_do(options, words):
    events = options["events"] or None

    def f(a):
        rest = {k: v for k, v in options.items() if k != "events"}
        return integrate.solve_ivp(lambda t, y: -a * y, (0, 1), [1.0, 2.0], events=events, **rest).y

    compiled = ad.compile(f)
    with pytest.warns(UserWarning, match=words):
        found = compiled(samples()[0])
    assert ad.equal(found, f(samples()[0]))


def test_steps_of_a_solution_with_events_are_there_for_those_who_ask():
    compiled = ad.compile(lambda a: thrown(a, events=[lands]).y[:, -1])
    with pytest.warns(UserWarning, match="t_eval= says how many states there are"):
        found = compiled(samples()[0])
    assert ad.equal(found, thrown(samples()[0], events=[lands]).y[:, -1])
