"""Loops by `adjoint.scan`, with gradients, beside PyTorch's eager loop and `jax.lax.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads.data import normal
from benchmarks.workloads.transforms import array
from benchmarks.workloads.transforms import compiled as jitted

Work = Callable[[], Any]
DT, CELLS, SIDE = 0.001, 1000, 64


def lorenz_step(stack: Callable[..., Any], rates: Any) -> Callable[[Any], Any]:
    """A step of Runge and Kutta's on a state of three numbers."""

    def slope(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return stack((rates[0] * (y - x), x * (rates[1] - z) - y, x * y - rates[2] * z))

    def step(s: Any) -> Any:
        k1 = slope(s)
        k2 = slope(s + DT / 2 * k1)
        k3 = slope(s + DT / 2 * k2)
        k4 = slope(s + DT * k3)
        return s + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step


def heat_step(roll: Callable[..., Any], rate: Any) -> Callable[[Any], Any]:
    return lambda u: u + rate * (roll(u, 1) - 2 * u + roll(u, -1))


def gradient(lib: Any, leaf: Any, run: Callable[[], Any]) -> Work:
    def work() -> Any:
        leaf.grad = None
        (run() ** 2).sum().backward()
        return leaf.grad

    return work


def by_scan(lib: Any, step: Callable[[Any], Any], start: Any, steps: int) -> Callable[[], Any]:
    def body(carry: Any, _: Any) -> Any:
        return step(carry), None

    return lambda: lib.scan(body, start, length=steps)[0]


def by_hand(step: Callable[[Any], Any], start: Any, steps: int) -> Callable[[], Any]:
    def run() -> Any:
        state = start
        for _ in range(steps):
            state = step(state)
        return state

    return run


def lorenz(steps: int, scanned: bool) -> Setup:
    def prepare(lib: Any) -> Work:
        rates = lib.tensor([10.0, 28.0, 8.0 / 3.0], requires_grad=True)
        start = lib.tensor([1.0, 1.0, 1.0])
        step = lorenz_step(lib.stack, rates)
        loop = by_scan(lib, step, start, steps) if scanned else by_hand(step, start, steps)
        return gradient(lib, rates, loop)

    return prepare


def lorenz_jax(steps: int) -> Setup:
    def prepare(jax: Any) -> Work:
        jnp = jax.numpy

        def f(rates: Any) -> Any:
            step = lorenz_step(jnp.stack, rates)
            last, _ = jax.lax.scan(lambda s, _: (step(s), None), jnp.ones(3), None, steps)
            return (last**2).sum()

        return jitted(jax, jax.grad(f), jnp.array([10.0, 28.0, 8.0 / 3.0]))

    return prepare


def heat(steps: int, scanned: bool) -> Setup:
    def prepare(lib: Any) -> Work:
        rate = lib.tensor(0.2, requires_grad=True)
        start = normal(lib, CELLS, seed=0)
        step = heat_step(lib.roll, rate)
        loop = by_scan(lib, step, start, steps) if scanned else by_hand(step, start, steps)
        return gradient(lib, rate, loop)

    return prepare


def heat_jax(steps: int) -> Setup:
    def prepare(jax: Any) -> Work:
        jnp = jax.numpy
        start = array(jax, CELLS, seed=0)

        def f(rate: Any) -> Any:
            step = heat_step(jnp.roll, rate)
            last, _ = jax.lax.scan(lambda u, _: (step(u), None), start, None, steps)
            return (last**2).sum()

        return jitted(jax, jax.grad(f), jnp.float32(0.2))

    return prepare


def water_step(roll: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A step of the shallow-water equations on a periodic grid."""

    def step(state: Any, _: Any) -> Any:
        h, u, v = state
        u, v = u - 0.2 * (roll(h, -1, 0) - h), v - 0.2 * (roll(h, -1, 1) - h)
        x, y = (1 + h) * u, (1 + h) * v
        return (h - 0.02 * (x - roll(x, 1, 0) + y - roll(y, 1, 1)), u, v), None

    return step


def water(steps: int, scanned: bool) -> Setup:
    def prepare(lib: Any) -> Work:
        start = (0.1 * normal(lib, SIDE, SIDE, seed=0)).requires_grad_()
        still, step = lib.zeros(SIDE, SIDE), water_step(lib.roll)

        def run() -> Any:
            state = start, still, still
            if scanned:
                return lib.scan(step, state, length=steps)[0][0]
            for _ in range(steps):
                state, _y = step(state, None)
            return state[0]

        return gradient(lib, start, run)

    return prepare


def water_jax(steps: int) -> Setup:
    def prepare(jax: Any) -> Work:
        jnp = jax.numpy
        still = jnp.zeros((SIDE, SIDE))

        def f(start: Any) -> Any:
            last, _ = jax.lax.scan(water_step(jnp.roll), (start, still, still), None, steps)
            return (last[0] ** 2).sum()

        return jitted(jax, jax.grad(f), 0.1 * array(jax, SIDE, SIDE, seed=0))

    return prepare


def molecules_step(round_: Callable[..., Any], n: int) -> Callable[[Any, Any], Any]:
    """A step of Verlet's for particles in a periodic box, with forces by Lennard-Jones."""
    box = 1.2 * n ** (1 / 3)

    def forces(x: Any) -> Any:
        apart = x[:, None] - x[None]
        apart = apart - box * round_(apart / box)
        square = (apart * apart).sum(-1) + 0.5
        attracts = 1 / (square * square * square)
        pull = (48 * attracts * attracts - 24 * attracts) / square
        return (pull[:, :, None] * apart).sum(1)

    def step(state: Any, _: Any) -> Any:
        x, v = state
        v = v + DT / 2 * forces(x)
        x = x + DT * v
        return (x, v + DT / 2 * forces(x)), None

    return step


def molecules(n: int, steps: int, scanned: bool) -> Setup:
    def prepare(lib: Any) -> Work:
        start = (n ** (1 / 3) * normal(lib, n, 3, seed=0)).requires_grad_()
        step, still = molecules_step(lib.round, n), lib.zeros(n, 3)

        def run() -> Any:
            state = start, still
            if scanned:
                return lib.scan(step, state, length=steps)[0][0]
            for _ in range(steps):
                state, _y = step(state, None)
            return state[0]

        return gradient(lib, start, run)

    return prepare


def molecules_jax(n: int, steps: int) -> Setup:
    def prepare(jax: Any) -> Work:
        jnp = jax.numpy

        def f(start: Any) -> Any:
            state = start, jnp.zeros((n, 3))
            (x, _), _ = jax.lax.scan(molecules_step(jnp.round, n), state, None, steps)
            return (x**2).sum()

        return jitted(jax, jax.grad(f), n ** (1 / 3) * array(jax, n, 3, seed=0))

    return prepare


def with_machine_code(setup: Setup) -> Setup:
    """Steps as machine code, which llvmlite gives, from the second on."""

    def prepare(lib: Any) -> Work:
        lib.compiler.set_native("always")
        return setup(lib)

    return prepare


def lines(name: str, ours: Setup, eager: Setup, jax: Setup) -> tuple[Workload, ...]:
    """One beside PyTorch's eager loop, one beside JAX, one as machine code."""
    native = with_machine_code(ours)
    mark = Mark(speedup=1)
    return (
        *(
            Workload(
                f"{title}, beside JAX", work, mark, peer="jax", peer_setup=jax, first_call=True
            )
            for title, work in ((f"native: {name}", native), (f"scan: {name}", ours))
        ),
        Workload(f"scan: {name}", ours, Mark(speedup=10), peer_setup=eager),
    )


WORKLOADS = (
    *lines(
        "Lorenz by RK4, 1,000 steps, gradient",
        lorenz(1000, True),
        lorenz(1000, False),
        lorenz_jax(1000),
    ),
    *lines(
        "Lorenz by RK4, 3,000 steps, gradient",
        lorenz(3000, True),
        lorenz(3000, False),
        lorenz_jax(3000),
    ),
    *lines(
        "heat equation of 1,000 cells, 1,000 steps, gradient",
        heat(1000, True),
        heat(1000, False),
        heat_jax(1000),
    ),
    *lines(
        "shallow water on 64 x 64, 300 steps, gradient",
        water(300, True),
        water(300, False),
        water_jax(300),
    ),
    *lines(
        "shallow water on 64 x 64, 1,000 steps, gradient",
        water(1000, True),
        water(1000, False),
        water_jax(1000),
    ),
    *lines(
        "64 Lennard-Jones particles, 100 steps, gradient",
        molecules(64, 100, True),
        molecules(64, 100, False),
        molecules_jax(64, 100),
    ),
)
