"""Samples and references of the special functions. Read `samples.py` first; it takes these in.

References are SciPy's, in float64; `tests/unit/tensor/test_special_errors.py` counts single ulps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
from scipy import special

from tests.ops.spec import Arr, Op, Sample

SHAPES = ((2, 3), (), (0, 3), (67,), (2, 1, 2, 1, 2))
PAIRS = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((67,), (67,)))


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def one(name: str, low: float, high: float, *avoid: float, terms: float = 0.0) -> Op:
    samples = [S(Arr(s, low, high, avoid)) for s in SHAPES]
    return Op(f"special_{name}", samples, "bifh", "float", path=f"special.{name}", method=False,
              pointwise=True, ulps=32, terms=terms)  # fmt: skip


def degrees(*shape: int) -> Arr:
    return Arr(shape, 0, 9, dtype="int64")


def polynomial(name: str) -> Op:
    low, high = (0.0, 1.0) if "shifted" in name else (-1.1, 1.1)
    pairs = [S(Arr(a, low, high), degrees(*b)) for a, b in PAIRS]
    numbers = [S(Arr((2, 3), low, high), n) for n in (0, 1, 2, 7, -1)]
    return Op(f"special_{name}", pairs + numbers, "fh", path=f"special.{name}", method=False,
              pointwise=False, ulps=32, terms=4)  # fmt: skip


POLYNOMIALS = (
    *(f"chebyshev_polynomial_{c}" for c in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{c}" for c in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)
# The derivatives by the first argument of these are refused, as in torch: it is an integer here.
FIRST = [Arr(a, 1, 6, dtype="int64") for a, _ in PAIRS]
SECOND = [Arr(b, 0.5, 6) for _, b in PAIRS]
ABOVE_ONE = [Arr(a, 2, 6, dtype="int64") for a, _ in PAIRS]

OPS = [
    one("airy_ai", -5, 3, terms=1),
    *(one(f"bessel_{c}", -5, 5, terms=1) for c in ("j0", "j1")),
    *(one(f"bessel_{c}", 0.3, 9, terms=1) for c in ("y0", "y1")),
    *(one(f"modified_bessel_{c}", 0.2, 6) for c in ("k0", "k1")),
    *(one(f"scaled_modified_bessel_{c}", 0.2, 6) for c in ("k0", "k1")),
    one("spherical_bessel_j0", -5, 5, terms=1),
    one("entr", 0.1, 3, terms=1),
    one("erfcx", -2, 6),
    one("ndtr", -4, 4),
    one("log_ndtr", -8, 4),
    one("ndtri", 0.02, 0.98, 0.5, terms=1),
    *(polynomial(name) for name in POLYNOMIALS),
    Op("special_xlog1py", [
        *(S(Arr(a), Arr(b, -0.9, 3)) for a, b in PAIRS), S(Arr((2, 3)), 0.5), S(2, Arr((3,), 0, 2)),
    ], "fh", path="special.xlog1py", method=False, ulps=32),
    Op("special_zeta", [
        *(S(x, q) for x, q in zip(ABOVE_ONE, SECOND, strict=True)), S(2.5, Arr((3,), 1, 4)),
        S(3, Arr((3,), -2.8, -0.2, (-2.0, -1.0))),
    ], "f", path="special.zeta", method=False, ulps=64),
    *(
        Op(name, [S(Arr(a, 0.5, 6), Arr(b, 0.5, 6)) for a, b in PAIRS], "f", ulps=64, terms=0,
           diff=False, inplace=True)
        for name in ("igamma", "igammac")
    ),
    *(
        Op(f"{name}_by_x", [S(a, x) for a, x in zip(FIRST, SECOND, strict=True)], "f", ulps=64,
           terms=0, path=name, method=False)
        for name in ("igamma", "igammac")
    ),
    Op("mvlgamma", [
        *(S(Arr(s, 1.2, 5), 2) for s in SHAPES), S(Arr((3,), 0.2, 3), 1), S(Arr((3,), 3, 6), p=5),
    ], "ifh", "float", ulps=32, terms=4, inplace=True),
]  # fmt: skip


# --- references -----------------------------------------------------------------------------------
def double(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: f(*(np.asarray(a, np.float64) for a in args), **kwargs)


def with_exact(f: Callable[..., Any], exact: Callable[[Any], Any]) -> Callable[..., Any]:
    """SciPy loses the phase of waves far out, where mpmath is asked instead."""

    def one_value(x: float, value: float) -> float:
        if not 1e2 < abs(x) < np.inf:
            return value
        with mp.workdps(400):
            found = exact(mp.mpf(x))
            return float(mp.re(found)) if mp.im(found) == 0 else np.nan

    def reference(x: Any) -> Any:
        return np.vectorize(one_value, otypes=[float])(x, f(x)) if np.size(x) else f(x)

    return reference


def hankel(kind: str, order: int, x: Any) -> Any:
    """Bessel's J or Y far out, by Hankel's expansion: mpmath's own takes seconds there."""
    total, term, mu = mp.mpc(1), mp.mpc(1), 4 * order * order
    for k in range(1, 20):
        term *= mp.mpc(0, mu - (2 * k - 1) ** 2) / (8 * k * abs(x))
        total += term
    wave = total * mp.expj(abs(x) - (2 * order + 1) * mp.pi / 4) * mp.sqrt(2 / (mp.pi * abs(x)))
    if kind == "y":
        return wave.imag if x > 0 else mp.nan
    return -wave.real if order and x < 0 else wave.real


