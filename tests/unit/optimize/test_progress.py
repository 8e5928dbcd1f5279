"""A solver that takes long shows a line: what it is, and how often it has called."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import _progress, integrate, loops, optimize
from adjoint.sparse import linalg

scipy_optimize = pytest.importorskip("scipy.optimize")

DOUBLE = {"dtype": ad.float64}
TIMES = ad.linspace(0, 1, 5, **DOUBLE)


def ones() -> ad.Tensor:
    return ad.ones(2, **DOUBLE)


def cubic(x: ad.Tensor) -> ad.Tensor:
    return x**3 + x - 5


def fsolve(fun: Any, x: ad.Tensor, args: Any) -> Any:
    return scipy_optimize.fsolve(fun, x.numpy())


def beam() -> Any:
    return integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], -ad.exp(y[0])]),
        lambda a, b: ad.stack([a[0], b[0]]),
        TIMES,
        ad.zeros(2, 5, **DOUBLE),
    )


SOLVERS = {
    "root by newton": lambda: optimize.root(cubic, ones()),
    "root by hybr": lambda: optimize.root(cubic, ones(), method="hybr"),
    "root": lambda: optimize.root(cubic, ones(), method=fsolve),
    "fixed_point by anderson": lambda: optimize.fixed_point(ad.cos, ones()),
    "minimize by BFGS": lambda: optimize.minimize(lambda x: (x**4).sum() + x[0], ones()),
    "least_squares by trf": lambda: optimize.least_squares(cubic, ones()),
    "root_scalar": lambda: optimize.root_scalar(cubic, bracket=(0.0, 9.0)),
    "minimize_scalar": lambda: optimize.minimize_scalar(lambda x: (x - 3) ** 4 + x**2),
    "quad": lambda: integrate.quad(ad.sqrt, 0, 1),
    "solve_bvp": beam,
    "solve_ivp": lambda: integrate.solve_ivp(lambda t, y: -y, (0, 1), ones()),
    "a Brownian path": lambda: integrate.BrownianPath(0, 1, (2,), 7)(0.3),
    "cg": lambda: linalg.cg(lambda v: v * ad.arange(1, 3, **DOUBLE), ones()),
    "lsqr": lambda: linalg.lsqr(ad.eye(2, **DOUBLE) + 1, ones()),
}


class Shown:
    """Stands for a bar, and notes what it shows."""

    made: list[Shown]

    def __init__(self, text: str, total: int | None) -> None:
        self.text, self.counts, self.stopped = text, [0], False
        self.made.append(self)

    def show(self, done: int, text: str | None = None) -> None:
        self.counts.append(done)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Shown]:
    Shown.made = []
    for module in (_progress, loops._progress):
        monkeypatch.setattr(module, "is_seen", lambda: True)
        monkeypatch.setattr(module, "PATIENCE", 0.0)
        monkeypatch.setattr(module, "Bar", Shown)
    return Shown.made


@pytest.mark.parametrize("name", list(SOLVERS))
def test_a_solver_shows_how_far_it_is(name: str, bars: list[Shown]) -> None:
    SOLVERS[name]()
    assert bars[0].text == name and bars[0].counts[-1] > 1
    assert sorted(bars[0].counts) == bars[0].counts
    assert all(bar.stopped for bar in bars) and not _progress.thread.shows


def test_there_is_one_bar_at_a_time(bars: list[Shown]) -> None:
    def inner(x: ad.Tensor) -> ad.Tensor:
        return optimize.root(lambda y: y**3 + y - x, ones()).x

    optimize.root(lambda x: inner(x) - 1, 3 * ones(), method="broyden")
    begun = [bar for bar in bars if bar.text == "root by broyden"]
    assert len(begun) == 1 and all(bar.stopped for bar in bars)
    assert bars[-1].text in ("root by broyden", "root by newton") and not _progress.thread.shows


def test_a_bar_goes_away_where_a_solver_fails(bars: list[Shown]) -> None:
    with pytest.raises(optimize.ConvergenceError):
        optimize.minimize(lambda x: x.sum(), ones(), options={"maxiter": 5})
    assert bars and all(bar.stopped for bar in bars) and not _progress.thread.shows
