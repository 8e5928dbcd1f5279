"""`adjoint.integrate`: differential equations and integrals.

Solutions have closed forms, whose constants differ in size or are stiff. The error of a solution
and of its derivatives follows from its tolerance; those of implicit methods lose a factor of ten
with each order, as steps are chosen for the solution alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

import adjoint as ad
from adjoint import integrate

from .references import Case, Numbers, newton, stacked

CASES: list[Case] = []
NOT_SOLVERS = ("BrownianPath", "OdeResult")
RTOL = 1e-10
SOLVED = (1e-8, 1e-7, 1e-6)


def add(*args: Any, **kwargs: Any) -> None:
    CASES.append(Case(*args, **kwargs))


# --- initial values -------------------------------------------------------------------------------
def enzyme(m: Any, s: Any, p: Any) -> Any:
    """Michaelis and Menten's: p is the fastest rate, the constant of half of it, the start."""
    return -p[0] * s / (p[1] + s)


def enzyme_at(p: Numbers, t: Any) -> Any:
    """By Lambert's function."""
    return p[1] * mp.lambertw(p[2] / p[1] * mp.exp((p[2] - p[0] * t) / p[1])).real


def forced(t: Any, y: Any, p: Any, cos: Any) -> Any:
    """Prothero and Robinson's stiff equation: y follows p[1] cos(t), p[0] is large."""
    return -p[0] * (y - p[1] * cos(t))


def forced_at(p: Numbers, t: Any) -> Any:
    k, a = p
    whole = a * k / (1 + k * k)
    return whole * (k * mp.cos(t) + mp.sin(t)) + (1 - whole * k) * mp.exp(-k * t)


EXPLICIT, STIFF = ("RK45", "RK23", "DOP853"), ("Radau", "BDF", "Rodas5P", "Rodas3")
# What low orders can do in few steps.
LOOSE = {"RK23": 1e-7, "Rodas3": 1e-7, "BDF": 1e-8}


def errors(method: str) -> tuple[float, float, float]:
    rtol = LOOSE.get(method, RTOL)
    return (100 * rtol, 1e3 * rtol, 1e4 * rtol)


for method in (*EXPLICIT, *STIFF):
    # Concentrations of 1e-8, rates of 1e-8, times of one.
    add(
        "solve_ivp",
        f"{method} small",
        lambda p, method=method: integrate.solve_ivp(
            lambda t, s: enzyme(ad, s, p),
            (0, 2),
            p[2:],
            method,
            rtol=LOOSE.get(method, RTOL),
            atol=LOOSE.get(method, RTOL) * 1e-10,
        ).y[0, -1:],
        lambda p: [enzyme_at(p, mpf(2))],
        (1e-8, 0.7e-8, 2e-8),
        errors(method),
        scaled=True,
    )
for method in STIFF:
    add(
        "solve_ivp",
        f"{method} stiff",
        lambda p, method=method: integrate.solve_ivp(
            lambda t, y: forced(t, y, p, ad.cos),
            (0, 1),
            [1.0],
            method,
            rtol=LOOSE.get(method, RTOL),
            atol=LOOSE.get(method, RTOL) * 1e-3,
        ).y[0, -1:],
        lambda p: [forced_at(p, mpf(1))],
        (1e6, 1.3),
        errors(method),
        scaled=True,
    )
for gradient in ("discrete", "continuous", "forward"):
    add(
        "solve_ivp",
        f"gradient {gradient}",
        lambda p, gradient=gradient: integrate.solve_ivp(
            lambda t, s, p: enzyme(ad, s, p),
            (0, 2),
            p[2:],
            "DOP853",
            args=(p,),
            rtol=RTOL,
            atol=1e-13,
            gradient=gradient,
        ).y[0, -1:],
        lambda p: [enzyme_at(p, mpf(2))],
        (1.0, 0.7, 2.0),
        (1e-9, 1e-8, 1e-7),
        # The loop that is met again backward takes no batch of gradients, and says so.
        refused=() if gradient == "discrete" else ("reverse over reverse",),
    )


def fall(p: ad.Tensor) -> ad.Tensor:
    """When a stone of a height p[0] is down at gravity p[1], and how fast."""

    def ground(t: Any, y: Any) -> Any:
        return y[0]

    ground.terminal = True  # type: ignore[attr-defined]
    found = integrate.solve_ivp(
        lambda t, y: ad.stack([y[1], -p[1] + 0 * y[1]]),
        (0, 1e5),
        ad.stack([p[0], 0 * p[0]]),
        events=ground,
        rtol=RTOL,
        atol=1e-12,
    )
    return stacked([found.t_events[0][0], found.y_events[0][0][1]])


for name, at in (("", (10.0, 9.81)), (" scaled", (1e8, 1e-1)), (" small", (1e-8, 9.81))):
    add(
        "solve_ivp",
        f"event{name}",
        fall,
        lambda p: [mp.sqrt(2 * p[0] / p[1]), -mp.sqrt(2 * p[0] * p[1])],
        at,
        (1e-9, 1e-9, 1e-8),
        scaled=bool(name),
    )


