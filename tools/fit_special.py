"""Write the polynomials of the special functions' kernels: src/kernels/special/fits.h.

    $ python -m tools.fit_special            # compare with what is there
    $ python -m tools.fit_special --write

Each function is cut into intervals. On each it is a polynomial in t, the variable brought to
[-1, 1], found by interpolation in Chebyshev points with 60 digits (mpmath) and cut where the rest
is below a hundredth of a unit in the last place. Where the function has a root inside of the
interval, the polynomial is that of the function over (x - root), the root given in two numbers:
then no digits are lost next to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

TARGET = Path(__file__).parent.parent / "src" / "kernels" / "special" / "fits.h"
Function = Callable[[Any], Any]

mp.mp.dps = 60


@dataclass
class Piece:
    low: float
    high: float
    root: Any = None  # near which the function is zero


def coefficients(f: Function, low: Any, high: Any) -> list[Any]:
    """Monomial coefficients in t of the shortest polynomial that is good enough."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    n = 48
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    values = [f(middle + half * mp.cos(a)) for a in angles]
    series = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    series[0] /= 2
    least = min(abs(v) for v in values)
    kept = n
    while kept > 1 and mp.fsum(abs(c) for c in series[kept - 1 :]) < least * mp.mpf(2) ** -60:
        kept -= 1
    # sum of c_j T_j(t) in powers of t
    powers = [mp.mpf(0)] * kept
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j in range(kept):
        for k, c in enumerate(before):
            powers[k] += series[j] * c
        after = [mp.mpf(0)] + [2 * c for c in now]
        for k, c in enumerate(before):
            after[k] -= c
        before, now = now, after
    return powers


def two_numbers(x: Any) -> tuple[float, float]:
    high = float(x)
    return high, float(x - mp.mpf(high))


# --- functions ------------------------------------------------------------------------------------
def bessel_phase(order: int, which: str) -> Function:
    """P or x Q of J = sqrt(2 / pi x) (P cos - Q sin), in (8 / x)^2."""

    def f(w: Any) -> Any:
        x = 8 / mp.sqrt(w)
        angle = x - (2 * order + 1) * mp.pi / 4
        scale = mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        if which == "p":
            return scale * (j * mp.cos(angle) + y * mp.sin(angle))
        return scale * (y * mp.cos(angle) - j * mp.sin(angle)) * x

    return f


def y0_rest(u: Any) -> Any:
    x = mp.sqrt(u)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def y1_rest(u: Any) -> Any:
    x = mp.sqrt(u)
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def k0_rest(u: Any) -> Any:
    x = mp.sqrt(u)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def k1_rest(u: Any) -> Any:
    x = mp.sqrt(u)
    return (mp.besselk(1, x) - 1 / x - mp.log(x / 2) * mp.besseli(1, x)) / x


def k_far(order: int) -> Function:
    return lambda v: mp.besselk(order, 1 / v) * mp.exp(1 / v) / mp.sqrt(v)


def i_near(order: int) -> Function:
    def f(u: Any) -> Any:
        x = mp.sqrt(u)
        return mp.besseli(order, x) / (x if order else 1)

    return f


def airy_wave(which: str) -> Function:
    """Of Ai(-y) and its derivative, in 1 / zeta^2, zeta = 2/3 y^(3/2)."""

    def f(w: Any) -> Any:
        zeta = 1 / mp.sqrt(w)
        y = (mp.mpf(3) / 2 * zeta) ** (mp.mpf(2) / 3)
        angle = zeta - mp.pi / 4
        c, s = mp.cos(angle), mp.sin(angle)
        if which in "pq":
            a, b = mp.airyai(-y), mp.airybi(-y)
            scale = mp.sqrt(mp.pi) * y ** mp.mpf(0.25)
            return scale * (a * c - b * s) if which == "p" else scale * (a * s + b * c) * zeta
        a, b = mp.airyai(-y, derivative=1), mp.airybi(-y, derivative=1)
        scale = mp.sqrt(mp.pi) * y ** mp.mpf(-0.25)
        return scale * (a * s + b * c) if which == "r" else scale * (b * s - a * c) * zeta

    return f


def airy_far(derivative: int) -> Function:
    """Ai(x) exp(zeta) x^(1/4), or the same of -Ai' x^(-1/4), in 1 / zeta."""

    def f(v: Any) -> Any:
        zeta = 1 / v
        x = (mp.mpf(3) / 2 * zeta) ** (mp.mpf(2) / 3)
        value = mp.airyai(x, derivative=derivative) * mp.exp(zeta)
        return -value * x ** mp.mpf(-0.25) if derivative else value * x ** mp.mpf(0.25)

    return f


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def erfcx_far(w: Any) -> Any:
    x = 1 / mp.sqrt(w)
    return erfcx(x) * x * mp.sqrt(mp.pi)


def roots_of_digamma() -> list[Any]:
    found = []
    for n in range(20):
        low, high = mp.mpf(-n - 1) + mp.mpf(10) ** -6, mp.mpf(-n) - mp.mpf(10) ** -6
        found.append(mp.findroot(mp.digamma, (low, high), solver="anderson", tol=1e-100))
    return found


