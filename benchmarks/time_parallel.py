"""What parareal would gain over a loop in time, beside what a better method gains on one rank.

Parareal runs the steps of all time slices side by side, from states that a coarse method guesses,
and corrects the guesses; again, until they are as good as the fine method's. `table()` counts: all
ways reach the error of the same fine steps of Runge and Kutta (order 4), calls of the right side
are what takes time, and messages cost nothing, which no machine offers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

State = np.ndarray
Rates = Callable[[State], State]
RANKS = (2, 16)
FINE, COARSE = 2048, 256  # steps over the whole time


@dataclass(frozen=True)
class Problem:
    """An equation y' = rates(y), from a state over some time."""

    name: str
    rates: Rates
    start: State
    until: float

    def exact(self) -> State:
        """The state at the end, to many digits."""
        return self.by_order_8(1e-13)[0]

    def by_order_8(self, tolerance: float) -> tuple[State, int]:
        """The state at the end by SciPy's DOP853, and the calls that it took."""
        found = solve_ivp(
            lambda _, y: self.rates(y), (0, self.until), self.start, "DOP853",
            rtol=tolerance, atol=tolerance,
        )  # fmt: skip
        return found.y[:, -1], found.nfev


def runge_kutta(rates: Rates, y: State, span: float, steps: int) -> State:
    """Some steps of order 4."""
    h = span / steps
    for _ in range(steps):
        a = rates(y)
        b = rates(y + h / 2 * a)
        c = rates(y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + rates(y + h * c))
    return y


def iterations(problem: Problem, ranks: int, error: float) -> int:
    """How often parareal corrects until all slices begin where fine steps would, to an error."""
    span = problem.until / ranks

    def sweep(steps: int) -> list[State]:
        states = [problem.start]
        for _ in range(ranks):
            states.append(runge_kutta(problem.rates, states[-1], span, steps // ranks))
        return states

    right, guess = sweep(FINE), sweep(COARSE)
    coarse = guess[1:]
    for k in range(ranks):
        off = max(float(np.abs(a - b).max()) for a, b in zip(guess, right, strict=True))
        if off <= error:
            return k
        fine = [runge_kutta(problem.rates, y, span, FINE // ranks) for y in guess[:-1]]
        states = [problem.start]
        for n in range(ranks):
            now = runge_kutta(problem.rates, states[-1], span, COARSE // ranks)
            states.append(now + fine[n] - coarse[n])
            coarse[n] = now
        guess = states
    return ranks


def parareal_gain(problem: Problem, ranks: int, error: float) -> float:
    """Beside the fine steps on one rank: sweeps of the coarse method are not side by side."""
    k = iterations(problem, ranks, error)
    return ranks / (k + (k + 1) * ranks * COARSE / FINE)


def order_8_gain(problem: Problem, exact: State, error: float) -> float:
    """The same of a method of order 8, on one rank."""
    for tolerance in 10.0 ** -np.arange(4, 13, 0.5):
        end, calls = problem.by_order_8(tolerance)
        if np.abs(end - exact).max() <= error:
            return 4 * FINE / calls
    return 0.0


def problems() -> list[Problem]:
    """A smooth one and a chaotic one."""

    def lorenz(y: State) -> State:
        return np.array([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    def pendulum(y: State) -> State:
        return np.array([y[1], -np.sin(y[0])])

    return [
        Problem("pendulum, to t = 20", pendulum, np.array([1.0, 0.0]), 20.0),
        Problem("Lorenz, to t = 10", lorenz, np.array([1.0, 1.0, 20.0]), 10.0),
    ]


def table() -> str:
    """Speed-ups for the same error, as rows of docs/scaling.md."""
    lines = [
        "| equation | "
        + " | ".join(f"parareal, {p} ranks" for p in RANKS)
        + " | order 8, 1 rank |",
        "|---|" + "---|" * (len(RANKS) + 1),
    ]
    for problem in problems():
        exact = problem.exact()
        end = runge_kutta(problem.rates, problem.start, problem.until, FINE)
        error = float(np.abs(end - exact).max())
        gains = [parareal_gain(problem, p, error) for p in RANKS]
        cells = [f"{gain:.1f}×" for gain in (*gains, order_8_gain(problem, exact, error))]
        lines.append(f"| {problem.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