def airy(x: Any) -> Any:
    return np.where(x == np.inf, 0, special.airy(x)[0])


def exact_airy(x: Any) -> Any:
    # Next to nothing, and a wave whose phase is lost.
    return mp.mpf(0) if x > 1e3 else mp.airyai(x) if x > -1e18 else mp.nan


def third(n: Any, x: Any, sign: int) -> Any:
    """Chebyshev's polynomials of the third and fourth kind: U[n] -+ U[n-1]."""
    before = np.where(n > 0, special.eval_chebyu(np.maximum(n - 1, 0), x), 0)
    return np.where(n < 0, 0, special.eval_chebyu(np.maximum(n, 0), x) + sign * before)


def of_degree(f: Callable[..., Any], shift: bool = False) -> Callable[..., Any]:
    def reference(x: Any, n: Any) -> Any:
        x = np.asarray(x, np.float64)
        n = np.asarray(n, np.int64)
        value = f(np.maximum(n, 0), 2 * x - 1 if shift else x)
        return np.where(n < 0, 0.0, value)

    return reference


def hermite(n: Any, x: Any) -> Any:
    """By recurrence in long double: SciPy's loses digits."""
    x = np.asarray(x, np.longdouble)
    found, before, now = np.ones(np.broadcast_shapes(n.shape, x.shape), x.dtype), 1 + 0 * x, 2 * x
    for k in range(1, int(np.max(n, initial=0)) + 1):
        found = np.where(n == k, now, found)
        before, now = now, 2 * x * now - 2 * k * before
    return found


def zeta(s: Any, q: Any) -> Any:
    s, q = np.asarray(s, np.float64), np.asarray(q, np.float64)
    total = np.zeros(np.broadcast_shapes(s.shape, q.shape))
    for _ in range(4):  # SciPy knows positive ones
        total = np.where(q < 0, total + q**-s, total)
        q = np.where(q < 0, q + 1, q)
    return total + special.zeta(s, q)


def mvlgamma(x: Any, p: int) -> Any:
    x = np.asarray(x, np.float64)
    return p * (p - 1) / 4 * np.log(np.pi) + sum(special.gammaln(x - k / 2) for k in range(p))


KINDS: dict[str, Callable[..., Any]] = {
    "t": special.eval_chebyt,
    "u": special.eval_chebyu,
    "v": lambda n, x: third(n, x, -1),
    "w": lambda n, x: third(n, x, 1),
}
REFERENCES: dict[str, Callable[..., Any]] = {
    "special_airy_ai": double(with_exact(airy, exact_airy)),
    **{
        f"special_bessel_{c}{n}": double(
            with_exact(getattr(special, f"{c}{n}"), partial(hankel, c, n))
        )
        for c in "jy"
        for n in (0, 1)
    },
    **{f"special_modified_bessel_{c}": double(getattr(special, c)) for c in ("k0", "k1")},
    **{
        f"special_scaled_modified_bessel_{c}": double(getattr(special, c + "e"))
        for c in ("k0", "k1")
    },
    "special_spherical_bessel_j0": double(lambda x: np.where(np.isinf(x), 0, np.sinc(x / np.pi))),
    "special_entr": double(special.entr),
    "special_erfcx": double(special.erfcx),
    "special_ndtr": double(special.ndtr),
    "special_log_ndtr": double(special.log_ndtr),
    "special_ndtri": double(special.ndtri),
    "special_xlog1py": double(special.xlog1py),
    "special_zeta": zeta,
    "igamma": double(special.gammainc),
    "igammac": double(special.gammaincc),
    "igamma_by_x": double(special.gammainc),
    "igammac_by_x": double(special.gammaincc),
    "mvlgamma": mvlgamma,
    **{f"special_chebyshev_polynomial_{c}": of_degree(f) for c, f in KINDS.items()},
    **{f"special_shifted_chebyshev_polynomial_{c}": of_degree(f, True) for c, f in KINDS.items()},
    "special_hermite_polynomial_h": of_degree(hermite),
    "special_hermite_polynomial_he": of_degree(special.eval_hermitenorm),
    "special_laguerre_polynomial_l": of_degree(special.eval_laguerre),
    "special_legendre_polynomial_p": of_degree(special.eval_legendre),
}