def around(roots: list[Any], reach: float) -> list[Piece]:
    return [Piece(float(r) - reach, float(r) + reach, r) for r in reversed(roots)]


def zero(f: Function, near: float) -> Any:
    return mp.findroot(f, near)


def j(n: int) -> Function:
    return lambda x: mp.besselj(n, x)


def y(n: int) -> Function:
    return lambda x: mp.bessely(n, x)


def ai(x: Any) -> Any:
    return mp.airyai(x)


def ai_prime(x: Any) -> Any:
    return mp.airyai(x, derivative=1)


def tables() -> list[tuple[str, str, Function, list[Piece]]]:
    """Name, meaning, function, and intervals of the variable."""
    one = [Piece(0, 1)]
    inverse = [Piece(0, 0.125), Piece(0.125, 0.5), Piece(0.5, 1)]
    return [
        ("kJ0Near", "J0, in x^2", lambda u: mp.besselj(0, mp.sqrt(u)), [Piece(0, 2.25)]),
        ("kJ0", "J0", j(0), [
            Piece(1.5, 3.4, zero(j(0), 2.4)), Piece(3.4, 4.6), Piece(4.6, 6.6, zero(j(0), 5.5)),
            Piece(6.6, 8)]),
        ("kJ1Near", "J1 / x, in x^2",
         lambda u: mp.besselj(1, mp.sqrt(u)) / mp.sqrt(u), [Piece(0, 4)]),
        ("kJ1", "J1", j(1), [
            Piece(2, 3), Piece(3, 5, zero(j(1), 3.8)), Piece(5, 6.2),
            Piece(6.2, 8, zero(j(1), 7.0))]),
        ("kY0Near", "Y0 - 2/pi log(x) J0, in x^2", y0_rest, [Piece(0, 0.25)]),
        ("kY0", "Y0", y(0), [
            Piece(0.5, 1.4, zero(y(0), 0.89)), Piece(1.4, 3), Piece(3, 5, zero(y(0), 3.95)),
            Piece(5, 6.2), Piece(6.2, 8, zero(y(0), 7.08))]),
        ("kY1Near", "(Y1 - 2/pi (log(x) J1 - 1/x)) / x, in x^2", y1_rest, [Piece(0, 1)]),
        ("kY1", "Y1", y(1), [
            Piece(1, 1.6), Piece(1.6, 3, zero(y(1), 2.2)), Piece(3, 4.6),
            Piece(4.6, 6.4, zero(y(1), 5.4)), Piece(6.4, 8)]),
        ("kP0", "P of order 0, in (8/x)^2", bessel_phase(0, "p"), one),
        ("kQ0", "x Q of order 0, in (8/x)^2", bessel_phase(0, "q"), one),
        ("kP1", "P of order 1, in (8/x)^2", bessel_phase(1, "p"), one),
        ("kQ1", "x Q of order 1, in (8/x)^2", bessel_phase(1, "q"), one),
        ("kI0Near", "I0, in x^2", i_near(0), one),
        ("kI1Near", "I1 / x, in x^2", i_near(1), one),
        ("kK0Near", "K0 + log(x/2) I0, in x^2", k0_rest, one),
        ("kK1Near", "(K1 - 1/x - log(x/2) I1) / x, in x^2", k1_rest, one),
        ("kK0Far", "sqrt(x) exp(x) K0, in 1/x", k_far(0), inverse),
        ("kK1Far", "sqrt(x) exp(x) K1, in 1/x", k_far(1), inverse),
        ("kAi", "Ai", ai, [
            Piece(-4.5, -3.6, zero(ai, -4.09)), Piece(-3.6, -2.8),
            Piece(-2.8, -1.8, zero(ai, -2.3)), Piece(-1.8, -0.6), Piece(-0.6, 0.6),
            Piece(0.6, 2.1)]),
        ("kAiPrime", "Ai'", ai_prime, [
            Piece(-4.5, -3.7), Piece(-3.7, -2.7, zero(ai_prime, -3.25)), Piece(-2.7, -1.6),
            Piece(-1.6, -0.5, zero(ai_prime, -1.02)), Piece(-0.5, 0.6), Piece(0.6, 2.1)]),
        ("kAiFar", "Ai exp(zeta) x^(1/4), in 1/zeta", airy_far(0), [
            Piece(0, 0.08), Piece(0.08, 0.25), Piece(0.25, 0.54)]),
        ("kAiPrimeFar", "-Ai' exp(zeta) x^(-1/4), in 1/zeta", airy_far(1), [
            Piece(0, 0.08), Piece(0.08, 0.25), Piece(0.25, 0.54)]),
        ("kAiP", "Ai at -y: the cosine's part, in 1/zeta^2", airy_wave("p"), [Piece(0, 0.0248)]),
        ("kAiQ", "Ai at -y: the sine's part, times zeta", airy_wave("q"), [Piece(0, 0.0248)]),
        ("kAiR", "Ai' at -y: the sine's part, in 1/zeta^2", airy_wave("r"), [Piece(0, 0.0248)]),
        ("kAiS", "Ai' at -y: the cosine's part, times zeta", airy_wave("s"), [Piece(0, 0.0248)]),
        ("kErfcx", "exp(x^2) erfc(x)", erfcx, [
            Piece(0, 0.5), Piece(0.5, 1), Piece(1, 2), Piece(2, 3.2), Piece(3.2, 5), Piece(5, 8)]),
        ("kErfcxFar", "the same times sqrt(pi) x, in 1/x^2", erfcx_far, [Piece(0, 0.015625)]),
        ("kDigammaRoots", "digamma next to its negative roots", mp.digamma,
         around(roots_of_digamma(), 0.07)),
    ]  # fmt: skip