def balanced(p: ad.Tensor) -> ad.Tensor:
    """A state y' = -p[0] z with 0 = z - p[1] y, a mass matrix with a row of zeros."""
    return integrate.solve_ivp(
        lambda t, y: ad.stack([-p[0] * y[1], y[1] - p[1] * y[0]]),
        (0, 1),
        ad.stack([1 + 0 * p[0], p[1]]),
        "Rodas5P",
        mass=ad.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=ad.float64),
        rtol=RTOL,
        atol=1e-13,
    ).y[:, -1]


for name, at in (("mass", (0.5, 2.0)), ("mass scaled", (1e-8, 1e8))):
    add(
        "solve_ivp",
        name,
        balanced,
        lambda p: [mp.exp(-p[0] * p[1]), p[1] * mp.exp(-p[0] * p[1])],
        at,
        SOLVED,
        scaled="scaled" in name,
    )


def logistic(p: Any, t: Any, exp: Any) -> Any:
    return p[1] / (1 + (p[1] / p[2] - 1) * exp(-p[0] * t))


for name, at in (("", (1.5, 2.0, 0.3)), (" scaled", (1.5, 1e8, 0.3e-8))):
    add(
        "odeint",
        f"logistic{name}",
        lambda p: integrate.odeint(
            lambda y, t: p[0] * y * (1 - y / p[1]),
            p[2:],
            [0.0, 1.0, 2.0],
            rtol=RTOL,
            atol=1e-20,
            method="DOP853",
        )[1:, 0],
        lambda p: [logistic(p, mpf(t), mp.exp) for t in (1, 2)],
        at,
        SOLVED,
        scaled=bool(name),
    )


# --- boundary values ------------------------------------------------------------------------------
def layer(p: ad.Tensor) -> ad.Tensor:
    """A state y'' = p[0]^2 y between 0 and p[1]: a boundary layer where p[0] is large."""
    x = ad.linspace(0, 1, 41, dtype=ad.float64)
    found = integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], p[0] ** 2 * y[0]]),
        lambda a, b: ad.stack([a[0], b[0] - p[1]]),
        x,
        ad.zeros(2, 41, dtype=ad.float64),
        tol=1e-6,
        max_nodes=20000,
    )
    return found.sol(ad.tensor([0.5, 0.9], dtype=ad.float64))[0]


for name, at in (("plain", (2.0, 1.5)), ("scaled", (30.0, 1e8))):
    add(
        "solve_bvp",
        name,
        layer,
        lambda p: [p[1] * mp.sinh(p[0] * x) / mp.sinh(p[0]) for x in (mpf(1) / 2, mpf(0.9))],
        at,
        (1e-6, 1e-5, 1e-4),
        scaled=name == "scaled",
    )


# --- noise ----------------------------------------------------------------------------------------
def path_of(seed: int, steps: int) -> tuple[Any, list[float]]:
    """A path, and its values, which are numbers like any others for a reference."""
    path = integrate.BrownianPath(0.0, 1.0, (1,), seed)
    return path, [float(v) for v in path.at([k / steps for k in range(steps + 1)])[:, 0]]


STEPS = 8
PATH, VALUES = path_of(3, STEPS)


def walked(method: str) -> Callable[[Numbers], Numbers]:
    """The steps of a method on dy = p0 y (1 - y / p2) dt + p1 y dW, by their definition."""

    def exact(p: Numbers) -> Numbers:
        def drift(y: Any) -> Any:
            return p[0] * y * (1 - y / p[2])

        y, h = p[2] / 4, mpf(1) / STEPS
        for k in range(STEPS):
            dw = mpf(VALUES[k + 1]) - mpf(VALUES[k])
            new = y + drift(y) * h + p[1] * y * dw
            if method == "milstein":
                new += p[1] ** 2 * y * (dw**2 - h) / 2
            if method == "heun":
                new = y + (drift(y) + drift(new)) * h / 2 + p[1] * (y + new) * dw / 2
            y = new
        return [y]

    return exact


for method in ("euler", "milstein", "heun"):
    for name, at in (("plain", (0.8, 0.3, 2.0)), ("scaled", (0.8, 1e-8, 1e8))):
        add(
            "solve_sde",
            f"{method} {name}",
            lambda p, method=method: integrate.solve_sde(
                lambda t, y: p[0] * y * (1 - y / p[2]),
                lambda t, y: p[1] * y,
                (0, 1),
                p[2:] / 4,
                method,
                steps=STEPS,
                path=PATH,
            ).y[0, -1:],
            walked(method),
            at,
            scaled=name == "scaled",
        )
for name, at in (("plain", (0.8, 0.3, 2.0)), ("scaled", (0.8, 1e-8, 1e8))):
    add(
        "sdeint",
        name,
        lambda p: integrate.sdeint(
            lambda t, y: p[0] * y * (1 - y / p[2]),
            lambda t, y: p[1] * y,
            p[2:] / 4,
            [0.0, 1.0],
            steps=STEPS,
            path=PATH,
        )[-1],
        walked("euler"),
        at,
        scaled=name == "scaled",
    )


