"""
A rigid body
============

A spinning, falling top: the gradient of its final energy with respect to how it was launched.

The state is a dataclass with arithmetic, so that a Runge–Kutta step reads as in a textbook. The
gradient with respect to the initial state is a state.
"""

from dataclasses import dataclass

import adjoint as ad

GRAVITY = ad.tensor([0.0, 0.0, -9.81], dtype=ad.float64)
MASS = 2.0
INERTIA = ad.tensor([0.5, 0.8, 1.1], dtype=ad.float64)  # principal moments
DRAG = 0.05


@ad.composite(arithmetic=True)
@dataclass
class State:
    position: ad.Tensor
    velocity: ad.Tensor
    attitude: ad.Tensor  # a unit quaternion, scalar first
    spin: ad.Tensor  # in the frame of the body


def quaternion_product(a, b):
    scalar = a[0] * b[0] - (a[1:] * b[1:]).sum()
    vector = a[0] * b[1:] + b[0] * a[1:] + ad.cross(a[1:], b[1:])
    return ad.cat([scalar.reshape(1), vector])


def rate(state):
    spin = ad.cat([ad.zeros(1, dtype=ad.float64), state.spin])
    torque = -ad.cross(state.spin, INERTIA * state.spin) - DRAG * state.spin
    return State(
        position=state.velocity,
        velocity=GRAVITY - DRAG / MASS * state.velocity,
        attitude=0.5 * quaternion_product(state.attitude, spin),
        spin=torque / INERTIA,
    )


def simulate(state, steps=100, dt=0.01):
    for _ in range(steps):
        k1 = rate(state)
        k2 = rate(state + 0.5 * dt * k1)
        k3 = rate(state + 0.5 * dt * k2)
        k4 = rate(state + dt * k3)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def energy(state):
    moving = 0.5 * MASS * (state.velocity**2).sum()
    turning = 0.5 * (INERTIA * state.spin**2).sum()
    return moving + turning - MASS * (GRAVITY * state.position).sum()


def launch():
    return State(
        position=ad.tensor([0.0, 0.0, 10.0], dtype=ad.float64),
        velocity=ad.tensor([3.0, 0.0, 4.0], dtype=ad.float64),
        attitude=ad.tensor([1.0, 0.0, 0.0, 0.0], dtype=ad.float64),
        spin=ad.tensor([0.1, 5.0, 0.2], dtype=ad.float64),
    )


initial = ad.requires_grad(launch())
final = simulate(initial)
gradient = ad.autograd.grad(energy(final), initial, materialize_grads=True)

print(f"energy {energy(launch()).item():.4f} -> {energy(final).item():.4f}")
print("d energy / d position", gradient.position)
print("d energy / d velocity", gradient.velocity)
print("d energy / d spin    ", gradient.spin)

# The same along one direction, by finite differences of the whole simulation.
with ad.no_grad():
    direction = State(*(ad.cos(ad.arange(float(t.numel())).to(t)) for t in ad.flatten(launch())[0]))
    ahead = energy(simulate(launch() + 1e-6 * direction))
    behind = energy(simulate(launch() - 1e-6 * direction))
    error = abs((ahead - behind) / 2e-6 - gradient.dot(direction)) / gradient.norm()
print("agrees with finite differences:", bool(error < 1e-7))
