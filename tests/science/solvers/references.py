"""References of fifty digits: values, first and second derivatives of a function of parameters.

A `Case` says what one of our solvers computes, and the same mathematics for mpmath, which shares no
code with it. Differences of steps of 1e-15 at seventy digits leave an error of about 1e-28, so all
of what `compare` reports is ours. Parameters are far from one another in size in many cases: an
error counts relative to the entry itself, or to a thousandth of what the sizes of answer and
parameter suggest where an entry is smaller than that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import adjoint as ad
from adjoint.func import jacfwd, jacrev

DIGITS, STEP, SLACK = 70, mpf(10) ** -15, 1e-3
Numbers = list[Any]
# Direct methods lose what the condition of a problem costs, and no more.
DIRECT = (1e-12, 1e-11, 1e-10)


@dataclass(frozen=True)
class Case:
    """``ours(p)`` is a vector of a vector; ``exact(p)`` a list of a list of long numbers."""

    solver: str
    name: str
    ours: Callable[[ad.Tensor], Any]
    exact: Callable[[Numbers], Numbers]
    at: tuple[float, ...]
    errors: tuple[float, float, float] = DIRECT  # of value, first and second derivative
    scaled: bool = False  # numbers of very different sizes, or stiff
    refused: tuple[str, ...] = ()  # ways that raise, with words

    def __str__(self) -> str:
        return " ".join([self.solver, *self.name.split()]).replace(" ", "-")


@functools.cache  # one for all methods
def reference(
    exact: Callable[[Numbers], Numbers], place: tuple[float, ...]
) -> tuple[Any, Any, Any]:
    """Value [m], first [m, k] and second derivatives [m, k, k], in float64."""
    with mp.workdps(DIGITS):
        at = [mpf(v) for v in place]
        steps = [v * STEP for v in at]

        def moved(*by: tuple[int, int]) -> Any:
            p = list(at)
            for j, sign in by:
                p[j] += sign * steps[j]
            return np.array([mpmath.mpmathify(v) for v in exact(p)], dtype=object)

        size, here = len(at), moved()
        first = np.empty((len(here), size), dtype=object)
        second = np.empty((len(here), size, size), dtype=object)
        sides = [(moved((j, 1)), moved((j, -1))) for j in range(size)]
        for j, (up, down) in enumerate(sides):
            first[:, j] = (up - down) / (2 * steps[j])
            second[:, j, j] = (up - 2 * here + down) / steps[j] ** 2
            for k in range(j):
                corners = moved((j, 1), (k, 1)) + moved((j, -1), (k, -1))
                edges = up + down + sides[k][0] + sides[k][1] - 2 * here
                mixed = (corners - edges) / (2 * steps[j] * steps[k])
                second[:, j, k] = second[:, k, j] = mixed
        return here.astype(float), first.astype(float), second.astype(float)


def compare(case: Case) -> dict[str, float]:
    """Relative errors of the value and of each derivative, by each of the modes."""
    value, first, second = reference(case.exact, case.at)
    p = ad.tensor(case.at, dtype=ad.float64)
    by = 1 / np.abs(np.array(case.at))
    # An answer of zero has the unit of the others.
    size = np.where(value == 0, np.abs(value).max(), np.abs(value))
    sizes = [size]
    sizes += [sizes[0][:, None] * by, sizes[0][:, None, None] * by[:, None] * by]

    def error(got: Any, wanted: Any, size: Any) -> float:
        got = got.detach().numpy()
        assert got.shape == wanted.shape, (got.shape, wanted.shape)
        off = np.abs(got - wanted) / (np.abs(wanted) + SLACK * size + 1e-300)
        return float(np.where(np.isfinite(got), off, np.inf).max())

    f = case.ours
    ways = {
        "value": lambda: error(f(p), value, sizes[0]),
        "reverse": lambda: error(jacrev(f)(p), first, sizes[1]),
        "forward": lambda: error(jacfwd(f)(p), first, sizes[1]),
        "forward over reverse": lambda: error(jacfwd(jacrev(f))(p), second, sizes[2]),
        "reverse over reverse": lambda: error(jacrev(jacrev(f))(p), second, sizes[2]),
    }
    for way in case.refused:
        with pytest.raises(RuntimeError, match="fix: "):
            ways.pop(way)()
    return {way: found() for way, found in ways.items()}


ORDERS = {"value": 0, "reverse": 1, "forward": 1}


def check(case: Case) -> None:
    for what, error in compare(case).items():
        assert error <= case.errors[ORDERS.get(what, 2)], f"{case}: {what} is off by {error:.1e}"


# --- what references are made of ------------------------------------------------------------------
def newton(residual: Callable[[Numbers], Numbers], start: Sequence[float]) -> Numbers:
    """The zero of as many functions as unknowns, by Newton's method to all digits."""
    x = [mpf(v) for v in start]
    for _ in range(60):
        r = [mpf(v) for v in residual(x)]
        jacobian = mp.matrix(len(x))
        for j, v in enumerate(x):
            h = (abs(v) or mpf(1)) * mpf(10) ** -25
            moved = residual([*x[:j], v + h, *x[j + 1 :]])
            for i, (there, here) in enumerate(zip(moved, r, strict=True)):
                jacobian[i, j] = (there - here) / h
        step = mp.lu_solve(jacobian, mp.matrix(r))
        x = [v - s for v, s in zip(x, step, strict=True)]
        if all(abs(s) <= abs(v) * mpf(10) ** (8 - DIGITS) for v, s in zip(x, step, strict=True)):
            return x
    raise AssertionError("the reference did not converge")


def slopes(f: Callable[[Numbers], Any], x: Numbers) -> Numbers:
    """The gradient by differences of many more digits than a reference needs."""
    with mp.workdps(3 * DIGITS):
        h = [(abs(v) or mpf(1)) * mpf(10) ** -DIGITS for v in x]
        return [
            (f([*x[:j], v + h[j], *x[j + 1 :]]) - f([*x[:j], v - h[j], *x[j + 1 :]])) / (2 * h[j])
            for j, v in enumerate(x)
        ]


def linear(rows: Sequence[Sequence[Any]], right: Sequence[Any]) -> Numbers:
    """The solution of a linear system."""
    return list(mp.lu_solve(mp.matrix([list(r) for r in rows]), mp.matrix(list(right))))


def normal(rows: Sequence[Sequence[Any]], right: Sequence[Any], damp: float = 0) -> Numbers:
    """The least squares solution, by the normal equations."""
    a, b = mp.matrix([list(r) for r in rows]), mp.matrix(list(right))
    return list(mp.lu_solve(a.T * a + mpf(damp) ** 2 * mp.eye(a.cols), a.T * b))


def stacked(parts: Sequence[Any]) -> ad.Tensor:
    """Tensors and numbers as one vector."""
    return ad.cat([ad.as_tensor(v, dtype=ad.float64).reshape(-1) for v in parts])


def rowed(rows: Sequence[Sequence[Any]]) -> ad.Tensor:
    """Tensors and numbers as a matrix."""
    return ad.stack([stacked(row) for row in rows])
