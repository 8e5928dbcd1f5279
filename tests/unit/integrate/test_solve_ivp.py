"""``solve_ivp`` and ``odeint``: values, derivatives, events, failures."""

from __future__ import annotations

import math
from typing import Any

import pytest

import adjoint as ad
from adjoint.func import grad, hessian, jacfwd, jacrev, vmap
from adjoint.integrate import odeint, solve_ivp
from adjoint.loops import _progress
from adjoint.optimize import ConvergenceError, root

DOUBLE = {"dtype": ad.float64}
METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "Rodas5P", "Rodas3"]
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def decay(t: ad.Tensor, y: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    """Y = y0 exp(-k t) for each element."""
    return -k * y


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_an_exponential(method: str) -> None:
    at = ad.tensor([0.5, 1.5], **DOUBLE)
    few = {"rtol": 1e-6, "atol": 1e-8}

    def end(k: ad.Tensor) -> ad.Tensor:
        return solve_ivp(decay, (0, 0.2), ad.ones(2, **DOUBLE), method, args=k, **few).y[:, -1]

    exact = ad.exp(-0.2 * at)
    ad.testing.assert_close(end(at), exact, rtol=1e-5, atol=0)
    for by in (jacrev, jacfwd):
        ad.testing.assert_close(by(end)(at), ad.diag(-0.2 * exact), rtol=1e-4, atol=1e-7)
    second = hessian(lambda k: end(k).sum())(at)
    ad.testing.assert_close(second, ad.diag(0.04 * exact), rtol=1e-3, atol=1e-7)
    samples = ad.stack([at, 1.1 * at])
    ad.testing.assert_close(vmap(end)(samples), ad.exp(-0.2 * samples), rtol=1e-5, atol=0)


@pytest.mark.parametrize("method", METHODS)
def test_order(method: str) -> None:
    """The error falls with the tolerance, between steps too, and backward in time."""

    def circle(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return ad.stack([-y[1], y[0]]) * (1 + ad.sin(t)) + 0 * y

    def exact(t: ad.Tensor) -> ad.Tensor:
        angle = t + 1 - ad.cos(t)
        return ad.stack([ad.cos(angle), ad.sin(angle)])

    times = ad.linspace(0, 3, 7, **DOUBLE)
    errors = []
    for rtol in (1e-3, 1e-5 if method == "Rodas3" else 1e-6):
        options: dict[str, Any] = {"rtol": rtol, "atol": rtol * 1e-2, "method": method}
        found = solve_ivp(circle, (0, 3), [1.0, 0.0], t_eval=times, **options)
        errors.append(float((found.y - exact(times)).abs().max()))
        back = solve_ivp(circle, (3, 0), exact(times[-1]), **options)
        assert float((back.y[:, -1] - exact(times[0])).abs().max()) < 300 * rtol
    assert errors[0] < 0.05 and errors[1] < errors[0] / 30


def test_stiff_kinetics() -> None:
    """Robertson's problem, whose explicit solution would take millions of steps."""

    def kinetics(t: ad.Tensor, y: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
        a, b, c = y
        first, second, third = k[0] * a, k[1] * b * c, k[2] * b * b
        return ad.stack([-first + second, first - second - third, third])

    rates = ad.tensor([0.04, 1e4, 3e7], **DOUBLE)
    reference = [0.71582706872, 9.1855347645e-6, 0.28416374575]  # at t = 40, by Radau to 1e-12
    for method in ("Radau", "BDF", "Rodas5P", "Rodas3"):
        options: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-9, "method": method, "args": rates}
        found = solve_ivp(kinetics, (0, 40), [1.0, 0.0, 0.0], **options)
        ad.testing.assert_close(
            found.y[:, -1], ad.tensor(reference, **DOUBLE), rtol=1e-3, atol=1e-9
        )
        assert found.nsteps < 400
    with pytest.raises(ConvergenceError, match="a stiff method"):
        solve_ivp(kinetics, (0, 40), [1.0, 0.0, 0.0], args=rates, max_steps=200)


def test_gradients_by_the_interval_and_the_times() -> None:
    def value(t0: ad.Tensor, t1: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return y * ad.cos(t)

        return solve_ivp(slope, (t0, t1), [2.0], t_eval=at, **TIGHT).y[0]

    t0, t1 = ad.tensor(0.3, **DOUBLE), ad.tensor(2.0, **DOUBLE)
    at = ad.tensor([1.0, 2.0], **DOUBLE)
    exact = 2 * ad.exp(ad.sin(at) - math.sin(0.3))
    ad.testing.assert_close(value(t0, t1, at), exact, rtol=1e-7, atol=0)
    slopes = jacrev(value, argnums=(0, 2))(t0, t1, at)
    ad.testing.assert_close(slopes[0], -math.cos(0.3) * exact, rtol=1e-6, atol=0)
    ad.testing.assert_close(slopes[1], ad.diag(ad.cos(at) * exact), rtol=1e-5, atol=1e-9)


def test_structures_closures_and_modules() -> None:
    net = ad.nn.Linear(2, 2).double()
    start = {"x": ad.ones(2, **DOUBLE), "v": ad.zeros(2, **DOUBLE)}

    def swing(t: ad.Tensor, s: dict[str, ad.Tensor]) -> dict[str, ad.Tensor]:
        return {"x": s["v"], "v": -ad.tanh(net(s["x"]))}

    found = solve_ivp(swing, (0, 1), start, t_eval=[0.0, 0.5, 1.0], **TIGHT)
    assert found.y["x"].shape == (2, 3)
    found.y["x"][:, -1].sum().backward()
    step = 1e-6
    with ad.no_grad():
        ends = []
        for sign in (1, -1):
            net.weight[0, 1] += sign * step
            ends.append(solve_ivp(swing, (0, 1), start, **TIGHT).y["x"][:, -1].sum())
            net.weight[0, 1] -= sign * step
    assert math.isclose(
        float(net.weight.grad[0, 1]), float((ends[0] - ends[1]) / (2 * step)), rel_tol=1e-5
    )


def test_the_time_of_an_event_has_a_derivative() -> None:
    g = 9.81

    def hit(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return y[0]

    hit.terminal = True  # type: ignore[attr-defined]
    hit.direction = -1  # type: ignore[attr-defined]

    def fall(height: ad.Tensor) -> Any:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return ad.stack([y[1], -g + 0 * y[1]])

        start = ad.stack([height, 0 * height])
        return solve_ivp(slope, (0, 10), start, events=hit, **TIGHT)

    at = ad.tensor(10.0, **DOUBLE)
    found = fall(at)
    assert found.status == 1 and float(found.t[-1]) == float(found.t_events[0][0])
    assert math.isclose(float(found.t[-1]), math.sqrt(20 / g), rel_tol=1e-9)
    assert abs(float(found.y[0, -1])) < 1e-9

    def time(h: ad.Tensor) -> ad.Tensor:
        return fall(h).t_events[0][0]

    assert math.isclose(float(grad(time)(at)), 1 / math.sqrt(2 * g * 10), rel_tol=1e-8)
    wanted = -0.5 * 10**-1.5 / math.sqrt(2 * g)
    assert math.isclose(float(grad(grad(time))(at)), wanted, rel_tol=1e-6)


def test_events_that_do_not_end() -> None:
    def wave(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return ad.stack([y[1], -y[0]])

    found = solve_ivp(wave, (0, 10), [0.0, 1.0], events=[lambda t, y: y[1]], **TIGHT)
    wanted = ad.tensor([0.5, 1.5, 2.5], **DOUBLE) * math.pi
    ad.testing.assert_close(found.t_events[0], wanted, rtol=1e-7, atol=0)
    never = solve_ivp(wave, (0, 1), [0.0, 1.0], events=lambda t, y: y[0] + 10)
    assert never.t_events[0].numel() == 0 and never.status == 0


def test_dense_output_and_odeint() -> None:
    times = ad.linspace(0, 1, 5, **DOUBLE)
    found = solve_ivp(decay, (0, 1), [1.0], args=(2.0,), dense_output=True, **TIGHT)
    ad.testing.assert_close(found.sol(times)[0], ad.exp(-2 * times), rtol=1e-7, atol=0)
    rows = odeint(lambda y, t: -2 * y, ad.ones(1, **DOUBLE), times)
    ad.testing.assert_close(rows[:, 0], ad.exp(-2 * times), rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match="outside of the interval"):
        found.sol(2.0)


def test_failures() -> None:
    with pytest.raises(ConvergenceError, match=r"too short|not finite") as caught:
        solve_ivp(lambda t, y: y * y, (0, 2), [1.0])  # infinite at t = 1
    assert math.isclose(caught.value.result.t[-1], 1.0, rel_tol=1e-2)
    with pytest.raises(ConvergenceError, match="not finite at t = 0"):
        solve_ivp(lambda t, y: y / 0, (0, 2), [0.0])
    with pytest.raises(ValueError, match="there is no LSODA"):
        solve_ivp(lambda t, y: y, (0, 1), [1.0], "LSODA")
    with pytest.raises(ValueError, match="the slope has 1 elements where y0 has 2"):
        solve_ivp(lambda t, y: y[:1], (0, 1), [1.0, 2.0])
    assert solve_ivp(lambda t, y: y, (1, 1), [1.0]).y.tolist() == [[1.0]]


def test_a_long_solution_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, int | None, int]] = []
    stop = _progress.LoopBar.stop

    def note(bar: _progress.LoopBar) -> None:
        shown.append((bar._text, bar._total, bar._done))
        stop(bar)

    monkeypatch.setattr(_progress, "is_seen", lambda: True)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setattr(_progress.LoopBar, "stop", note)
    found = solve_ivp(lambda t, y: ad.cos(9 * t) * y, (0, 9), [1.0], rtol=1e-7)
    assert found.success and shown[0] == ("solve_ivp", 1000, 1000) and shown[1][0] == "loop"


def test_a_bouncing_ball_moves_with_when_each_flight_begins() -> None:
    gravity = 9.81

    def falls(t: ad.Tensor, y: Any) -> Any:
        return y[0]

    falls.terminal = True  # type: ignore[attr-defined]
    falls.direction = -1  # type: ignore[attr-defined]

    def third_bounce(p: ad.Tensor) -> ad.Tensor:
        t, y = p.new_zeros(()), [p[0], 0.0]
        for _ in range(3):
            flight = solve_ivp(lambda t, y: [y[1], -gravity], (t, 20), y, events=falls, **TIGHT)
            t, speed = flight.t_events[0][0], flight.y_events[0][0][1]
            y = [0.0, -p[1] * speed]
        return t

    def exact(p: ad.Tensor) -> ad.Tensor:
        return ad.sqrt(2 * p[0] / gravity) * (1 + 2 * p[1] + 2 * p[1] ** 2)

    at = ad.tensor([10.0, 0.8], **DOUBLE)
    for by in (grad, jacfwd, hessian):
        ad.testing.assert_close(by(third_bounce)(at), by(exact)(at), rtol=1e-9, atol=1e-11)


def test_states_and_slopes_as_scipys_users_write_them() -> None:
    height = ad.tensor(2.0, **DOUBLE, requires_grad=True)
    fall = solve_ivp(lambda t, y: [y[1], -9.81], (0, 1), [height, 0], args=None)
    (slope,) = ad.autograd.grad(fall.y[0][-1], height)
    assert fall.y[0][-1].item() == pytest.approx(2 - 9.81 / 2) and slope.item() == pytest.approx(1)
    named = solve_ivp(lambda t, y: {"x": y["v"], "v": -9.81}, (0, 1), {"x": height, "v": 0.0})
    assert named.y["x"][-1].item() == pytest.approx(2 - 9.81 / 2)
    zero = ad.zeros(2, **DOUBLE)  # in two places: two states
    wave = solve_ivp(lambda t, y: [y[1] + 1, -y[0]], (0, 1), [zero, zero], **TIGHT)
    ad.testing.assert_close(wave.y[0][:, -1], ad.full((2,), math.sin(1), **DOUBLE))

    def alike(t: ad.Tensor, y: ad.Tensor) -> Any:
        one = -y.sum()
        return [one, one]

    ad.testing.assert_close(
        solve_ivp(alike, (0, 1), [1.0, 1.0], **TIGHT).y[:, -1],
        ad.full((2,), math.exp(-2), **DOUBLE),
    )
    assert solve_ivp(decay, (0, 1), [1.0, 2.0], t_eval=[], args=1.0).y.shape == (2, 0)
    late = odeint(lambda t, y: -y, [1.0], [0.0, 1.0], tfirst=True)
    assert late[-1].item() == pytest.approx(math.exp(-1), rel=1e-6)


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "Rodas5P"])
def test_a_slope_may_solve_an_equation_itself(method: str) -> None:
    def end(p: ad.Tensor) -> ad.Tensor:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return -p * root(lambda z: z**2 - y**2, y).x  # which is y

        return solve_ivp(slope, (0, 1), [1.0], method, rtol=1e-6, atol=1e-8, t_eval=[1.0]).y[0, 0]

    at = ad.tensor(0.7, **DOUBLE)
    ad.testing.assert_close(grad(end)(at), -ad.exp(-at), rtol=1e-4, atol=0)


def test_an_event_that_grazes_zero_has_no_trusted_derivative() -> None:
    a = ad.tensor(1.0, **DOUBLE, requires_grad=True)
    cubic = {"events": lambda t, y: y[0], **TIGHT}
    with pytest.warns(UserWarning, match="hardly passes zero at t = "):
        solve_ivp(lambda t, y: 3 * (t - a) ** 2 + 0 * y, (0, 2), [-1.0], **cubic)
    quiet = solve_ivp(lambda t, y: 3 * (t - 1) ** 2 + 0 * y, (0, 2), [-1.0], **cubic)
    assert len(quiet.t_events[0]) == 1
