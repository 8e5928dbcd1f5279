"""The errors of numerical derivatives, measured: `python -m tools.external_errors [--write]`.

For functions with known derivatives, the error of the step that an external chooses by itself is
compared with the least error that any fixed step reaches, over all steps from 1e-18 to 10. The
table stands in docs/reference/externals.md, where `--write` puts it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "externals.md"
START, END = "<!-- errors: start -->", "<!-- errors: end -->"
STEPS = 10.0 ** np.arange(-18, 1.01, 0.25)
FACTOR = 10.0  # how far from the best fixed step the choice may be


@dataclass(frozen=True)
class Case:
    """A function, where it is differentiated, and the exact Jacobian there."""

    name: str
    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any]  # the Jacobian, or its diagonal for an elementwise function
    x: Any
    options: dict[str, Any] = field(default_factory=dict)

    def exact(self) -> Any:
        found = np.asarray(self.derivative(self.x.astype(float)))
        return np.diag(found) if found.shape == self.x.shape and found.ndim == 1 else found

    def error(self, **more: Any) -> float:
        """The relative error of the Jacobian, in the norm of its entries."""
        e = ad.external(self.function, **self.options, **more)
        exact = self.exact()
        with np.errstate(all="ignore"):
            try:
                found = e.jacobian(ad.tensor(self.x)).numpy().astype(float)
            except (ad.external.ExternalError, ValueError):
                return math.inf  # no room for the step, or outside the domain
            difference = np.linalg.norm(found.reshape(exact.shape) - exact) / np.linalg.norm(exact)
        return float(difference) if np.isfinite(difference) else math.inf


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosenbrock_gradient(x: Any) -> Any:
    g = np.zeros_like(x)
    bend = x[1:] - x[:-1] ** 2
    g[:-1] = -400 * x[:-1] * bend - 2 * (1 - x[:-1])
    g[1:] += 200 * bend
    return g[None]


def digits(y: Any, count: int) -> Any:
    """What is left of an output that was printed with so many digits."""
    return np.vectorize(lambda v: float(f"{v:.{count}g}"))(y)


def rough(x: Any) -> Any:
    """A smooth function with a relative error of 1e-8, as of a solver that stops early."""
    return np.sin(x) * (1 + 1e-8 * np.sin(1e9 * x + 1e5 * x**2))


X = np.linspace(0.3, 1.9, 12)
CASES = (
    Case("sin(x)", np.sin, np.cos, X),
    Case("exp(x), float32", np.exp, np.exp, X.astype("f4")),
    Case(
        "sin(1e6 x): varies quickly", lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), X
    ),
    Case(
        "sin(x / 1e4): varies slowly", lambda x: np.sin(x / 1e4), lambda x: np.cos(x / 1e4) / 1e4, X
    ),
    Case("1e6 + sin(x): a large constant", lambda x: 1e6 + np.sin(x), np.cos, X),
    Case(
        "sin(x * 1e9), x near 1e-9",
        lambda x: np.sin(x * 1e9),
        lambda x: 1e9 * np.cos(x * 1e9),
        X * 1e-9,
    ),
    Case("Rosenbrock's, float32", rosenbrock, rosenbrock_gradient, X.astype("f4")),
    Case("sin(x), printed with 6 digits", lambda x: digits(np.sin(x), 6), np.cos, X),
    Case("sin(x), noise of 1e-8", rough, np.cos, X),
    Case(
        "sqrt(x) on [0, 1], x = 1e-3 … 1",
        np.sqrt,
        lambda x: 0.5 / np.sqrt(x),
        np.geomspace(1e-3, 1, 12),
        {"bounds": (0, 1)},
    ),
)


@dataclass(frozen=True)
class Row:
    name: str
    chosen: float
    best: float
    step: float
    usual: float  # the error of a fixed step of 1e-6

    @property
    def ratio(self) -> float:
        return self.chosen / self.best


def measure(case: Case) -> Row:
    fixed = [case.error(step=float(h), probe=False) for h in STEPS]
    at = int(np.argmin(fixed))
    usual = case.error(step=1e-6, probe=False)
    return Row(case.name, case.error(), fixed[at], float(STEPS[at]), usual)


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| function | chosen by default | best fixed step | (at) | ratio | fixed step of 1e-6 |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        usual = f"{r.usual:.0e}" if math.isfinite(r.usual) else "fails"
        lines.append(
            f"| {r.name} | {r.chosen:.0e} | {r.best:.0e} | {r.step:.0e} | {r.ratio:.1f} | {usual} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    args = parser.parse_args()
    rows = [measure(case) for case in CASES]
    lines = table(rows)
    print("\n".join(lines))
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        text = "\n".join([before + START, *lines, END + after])
        PAGE.write_text(text, encoding="utf-8")
    return int(any(row.ratio > FACTOR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