# --- integrals ------------------------------------------------------------------------------------
# Intervals are chosen for the integral: its derivatives have the same digits where the derivatives
# of the function are as smooth as itself.
add(
    "quad",
    "ends",
    lambda p: integrate.quad(
        lambda t: t * ad.exp(-p[0] * t), p[1] / 3, p[1], epsabs=0, epsrel=1e-12
    )[0].reshape(1),
    lambda p: [
        (
            (1 + p[0] * p[1] / 3) * mp.exp(-p[0] * p[1] / 3)
            - (1 + p[0] * p[1]) * mp.exp(-p[0] * p[1])
        )
        / p[0] ** 2
    ],
    (4.0, 1.5),
    (1e-11, 1e-10, 1e-9),
)
add(
    "quad",
    "infinite scaled",
    lambda p: integrate.quad(
        lambda t: p[1] * ad.exp(-p[0] * t * t), -math.inf, math.inf, epsabs=0, epsrel=1e-12
    )[0].reshape(1),
    lambda p: [p[1] * mp.sqrt(mp.pi / p[0])],
    (1.7, 1e-8),
    (1e-11, 1e-10, 1e-9),
    scaled=True,
)
add(
    "quad",
    "peak scaled",
    lambda p: integrate.quad(
        lambda t: p[1] / (p[0] ** 2 + t * t), -1.0, 1.0, epsabs=0, epsrel=1e-12
    )[0].reshape(1),
    lambda p: [2 * p[1] / p[0] * mp.atan(1 / p[0])],
    (1e-4, 1e-8),
    (1e-11, 1e-10, 1e-9),
    scaled=True,
)
add(
    "quad",
    "jump",
    lambda p: integrate.quad(
        lambda t: ad.where(t < p[0], ad.exp(p[1] * t), ad.zeros_like(t)),
        0.0,
        1.0,
        points=[p[0]],
        epsrel=1e-12,
        epsabs=0,
    )[0].reshape(1),
    lambda p: [(mp.exp(p[1] * p[0]) - 1) / p[1]],
    (0.3, 1.2),
    (1e-11, 1e-10, 1e-9),
)


# --- samples --------------------------------------------------------------------------------------
NODES = [0.0, 0.7, 1.1, 1.8, 2.5]


def samples(m: Any, p: Any) -> tuple[list[Any], list[Any]]:
    """Heights p[0] exp(-t) and places p[1] t."""
    return [p[0] * m.exp(-mpf(t)) for t in NODES], [p[1] * mpf(t) for t in NODES]


def sampled(p: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    t = ad.tensor(NODES, dtype=ad.float64)
    return p[0] * ad.exp(-t), p[1] * t


def parabola(x: Numbers, y: Numbers, low: Any, high: Any) -> Any:
    """The integral of the parabola through three points."""
    a = mp.matrix([[1, v, v * v] for v in x])
    c = mp.lu_solve(a, mp.matrix(y))
    return sum(c[k] * (high ** (k + 1) - low ** (k + 1)) / (k + 1) for k in range(3))


def trapezoids(p: Numbers) -> Numbers:
    y, x = samples(mp, p)
    parts = [(y[k] + y[k + 1]) * (x[k + 1] - x[k]) / 2 for k in range(4)]
    return [sum(parts[: k + 1]) for k in range(4)]


def parabolas(p: Numbers) -> Numbers:
    y, x = samples(mp, p)
    return [parabola(x[:3], y[:3], x[0], x[2]) + parabola(x[2:], y[2:], x[2], x[4])]


def growing(p: Numbers) -> Numbers:
    """SciPy's: each interval by the parabola that begins or, for odd ones, ends with it."""
    y, x = samples(mp, p)
    parts = [
        parabola(x[s : s + 3], y[s : s + 3], x[k], x[k + 1])
        for k, s in ((0, 0), (1, 0), (2, 2), (3, 2))
    ]
    return [sum(parts[: k + 1]) for k in range(4)]


for name, at in (("plain", (1.5, 0.8)), ("scaled", (1e8, 1e-8))):
    add(
        "trapezoid",
        name,
        lambda p: integrate.trapezoid(*sampled(p)).reshape(1),
        lambda p: trapezoids(p)[-1:],
        at,
        scaled=name == "scaled",
    )
    add(
        "cumulative_trapezoid",
        name,
        lambda p: integrate.cumulative_trapezoid(*sampled(p)),
        trapezoids,
        at,
        scaled=name == "scaled",
    )
    add(
        "simpson",
        name,
        lambda p: integrate.simpson(*sampled(p)).reshape(1),
        parabolas,
        at,
        scaled=name == "scaled",
    )
    add(
        "cumulative_simpson",
        name,
        lambda p: integrate.cumulative_simpson(*sampled(p)),
        growing,
        at,
        scaled=name == "scaled",
    )

__all__ = ["CASES", "newton"]
