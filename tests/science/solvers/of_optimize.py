"""`adjoint.optimize`: equations, minima and fits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

import adjoint as ad
from adjoint import optimize

from .references import Case, Numbers, linear, newton, normal, rowed, slopes, stacked

# Newton's method ends where rounding does: what is left is the condition of the equation.
CASES: list[Case] = []
NOT_SOLVERS = (
    *("ConvergenceError", "OptimizeResult", "linprog", "milp"),  # the last two are refused
    *("Bounds", "LinearConstraint", "NonlinearConstraint"),
)
BRACKETS = ("bisect", "brentq", "brenth", "ridder", "toms748")


def add(*args: Any, **kwargs: Any) -> None:
    CASES.append(Case(*args, **kwargs))


# --- equations ------------------------------------------------------------------------------------
def circle(m: Any, x: Any, p: Any) -> list[Any]:
    return [x[0] ** 2 + p[0] * x[1] ** 2 - 4, m.exp(x[0] * p[1]) + x[1] - 1]


def tank(m: Any, x: Any, p: Any) -> list[Any]:
    """A pressure of 1e8 and a gap of 1e-8 that hold each other."""
    return [x[0] * x[1] ** 2 - p[0] * x[1], x[0] / p[1] - 1 - m.sqrt(x[1] / p[2])]


def solved(fun: Any, start: Any, **options: Any) -> Callable[[ad.Tensor], ad.Tensor]:
    def ours(p: ad.Tensor) -> ad.Tensor:
        found = optimize.root(
            lambda x: ad.stack(fun(ad, x, p)), ad.tensor(start, dtype=ad.float64), **options
        )
        return found.x

    return ours


@functools.cache
def zero(fun: Any, start: Any) -> Callable[[Numbers], Numbers]:
    return lambda p: newton(lambda x: fun(mp, x, p), start)


for method in (
    "newton",
    "broyden",
    "anderson",
    "hybr",
    "lm",
    "krylov",
    "broyden1",
    "broyden2",
    "diagbroyden",
    "df-sane",
):
    add(
        "root",
        method,
        solved(circle, [-1.8, 0.8], method=method),
        zero(circle, (-1.8, 0.8)),
        (1.3, 0.9),
    )
for method in ("newton", "hybr", "lm", "broyden"):
    add(
        "root",
        f"{method} scaled",
        solved(tank, [1.4e8, 0.7e-8], method=method),
        zero(tank, (1.4e8, 0.7e-8)),
        (1.0, 1e8, 1e-8),
        scaled=True,
    )


def wave(m: Any, x: Any, p: Any) -> Any:
    return p[0] + p[1] * m.cos(x * p[2])


for method in ("anderson", "newton", "broyden"):
    add(
        "fixed_point",
        method,
        lambda p, method=method: optimize.fixed_point(
            lambda x: wave(ad, x, p), 1.0, method=method
        ).reshape(1),
        lambda p: newton(lambda x: [wave(mp, x[0], p) - x[0]], [1.0]),
        (0.5, 0.7, 0.8),
    )
    add(
        "fixed_point",
        f"{method} scaled",
        lambda p, method=method: optimize.fixed_point(
            lambda x: wave(ad, x, p), 1e8, method=method
        ).reshape(1),
        lambda p: newton(lambda x: [wave(mp, x[0], p) - x[0]], [1e8]),
        (1e8, 3e7, 1e-8),
        scaled=True,
    )


@optimize.implicit(lambda x, a, b: x**5 + a * x - b)
def quintic(a: Any, b: Any) -> Any:
    roots = np.roots([1, 0, 0, 0, float(a), -float(b)])
    x = float(roots[np.abs(roots.imag) < 1e-9 * np.abs(roots)].real[0])
    for _ in range(3):
        x -= (x**5 + float(a) * x - float(b)) / (5 * x**4 + float(a))
    return ad.tensor(x, dtype=ad.float64)


for name, at, near in (("plain", (2.0, 3.0), 1.0), ("scaled", (1e8, 1.0), 1e-8)):
    add(
        "implicit",
        name,
        lambda p: quintic(p[0], p[1]).reshape(1),
        lambda p, near=near: newton(lambda x: [x[0] ** 5 + p[0] * x[0] - p[1]], [near]),
        at,
        scaled=name == "scaled",
    )


def diode(m: Any, v: Any, p: Any, thermal: float) -> Any:
    """Currents from 1e-12 to 1e-3 ampere, scaled; p: resistance, saturation, voltage."""
    return (p[2] - v) / p[0] - p[1] * (m.exp(v / thermal) - 1)


@functools.cache
def voltage(thermal: float, near: float) -> Callable[[Numbers], Numbers]:
    return lambda p: newton(lambda v: [diode(mp, v[0], p, thermal)], [near])


for method in ("brentq", "bisect", "ridder", "toms748", "newton", "halley", "secant", None):
    for name, thermal, at in (("", 0.5, (2.0, 0.1, 5.0)), (" scaled", 0.025, (1e3, 1e-12, 5.0))):
        near = 1.4 if not name else 0.55
        how: dict[str, Any] = {"bracket": (0.0, 2 * near)}
        if method in ("newton", "halley"):
            how = {"x0": near}
        if method == "secant":
            how = {"x0": 0.9 * near, "x1": 1.1 * near}
        add(
            "root_scalar",
            f"{method}{name}",
            lambda p, method=method, how=how, thermal=thermal: optimize.root_scalar(
                lambda v: diode(ad, v, p, thermal), method=method, **how
            ).root.reshape(1),
            voltage(thermal, near),
            at,
            scaled=bool(name),
        )


for name, thermal, at in (("", 0.5, (2.0, 0.1, 5.0)), (" scaled", 0.025, (1e3, 1e-12, 5.0))):
    near = 1.4 if not name else 0.55
    for function in BRACKETS:
        add(
            function,
            f"bracket{name}",
            lambda p, function=function, near=near, thermal=thermal: getattr(optimize, function)(
                lambda v: diode(ad, v, p, thermal), 0.0, 2 * near
            ).reshape(1),
            voltage(thermal, near),
            at,
            scaled=bool(name),
        )
    add(
        "newton",
        f"diode{name}",
        lambda p, near=near, thermal=thermal: optimize.newton(
            lambda v: diode(ad, v, p, thermal), near
        ).reshape(1),
        voltage(thermal, near),
        at,
        scaled=bool(name),
    )
for name, fun, start, at in (
    ("circle", circle, [-1.8, 0.8], (1.3, 0.9)),
    ("tank scaled", tank, [1.4e8, 0.7e-8], (1.0, 1e8, 1e-8)),
):
    add(
        "fsolve",
        name,
        lambda p, fun=fun, start=start: optimize.fsolve(lambda x: fun(ad, x, p), start),
        zero(fun, tuple(start)),
        at,
        scaled=name.endswith("scaled"),
    )


# --- minima ---------------------------------------------------------------------------------------
def banana(m: Any, x: Any, p: Any) -> Any:
    return p[1] * (x[1] - x[0] ** 2) ** 2 + (p[0] - x[0]) ** 2 + 0.3 * x[0] * x[1]


def apart(m: Any, x: Any, p: Any) -> Any:
    """Unknowns of 1e-8 and 1e8, coupled."""
    u, v = x[0] / p[0], x[1] / p[1]
    return (u - 1) ** 2 + (v - 1.5) ** 2 + 0.3 * u * v + 0.1 * m.exp(u * p[2])


def least(fun: Any, start: Any, **options: Any) -> Callable[[ad.Tensor], ad.Tensor]:
    return lambda p: (
        optimize.minimize(lambda x: fun(ad, x, p), ad.tensor(start, dtype=ad.float64), **options).x
    )


@functools.cache
def flat(fun: Any, start: Any) -> Callable[[Numbers], Numbers]:
    return lambda p: newton(lambda x: slopes(lambda x: fun(mp, x, p), x), start)


for method in (
    None,
    "BFGS",
    "L-BFGS-B",
    "Newton-CG",
    "trust-ncg",
    "trust-krylov",
    "trust-exact",
    "dogleg",
    "Nelder-Mead",
    "Powell",
    "CG",
    "TNC",
    "COBYLA",
    "COBYQA",
    "SLSQP",
    "trust-constr",
):
    add(
        "minimize",
        str(method),
        least(banana, [0.8, 0.6], method=method),
        flat(banana, (0.8, 0.6)),
        (1.2, 30.0),
    )
add(
    "minimize",
    "scaled",
    least(apart, [0.7e-8, 1.3e8]),
    flat(apart, (0.7e-8, 1.3e8)),
    (1e-8, 1e8, 0.5),
    scaled=True,
)
for method in ("L-BFGS-B", "SLSQP", "trust-constr"):
    # The first is held at its bound, which moves with p[0].
    add(
        "minimize",
        f"{method} bounds",
        lambda p, method=method: (
            optimize.minimize(
                lambda x: banana(ad, x, p),
                ad.tensor([0.2, 0.1], dtype=ad.float64),
                method=method,
                bounds=[(None, p[0] / 4), (None, None)],
            ).x
        ),
        lambda p: (
            lambda low: [
                low,
                *newton(lambda y: slopes(lambda y: banana(mp, [low, y[0]], p), y), [0.1]),
            ]
        )(p[0] / 4),
        (1.2, 30.0),
    )


def tied(p: Numbers, start: Any) -> Numbers:
    """On the curve x y = p[2], by multipliers."""

    def lagrange(z: Numbers) -> Numbers:
        force = slopes(lambda x: banana(mp, x, p) - z[2] * (x[0] * x[1] - p[2]), z[:2])
        return [*force, z[0] * z[1] - p[2]]

    return newton(lagrange, start)[:2]


for method, kind in (("SLSQP", "eq"), ("trust-constr", "eq"), ("SLSQP", "ineq")):
    add(
        "minimize",
        f"{method} {kind}",
        lambda p, method=method, kind=kind: (
            optimize.minimize(
                lambda x: banana(ad, x, p),
                ad.tensor([1.0, 1.2], dtype=ad.float64),
                method=method,
                constraints={"type": kind, "fun": lambda x: x[0] * x[1] - p[2]},
            ).x
        ),
        lambda p: tied(p, [1.06, 1.14, 1.0]),
        (1.2, 30.0, 1.2),
    )


def well(m: Any, x: Any, p: Any, unit: float) -> Any:
    """Lennard-Jones atoms with a spring, lengths of 1e-10 and energies of 1e-21 where scaled."""
    r = (p[0] / x) ** 6
    return 4 * p[1] * (r * r - r) + p[2] * (x - 3 * unit) ** 2 / 2


@functools.cache
def depth(unit: float) -> Callable[[Numbers], Numbers]:
    return lambda p: newton(
        lambda x: slopes(lambda x: well(mp, x[0], p, unit), x), [mpf(3.8) * mpf(unit)]
    )


for method in ("brent", "golden", "bounded"):
    for name, unit, at in (
        ("", 1.0, (3.4, 1.65, 0.05)),
        (" scaled", 1e-10, (3.4e-10, 1.65e-21, 0.05)),
    ):
        how = {"bracket": (3.2 * unit, 4 * unit)}
        if method == "bounded":
            how = {"bounds": (3.2 * unit, 6 * unit)}
        add(
            "minimize_scalar",
            f"{method}{name}",
            lambda p, method=method, unit=unit, how=how: optimize.minimize_scalar(
                lambda x: well(ad, x, p, unit), method=method, **how
            ).x.reshape(1),
            depth(unit),
            at,
            scaled=bool(name),
        )


# --- fits -----------------------------------------------------------------------------------------
TIMES = [0.1, 0.4, 0.7, 1.1, 1.6, 2.2]
OFF = [0.02, -0.03, 0.01, 0.02, -0.02, 0.01]


def decay(m: Any, x: Any, t: Any) -> Any:
    return x[0] * m.exp(-x[1] * t)


def misfit(m: Any, x: Any, p: Any, scales: Any = (1, 1)) -> list[Any]:
    """Points p[0] exp(-p[1] t) with errors, times in units of scales[1]."""
    return [
        decay(m, x, t * scales[1]) - p[0] * m.exp(-p[1] * t * scales[1]) - o * scales[0]
        for t, o in zip(TIMES, OFF, strict=True)
    ]


def fitted(scales: Any, **options: Any) -> Callable[[ad.Tensor], ad.Tensor]:
    start = ad.tensor([1.2 * scales[0], 1.1 / scales[1]], dtype=ad.float64)
    return lambda p: (
        optimize.least_squares(lambda x: ad.stack(misfit(ad, x, p, scales)), start, **options).x
    )


@functools.cache
def best(scales: Any, loss: Callable[[Any], Any] = lambda z: z) -> Callable[[Numbers], Numbers]:
    start = [1.5 * scales[0], 1.3 / scales[1]]

    def exact(p: Numbers) -> Numbers:
        def cost(x: Numbers) -> Any:
            return sum(loss(r**2) for r in misfit(mp, x, p, scales))

        return newton(lambda x: slopes(cost, x), start)

    return exact


for method in ("trf", "dogbox", "lm"):
    add("least_squares", method, fitted((1, 1), method=method), best((1, 1)), (1.5, 1.3))
    add(
        "least_squares",
        f"{method} scaled",
        fitted((1e8, 1e8), method=method, x_scale="jac"),
        best((mpf(10) ** 8, mpf(10) ** 8)),
        (1.5e8, 1.3e-8),
        scaled=True,
    )
add(
    "least_squares",
    "soft_l1",
    fitted((1, 1), loss="soft_l1", f_scale=0.1),
    best((1, 1), lambda z: 2 * mpf("0.01") * (mp.sqrt(1 + z / mpf("0.01")) - 1)),
    (1.5, 1.3),
    (1e-10, 1e-10, 1e-9),  # f_scale is 0.1 in float64: the reference has another last bit
)


def curve(scales: Any) -> Callable[[ad.Tensor], ad.Tensor]:
    t = ad.tensor(TIMES, dtype=ad.float64) * scales[1]
    off = ad.tensor(OFF, dtype=ad.float64) * scales[0]

    def ours(p: ad.Tensor) -> ad.Tensor:
        popt, pcov = optimize.curve_fit(
            lambda t, a, b: decay(ad, (a, b), t),
            t,
            decay(ad, p, t) + off,
            p0=[1.2 * scales[0], 1.1 / scales[1]],
        )
        return stacked([popt, pcov])

    return ours


def curve_exact(scales: Any) -> Callable[[Numbers], Numbers]:
    find = best(scales)

    def exact(p: Numbers) -> Numbers:
        a, b = x = find(p)
        rows = mp.matrix(
            [[mp.exp(-b * t), -a * t * mp.exp(-b * t)] for t in (v * scales[1] for v in TIMES)]
        )
        spread = sum(r**2 for r in misfit(mp, x, p, scales)) / (len(TIMES) - 2)
        return [*x, *((rows.T * rows) ** -1 * spread)]

    return exact


add("curve_fit", "decay", curve((1, 1)), curve_exact((1, 1)), (1.5, 1.3), (1e-11, 1e-10, 1e-9))
add(
    "curve_fit",
    "decay scaled",
    curve((1e8, 1e8)),
    curve_exact((mpf(10) ** 8, mpf(10) ** 8)),
    (1.5e8, 1.3e-8),
    (1e-11, 1e-10, 1e-9),
    scaled=True,
)


def design(m: Any, p: Any, scale: float) -> tuple[list[list[Any]], list[Any]]:
    """Columns of sizes 1, 1 and `scale`; the best second one is negative."""
    rows = [[1, t, scale * m.exp(-p[0] * t)] for t in TIMES]
    return rows, [2 - 0.3 * t + p[1] * t**2 for t in TIMES]


def held(p: Numbers, scale: Any, low: Any) -> Numbers:
    """With the second unknown at `low`."""
    rows, right = design(mp, p, mpf(scale))
    rest = [v - r[1] * low for r, v in zip(rows, right, strict=True)]
    first, last = normal([[r[0], r[2]] for r in rows], rest)
    return [first, low, last]


def tensors(p: ad.Tensor, scale: float) -> tuple[ad.Tensor, ad.Tensor]:
    rows, right = design(_Single, p, scale)
    return rowed(rows), stacked(right)


class _Single:
    exp = staticmethod(ad.exp)


for scale in (1.0, 1e-8):
    name = "plain" if scale == 1 else "scaled"
    add(
        "nnls",
        name,
        lambda p, scale=scale: optimize.nnls(*tensors(p, scale))[0],
        lambda p, scale=scale: held(p, scale, mpf(0)),
        (0.8, 0.02),
        scaled=scale != 1,
    )
    add(
        "lsq_linear",
        name,
        lambda p, scale=scale: (
            optimize.lsq_linear(
                *tensors(p, scale), bounds=(stacked([-9, p[0] / 8, -9e9]), stacked([9, 9, 9e9]))
            ).x
        ),
        lambda p, scale=scale: held(p, scale, p[0] / 8),
        (0.8, 0.02),
        scaled=scale != 1,
    )

__all__ = ["CASES", "linear"]
