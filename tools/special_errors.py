"""Measure errors of the special functions against mpmath: a table of docs/reference/accuracy.md.

    $ python -m tools.special_errors                 # prints the table
    $ python -m tools.special_errors bessel_j0 --points 3000
    $ python -m tools.special_errors --write

An error is counted in units in the last place of the exact result. Functions that are waves have
roots without end; for these the unit is that of the wave's height where it is larger, as the last
column says.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

import adjoint as ad

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "accuracy.md"
BEGIN, END = "<!-- special functions -->", "<!-- end of special functions -->"
mp.mp.dps = 40

Draw = Callable[[random.Random], tuple[float, ...]]


@dataclass
class Case:
    name: str
    draw: Draw
    exact: Callable[..., Any]
    arguments: str
    height: Callable[..., Any] | None = None  # of the waves
    unit: str = ""


def spread(low: float, high: float) -> Draw:
    """Evenly, and evenly in the exponent, with a sign where both are allowed."""

    def draw(rng: random.Random) -> tuple[float, ...]:
        if rng.random() < 0.5:
            return (rng.uniform(low, high),)
        size = math.exp(rng.uniform(math.log(1e-6), math.log(max(abs(low), abs(high)))))
        signs = [s for s in (-1, 1) if low <= s * size <= high]
        return (rng.choice(signs) * size,) if signs else (rng.uniform(low, high),)

    return draw


def both(*draws: Draw) -> Draw:
    return lambda rng: tuple(draw(rng)[0] for draw in draws)


def whole(low: int, high: int) -> Draw:
    return lambda rng: (float(rng.randint(low, high)),)


def log_uniform(low: float, high: float) -> Draw:
    return lambda rng: (math.exp(rng.uniform(math.log(low), math.log(high))),)


def ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def ndtri(p: Any) -> Any:
    q = p if p < 0.5 else 1 - p
    if q > 0.1:
        x = mp.sqrt(2) * mp.erfinv(2 * q - 1)
    else:
        start = -mp.sqrt(-2 * mp.log(q) - mp.log(-4 * mp.pi * mp.log(q)))
        x = mp.findroot(lambda t: mp.log(ndtr(t)) - mp.log(q), start)
    return x if p < 0.5 else -x


def bessel_height(order: int) -> Callable[[Any], Any]:
    # Up to 8 the roots are known to more digits.
    def height(x: Any) -> Any:
        x = abs(x)
        return mp.hypot(mp.besselj(order, x), mp.bessely(order, x)) if x > 8 else mp.mpf(0)

    return height


def airy_height(x: Any) -> Any:
    return mp.hypot(mp.airyai(x), mp.airybi(x)) if x < -4.5 else mp.mpf(0)


def igamma(a: Any, x: Any) -> Any:
    """By the power series, with as many digits more as the other function is small."""
    with mp.workdps(60 + int(max(0, (x - a - a * mp.log(x / a)) / 2))):
        term = total = mp.mpf(1)
        k = a
        while term > total * mp.eps:
            k += 1
            term *= x / k
            total += term
        return total * mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))


def igammac(a: Any, x: Any) -> Any:
    with mp.workdps(60 + int(max(0, (x - a - a * mp.log(x / a)) / 2))):
        return 1 - igamma(a, x)


def zeta(s: Any, q: Any) -> Any:
    with mp.workdps(200):  # mpmath loses digits for large q
        return mp.zeta(s, q)


def chebyshev(kind: str) -> Callable[[Any, Any], Any]:
    def f(x: Any, n: Any) -> Any:
        if kind == "t":
            return mp.chebyt(n, x)
        if kind == "u":
            return mp.chebyu(n, x)
        u = mp.chebyu(n - 1, x) if n else mp.mpf(0)
        return mp.chebyu(n, x) - u if kind == "v" else mp.chebyu(n, x) + u

    return f


def shifted(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, n: f(2 * x - 1, n)


def at_least_one(*_: Any) -> Any:
    return mp.mpf(1)


def gamma_near(rng: random.Random) -> tuple[float, ...]:
    """A point where the distribution has most of its weight, or any."""
    near = rng.random() < 0.6
    a = math.exp(rng.uniform(math.log(1e-2), math.log(1e6 if near else 300)))
    if near:
        return a, abs(a + rng.gauss(0, 3) * math.sqrt(a))
    return a, a * math.exp(rng.uniform(-3, 1.5))


X = "x"
POLY = both(spread(-1.2, 1.2), whole(0, 60))
TERMS = "1 where smaller"


def polynomial(name: str, exact: Callable[..., Any]) -> Case:
    return Case(name, POLY, exact, "abs(x) < 1.2, n <= 60", at_least_one, TERMS)


def cases() -> list[Case]:
    wave = "the wave's height beyond 8"
    j, y, i, k = mp.besselj, mp.bessely, mp.besseli, mp.besselk
    hermite_he = lambda x, n: mp.mpf(2) ** (-n / 2) * mp.hermite(n, x / mp.sqrt(2))  # noqa: E731
    return [
        Case("airy_ai", spread(-60, 90), mp.airyai, "-60 to 90", airy_height,
             "the wave's height left of -4.5"),
        Case("bessel_j0", spread(-200, 200), lambda x: j(0, x), "-200 to 200", bessel_height(0),
             wave),
        Case("bessel_j1", spread(-200, 200), lambda x: j(1, x), "-200 to 200", bessel_height(1),
             wave),
        Case("bessel_y0", spread(0, 200), lambda x: y(0, x), "0 to 200", bessel_height(0), wave),
        Case("bessel_y1", spread(0, 200), lambda x: y(1, x), "0 to 200", bessel_height(1), wave),
        Case("i0", spread(-80, 80), lambda x: i(0, x), "-80 to 80"),
        Case("i1", spread(-80, 80), lambda x: i(1, x), "-80 to 80"),
        Case("modified_bessel_k0", spread(0, 700), lambda x: k(0, x), "0 to 700"),
        Case("modified_bessel_k1", spread(0, 700), lambda x: k(1, x), "0 to 700"),
        Case("scaled_modified_bessel_k0", spread(0, 1e4), lambda x: k(0, x) * mp.exp(x),
             "0 to 1e4"),
        Case("scaled_modified_bessel_k1", spread(0, 1e4), lambda x: k(1, x) * mp.exp(x),
             "0 to 1e4"),
        Case("spherical_bessel_j0", spread(-100, 100), lambda x: mp.sin(x) / x, "-100 to 100"),
        Case("digamma", spread(-19.9, 50), mp.digamma, "-19.9 to 50"),
        Case("entr", spread(0, 10), lambda x: -x * mp.log(x), "0 to 10"),
        Case("erfcx", spread(-26, 100), lambda x: mp.exp(x * x) * mp.erfc(x), "-26 to 100"),
        Case("log_ndtr", spread(-100, 8), lambda x: mp.log(ndtr(x)), "-100 to 8"),
        Case("ndtr", spread(-37, 8), ndtr, "-37 to 8"),
        Case("ndtri", log_uniform(1e-300, 1), ndtri, "0 to 1"),
        Case("gammainc", gamma_near, igamma, "0.01 < a < 1e6"),
        Case("gammaincc", gamma_near, igammac, "0.01 < a < 1e6"),
        Case("polygamma(2, x)", spread(0, 50), lambda x: mp.polygamma(2, x), "0 to 50"),
        Case("polygamma(9, x)", spread(0, 50), lambda x: mp.polygamma(9, x), "0 to 50"),
        Case("xlog1py", both(spread(-5, 5), spread(-0.99, 50)), lambda x, y: x * mp.log1p(y),
             "abs(x) < 5, -1 < y < 50"),
        Case("zeta", both(log_uniform(1.01, 50), log_uniform(1e-2, 1e3)),
             zeta, "1.01 < x < 50, 0.01 < q < 1e3"),
        *(polynomial(f"chebyshev_polynomial_{c}", chebyshev(c)) for c in "tuvw"),
        *(polynomial(f"shifted_chebyshev_polynomial_{c}", shifted(chebyshev(c))) for c in "tuvw"),
        polynomial("hermite_polynomial_h", lambda x, n: mp.hermite(n, x)),
        polynomial("hermite_polynomial_he", hermite_he),
        polynomial("laguerre_polynomial_l", lambda x, n: mp.laguerre(n, 0, x)),
        polynomial("legendre_polynomial_p", lambda x, n: mp.legendre(n, x)),
    ]  # fmt: skip


# --- measuring ------------------------------------------------------------------------------------
def function_of(name: str) -> Callable[..., Any]:
    if name.startswith("polygamma"):
        n = int(name[10 : name.index(",")])
        return lambda x: ad.polygamma(n, x)
    return getattr(ad.special, name)  # type: ignore[no-any-return]


def ulps(got: float, exact: Any, height: Any, bits: int, least: int) -> float:
    if mp.isnan(exact) or not mp.isfinite(exact):
        return 0.0 if math.isnan(got) or mp.mpf(got) == exact else math.inf
    size = max(abs(exact), abs(height))
    if size == 0:
        return 0.0 if got == 0 else math.inf
    exponent = max(int(mp.frexp(size)[1]) - bits, least)
    return float(abs(mp.mpf(got) - exact) * mp.mpf(2) ** -exponent)


def measure(case: Case, dtype: Any, points: int, seed: int = 0) -> tuple[float, tuple[float, ...]]:
    """Return the largest error and where it is."""
    rng = random.Random(f"{case.name}{seed}")
    bits, least = (24, -149) if dtype is ad.float32 else (53, -1074)
    drawn = [case.draw(rng) for _ in range(points)]
    columns = [ad.tensor(list(c), dtype=dtype) for c in zip(*drawn, strict=True)]
    given = [[mp.mpf(v) for v in c.double().tolist()] for c in columns]
    found = function_of(case.name)(*columns).double().tolist()
    worst, at = 0.0, drawn[0]
    for i, got in enumerate(found):
        args = [c[i] for c in given]
        if not all(args) and bits == 24:
            continue  # too small for the dtype
        exact = case.exact(*args)
        if abs(exact) > (mp.mpf(2) ** 127 if bits == 24 else mp.mpf(2) ** 1023):
            continue
        height = case.height(*args) if case.height else 0
        error = ulps(got, exact, height, bits, least)
        if error > worst:
            worst, at = error, tuple(float(a) for a in args)
    return worst, at


def table(names: list[str], points: int, places: bool) -> list[str]:
    rows = ["| function | arguments | float32 | float64 | unit, where not the result's |",
            "|---|---|---|---|---|"]  # fmt: skip
    for case in cases():
        if names and case.name not in names:
            continue
        single, double = (measure(case, d, points) for d in (ad.float32, ad.float64))
        errors = f"{single[0]:.2f} | {double[0]:.2f}"
        row = f"| `{case.name}` | {case.arguments} | {errors} | {case.unit} |"
        rows.append(row)
        if places:
            print(row, "at", single[1], double[1], flush=True)
    return rows


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    count = 300
    if "--points" in sys.argv:
        count = int(arguments.pop(arguments.index(sys.argv[sys.argv.index("--points") + 1])))
    lines = table(arguments, count, "--write" not in sys.argv)
    if "--write" in sys.argv:
        page = PAGE.read_text()
        head, tail = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(head + "\n".join([BEGIN, *lines, END]) + tail)
