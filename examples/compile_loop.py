"""
A loop, compiled
================

A chain of masses and springs, its gradient, and the same compiled: how long each takes.
"""

import time

import adjoint as ad

MASSES, STEPS, CALLS = 64, 200, 20


def simulate(x, v, stiffness):
    """Let the chain swing; the springs join neighbours."""
    for _ in range(STEPS):
        pull = stiffness * (x[1:] - x[:-1])
        force = ad.cat([pull[:1], pull[1:] - pull[:-1], -pull[-1:]])
        v = v + 0.01 * force
        x = x + 0.01 * v
    return x, v


def gradient(function):
    """Of the energy at the end, by the stiffness of each spring."""
    x, v = function(start, ad.zeros(MASSES), stiffness)
    return ad.autograd.grad((x**2).sum() + (v**2).sum(), stiffness)[0]


def milliseconds(function):
    """The fastest of a few calls: the others shared the machine."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        gradient(function)
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


start = ad.linspace(0, 1, MASSES) ** 2
stiffness = ad.full((MASSES - 1,), 3.0, requires_grad=True)
fast = ad.compile(simulate, fullgraph=True)

begin = time.perf_counter()
gradient(fast)
print(f"recorded in {1e3 * (time.perf_counter() - begin):.0f} ms")
eager, compiled = milliseconds(simulate), milliseconds(fast)
print(f"{STEPS} steps of {MASSES} masses with gradient")
print(f"eager     {eager:6.2f} ms")
print(f"compiled  {compiled:6.2f} ms, {eager / compiled:.1f} times as fast")
print("the same gradient:", ad.equal(gradient(fast), gradient(simulate)))