# --- Temme's expansion ----------------------------------------------------------------------------
def stirling_series(count: int) -> list[Any]:
    """g_k of gamma(z) = sqrt(2 pi / z) (z / e)^z (g_0 + g_1 / z + ...)."""
    log = [mp.mpf(0)] * count
    for m in range(1, count // 2 + 1):
        if 2 * m - 1 < count:
            log[2 * m - 1] = mp.bernoulli(2 * m) / (2 * m * (2 * m - 1))
    found = [mp.mpf(1)] + [mp.mpf(0)] * (count - 1)
    for k in range(1, count):  # of the exponential of a series
        found[k] = mp.fsum(i * log[i] * found[k - i] for i in range(1, k + 1)) / k
    return found


def temme_coefficients(orders: int, powers: int) -> list[list[Any]]:
    """Of eta^k in c_n: the incomplete gamma functions for large a (DLMF 8.12)."""
    count = powers + 2 * orders + 4
    mu = [mp.mpf(0), mp.mpf(1)]  # lambda - 1, where eta^2 / 2 = mu - log(1 + mu)
    for m in range(2, count + 2):
        square = mp.fsum(mu[i] * mu[m + 1 - i] for i in range(2, m))
        mu.append((mp.mpf(2) / (m + 1) * mu[m - 1] - square) / 2)
    over = [mp.mpf(1)]  # eta / mu
    for k in range(1, count + 1):
        over.append(-mp.fsum(mu[i + 1] * over[k - i] for i in range(1, k + 1)))
    inverse = over[1:]  # 1 / mu - 1 / eta
    g = stirling_series(orders + 1)
    rows = [inverse]
    for n in range(1, orders):
        last, sign = rows[-1], (-1) ** n * g[n]
        rows.append([(k + 2) * last[k + 2] + sign * inverse[k] for k in range(len(last) - 2)])
    return [row[:powers] for row in rows]


def temme_text() -> str:
    rows = temme_coefficients(8, 24)
    numbers = [repr(float(c)) for row in rows for c in row]
    wrapped = ["    " + ", ".join(numbers[i : i + 4]) + "," for i in range(0, len(numbers), 4)]
    return (
        "// Of eta^k in the n-th term of Temme's expansion of the incomplete gamma functions\n"
        "inline constexpr int kTemmeTerms = 8, kTemmePowers = 24;\n"
        "inline constexpr double kTemme[] = {\n" + "\n".join(wrapped) + "\n};\n"
    )


# --- text -----------------------------------------------------------------------------------------
def table_text(name: str, meaning: str, f: Function, pieces: list[Piece]) -> str:
    rows, numbers = [], []
    for piece in pieces:
        root = piece.root
        g = f if root is None else (lambda x, root=root: f(x) / (x - root))
        powers = coefficients(g, piece.low, piece.high)
        middle = (mp.mpf(piece.low) + piece.high) / 2
        half = (mp.mpf(piece.high) - piece.low) / 2
        zero_at = two_numbers(root) if root is not None else (0.0, 0.0)
        rows.append(
            f"    {{{float(piece.high)!r}, {float(middle)!r}, {float(1 / half)!r}, "
            f"{zero_at[0]!r}, {zero_at[1]!r}, {'true' if root is not None else 'false'}, "
            f"{len(numbers)}, {len(powers)}}},"
        )
        numbers += [repr(float(c)) for c in powers]
    wrapped = ["    " + ", ".join(numbers[i : i + 4]) + "," for i in range(0, len(numbers), 4)]
    return (
        f"// {meaning}\n"
        f"inline constexpr double {name}Numbers[] = {{\n" + "\n".join(wrapped) + "\n};\n"
        f"inline constexpr Piece {name}Pieces[] = {{\n" + "\n".join(rows) + "\n};\n"
        f"inline constexpr Fit {name}{{{name}Pieces, {name}Numbers}};\n"
    )


HEAD = """// Polynomials of special functions, written by tools/fit_special.py: do not edit.
// Read fit.h for what the numbers of a piece mean.
#pragma once
#include "kernels/special/fit.h"

// clang-format off
namespace adjoint::special {

"""
TAIL = """
}  // namespace adjoint::special
"""


def text() -> str:
    return HEAD + "\n".join(table_text(*row) for row in tables()) + "\n" + temme_text() + TAIL


if __name__ == "__main__":
    made = text()
    if "--write" in sys.argv:
        TARGET.write_text(made)
    elif TARGET.read_text() != made:
        sys.exit(f"{TARGET} is not what tools/fit_special.py writes; run it with --write")
