"""Discrete and continuous adjoints, and forward sensitivities: equal, chosen and explained."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.integrate import _gradients, solve_ivp

DOUBLE = {"dtype": ad.float64}


def prey(t: ad.Tensor, y: ad.Tensor, p: ad.Tensor) -> ad.Tensor:
    growth = ad.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])
    return growth + 0.1 * ad.sin(t) * y


def derivatives(method: str, gradient: str | None) -> tuple[list[ad.Tensor], Any]:
    """By parameters, the state and time at the beginning, and the times of the result."""
    p = ad.tensor([1.5, 1.0, 1.0, 3.0], **DOUBLE, requires_grad=True)
    y0 = ad.tensor([1.0, 1.2], **DOUBLE, requires_grad=True)
    t0 = ad.tensor(0.1, **DOUBLE, requires_grad=True)
    at = ad.tensor([0.3, 0.5, 1.0], **DOUBLE, requires_grad=True)
    options: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-9, "gradient": gradient}
    found = solve_ivp(prey, (t0, 1.0), y0, method, t_eval=at, args=(p,), **options)
    weighed = (found.y * ad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], **DOUBLE)).sum()
    first = ad.autograd.grad(weighed, (p, y0, t0, at), create_graph=True)
    (second,) = ad.autograd.grad(first[0].sum(), p)
    return [*(g.detach() for g in first), second], found


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "Rodas5P"])
def test_all_gradients_agree_to_second_order(method: str) -> None:
    exact, found = derivatives(method, "discrete")
    assert found.gradient == "discrete"
    for gradient, tolerance in (("forward", 1e-11), ("continuous", 1e-4)):
        others, found = derivatives(method, gradient)
        assert found.gradient == gradient and "asked for" in found.explain()
        for a, b in zip(others, exact, strict=True):
            ad.testing.assert_close(a, b, rtol=tolerance, atol=1e-6 * tolerance)


@pytest.mark.parametrize("gradient", ["continuous", "forward"])
def test_gradients_without_create_graph(gradient: str) -> None:
    def slope_of(gradient: str) -> ad.Tensor:
        p = ad.tensor([1.5, 1.0, 1.0, 3.0], **DOUBLE, requires_grad=True)
        tight = {"rtol": 1e-8, "atol": 1e-11}
        found = solve_ivp(prey, (0.0, 1.0), [1.0, 1.2], args=(p,), gradient=gradient, **tight)
        found.y[:, -1].sum().backward()
        return p.grad

    ad.testing.assert_close(slope_of(gradient), slope_of("discrete"), rtol=1e-5, atol=0)


def test_the_continuous_adjoint_sees_what_a_closure_reads() -> None:
    net = ad.nn.Linear(2, 2).double()

    def end(gradient: str) -> list[ad.Tensor]:
        net.zero_grad()
        found = solve_ivp(
            lambda t, y: ad.tanh(net(y)),
            (0.0, 1.0),
            [1.0, 0.5],
            gradient=gradient,
            rtol=1e-9,
            atol=1e-12,
        )
        found.y[0, -1].backward()
        return [p.grad.clone() for p in net.parameters()]

    for a, b in zip(end("continuous"), end("discrete"), strict=True):
        ad.testing.assert_close(a, b, rtol=1e-5, atol=1e-9)
    with pytest.raises(ValueError, match="fun reads 2 other tensors"):
        end("forward")


def test_the_gradient_is_chosen_and_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    k = ad.tensor(1.0, **DOUBLE, requires_grad=True)

    def solve(**options: Any) -> Any:
        return solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), [1.0], args=(k,), **options)

    found = solve()
    assert found.gradient == "discrete"
    assert "RK45" in found.explain() and "1 inputs, a state of 1 numbers" in found.explain()
    with ad.no_grad():
        assert "nothing that it depends on" in solve().explain()
    monkeypatch.setattr(_gradients, "_BUDGET", 10)
    found = solve()
    assert found.gradient == "forward" and "tangents of few inputs" in found.explain()
    found.y[0, -1].backward()
    monkeypatch.setattr(_gradients, "_FEW", 0)
    monkeypatch.setattr(_gradients, "_BUDGET", 1 << 20)
    monkeypatch.setattr(_gradients, "_SAVED", 10**6)
    assert "run again to stay within" in solve().explain()


def test_what_a_gradient_cannot_do_is_told() -> None:
    k = ad.tensor(1.0, **DOUBLE, requires_grad=True)

    def solve(gradient: str, **options: Any) -> Any:
        return solve_ivp(
            lambda t, y, k: -k * y, (0.0, 1.0), [1.0], args=(k,), gradient=gradient, **options
        )

    with pytest.raises(ValueError, match="no derivative of event times"):
        solve("forward", events=lambda t, y, k: y[0] - 0.5)
    with pytest.raises(ValueError, match="no adjoint equation for a mass matrix"):
        solve("continuous", mass=[[2.0]], method="Radau")


def test_memory_may_be_bounded() -> None:
    def slope_of(**options: Any) -> float:
        k = ad.tensor(1.0, **DOUBLE, requires_grad=True)
        found = solve_ivp(
            lambda t, y: -k * y * ad.sin(t), (0.0, 9.0), [1.0], rtol=1e-8, t_eval=[9.0], **options
        )
        found.y.sum().backward()
        return float(k.grad)

    exact = slope_of()
    assert slope_of(memory="20kB") == exact and slope_of(snapshots=3) == exact
