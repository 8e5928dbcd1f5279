"""
An orbit computed by SciPy
==========================

From a composite to a composite: one orbit of a planet, computed by SciPy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import adjoint as ad


@dataclass
class Body:
    position: Any
    velocity: Any


@dataclass
class Star:
    mass: Any
    name: str = "sun"


def fly(body: Body, star: Star, time: float) -> Body:
    """Where the body is later. SciPy sees arrays, inside the same dataclasses."""

    def slope(_, y):
        return np.concatenate([y[2:], -star.mass * y[:2] / np.linalg.norm(y[:2]) ** 3])

    start = np.concatenate([body.position, body.velocity])
    found = solve_ivp(slope, (0, time), start, method="DOP853", rtol=1e-12, atol=1e-12)
    return Body(found.y[:2, -1], found.y[2:, -1])


# SciPy chooses its steps by its tolerance: results have twelve digits, not sixteen.
fly_on = ad.external(fly, static="time", noise=1e-12)

body = ad.requires_grad(
    Body(ad.tensor([1.0, 0.2], dtype=ad.float64), ad.tensor([0.1, 1.1], dtype=ad.float64))
)
star = ad.requires_grad(Star(ad.tensor(1.3, dtype=ad.float64)))
end = fly_on(body, star, time=2.0)
print("end", end.position.detach(), end.velocity.detach())

loss = (end.position**2).sum() + end.velocity[0]
ours = ad.autograd.grad(loss, (body, star))
print("gradient", ours)


def leap(body: Body, star: Star, time: float, steps: int) -> Body:
    """The same in adjoint alone, by Runge and Kutta."""
    h, p, v = time / steps, body.position, body.velocity

    def pull(x):
        return -star.mass * x / (x * x).sum() ** 1.5

    for _ in range(steps):
        v1, a1 = v, pull(p)
        v2, a2 = v + h / 2 * a1, pull(p + h / 2 * v1)
        v3, a3 = v + h / 2 * a2, pull(p + h / 2 * v2)
        v4, a4 = v + h * a3, pull(p + h * v3)
        p = p + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
        v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return Body(p, v)


other = leap(body, star, 2.0, 400)
exact = ad.autograd.grad((other.position**2).sum() + other.velocity[0], (body, star))
pairs = zip(
    (ours[0].position, ours[0].velocity, ours[1].mass),
    (exact[0].position, exact[0].velocity, exact[1].mass),
    strict=True,
)
print("gradient is right:", all(ad.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in pairs))
