"""The same work once more by `adjoint.compile`, beside PyTorch, its compiler, and `jax.jit`.

What is compiled is the very function that other lines time eagerly: forward, backward, gradients,
and the optimizer's step where there is one. JAX gets loops as `lax.scan`, its best form. PyTorch
runs transforms by `torch.func`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads import (
    bodies,
    elementwise,
    mass_spring,
    mlp,
    products,
    recurrence,
    transformer,
    transforms,
)
from benchmarks.workloads.data import normal
from benchmarks.workloads.transforms import array
from benchmarks.workloads.transforms import compiled as jitted

Work = Callable[[], Any]


def by_program(setup: Setup) -> Setup:
    """Compile the work; eager results are the reference of the comparison all the same."""
    return lambda lib: lib.compile(setup(lib), fullgraph=True)


def by_machine_code(setup: Setup) -> Setup:
    """The same with machine code from the first replay on, as llvmlite gives it."""

    def prepare(lib: Any) -> Work:
        lib.compiler.set_native("always")
        return by_program(setup)(lib)

    return prepare


def by_kernels(setup: Setup) -> Setup:
    """The same without any machine code, as where llvmlite is not installed."""

    def prepare(lib: Any) -> Work:
        lib.compiler.set_native("never")
        return by_program(setup)(lib)

    return prepare


def elementwise_jax(n: int) -> Setup:
    def prepare(jax: Any) -> Work:
        jnp = jax.numpy

        def f(x: Any) -> Any:
            return (jnp.sin(x) * jnp.exp(-x * x) + x**2).sum()

        return jitted(jax, jax.value_and_grad(f), array(jax, n, seed=0))

    return prepare


def elementwise_inductor(n: int) -> Setup:
    def prepare(torch: Any) -> Work:
        x = normal(torch, n, grad=True)

        @torch.compile
        def f(x: Any) -> Any:
            return (torch.sin(x) * torch.exp(-x * x) + x**2).sum()

        def work() -> Any:
            x.grad = None
            y = f(x)
            y.backward()
            return y, x.grad

        return work

    return prepare


def recurrence_jax(jax: Any) -> Work:
    def f(a: Any, b: Any) -> Any:
        return jax.lax.scan(lambda a, _: (jax.numpy.sin(a) * b + 0.1, None), a, None, 1000)[0]

    one, two = jax.numpy.float32(0.3), jax.numpy.float32(1.2)
    both = jax.value_and_grad(f, (0, 1))

    def flat(a: Any, b: Any) -> Any:
        value, grads = both(a, b)
        return value, *grads

    return jitted(jax, flat, one, two)


def mass_spring_jax(jax: Any) -> Work:
    jnp, dt = jax.numpy, 0.01

    def f(stiffness: Any, start: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            position, velocity = state
            pull = stiffness * (position[1:] - position[:-1])
            force = jnp.concatenate([pull, -pull[-1:]]) - jnp.concatenate([pull[:1], pull])
            velocity = velocity + dt * force
            return (position + dt * velocity, velocity), None

        zero = jnp.zeros(mass_spring.PARTICLES, jnp.float32)
        (position, _), _ = jax.lax.scan(step, (start, zero), None, mass_spring.STEPS)
        return (position * position).sum()

    start = array(jax, mass_spring.PARTICLES, seed=0)
    return jitted(jax, jax.grad(f, (0, 1)), jnp.float32(2.0), start)


def product(lib: Any) -> Work:
    """One op on three elements: what a call costs."""
    x, y = normal(lib, 3), normal(lib, 3, seed=1)
    return lambda: x * y


def compiled_product(lib: Any) -> Work:
    x, y = normal(lib, 3), normal(lib, 3, seed=1)
    function = lib.compile(lambda x, y: x * y)
    return lambda: function(x, y)


def product_jax(jax: Any) -> Work:
    return jitted(jax, lambda x, y: x * y, array(jax, 3, seed=0), array(jax, 3, seed=1))


def chain_jax(jax: Any) -> Work:
    factor = jax.numpy.array([1.01, 0.99, 1.0], jax.numpy.float32)

    def f(x: Any) -> Any:
        for _ in range(100):
            x = x * factor
        return x.sum()

    return jitted(jax, jax.grad(f), array(jax, 3, seed=0))


def hessian_product(lib: Any) -> Work:
    """The Hessian of a network's loss times a vector: forward over reverse."""
    params, (x, target) = transforms.layers(lib), transforms.samples(lib)
    vector = [array(lib, *p.shape, seed=20 + k) for k, p in enumerate(params)]

    def loss(params: list[Any]) -> Any:
        return network_loss(lib.tanh, params, x, target)

    return lambda: lib.func.jvp(lib.func.grad(loss), (params,), (vector,))[1]


def hessian_product_jax(jax: Any) -> Work:
    params, (x, target) = transforms.layers(jax), transforms.samples(jax)
    vector = [array(jax, *p.shape, seed=20 + k) for k, p in enumerate(params)]

    def product(params: Any, vector: Any) -> Any:
        def loss(params: list[Any]) -> Any:
            return network_loss(jax.numpy.tanh, params, x, target)

        return jax.jvp(jax.grad(loss), (params,), (vector,))[1]

    return jitted(jax, product, params, vector)


def network_loss(tanh: Any, params: list[Any], x: Any, target: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = params
    hidden = tanh(tanh(x @ w1.T + b1) @ w2.T + b2)
    return ((hidden @ w3.T + b3 - target) ** 2).mean()


def beside(name: str, setup: Setup, mark: Mark, jax: Setup) -> list[Workload]:
    """One line beside PyTorch eager, one beside JAX."""
    return pair(f"compiled: {name}", by_program(setup), setup, mark, jax)


def pair(name: str, work: Setup, eager: Setup, mark: Mark, jax: Setup) -> list[Workload]:
    return [
        Workload(name, work, mark, peer_setup=eager),
        Workload(f"{name}, beside JAX", work, peer="jax", peer_setup=jax, first_call=True),
    ]


ELEMENTWISE_SECONDS = {1_000_000: 1.55e-3, 10_000_000: 17e-3}


def elementwise_lines(n: int, speedup: float) -> list[Workload]:
    name = f"sin·exp expression, gradient, n={n:.0e}".replace("e+0", "e")
    setup = elementwise.setup(n)
    work, mark = by_kernels(setup), Mark(ELEMENTWISE_SECONDS.get(n), speedup)
    inductor = elementwise_inductor(n)
    return [
        *pair(f"compiled: {name}", work, setup, mark, elementwise_jax(n)),
        Workload(
            f"compiled: {name}, beside torch.compile",
            work,
            peer_setup=inductor,
            slow_start=True,
            first_call=True,
        ),
    ]


def native(name: str, setup: Setup, mark: Mark, jax: Setup) -> Workload:
    """Machine code beside `jax.jit`."""
    work, title = by_machine_code(setup), f"native: {name}, beside JAX"
    return Workload(title, work, mark, peer="jax", peer_setup=jax, first_call=True)


def native_elementwise(n: int, seconds: float) -> list[Workload]:
    name = f"sin·exp expression, gradient, n={n:.0e}".replace("e+0", "e")
    setup, mark = elementwise.setup(n), Mark(seconds=seconds)
    inductor = Workload(
        f"native: {name}, beside torch.compile",
        by_machine_code(setup),
        peer_setup=elementwise_inductor(n),
        slow_start=True,
        first_call=True,
    )
    return [native(name, setup, mark, elementwise_jax(n)), inductor]


def language_model() -> list[Workload]:
    """A training step, beside PyTorch and beside its compiler, which needs a minute for it."""
    name, work, mark = f"compiled: {transformer.STEP}", by_program(transformer.step), 45e-3
    return [
        Workload(name, work, Mark(seconds=mark, speedup=1.3), peer_setup=transformer.step),
        Workload(
            f"{name}, beside torch.compile",
            work,
            Mark(speedup=1.0),
            peer_setup=transformer.by_inductor,
            slow_start=True,
            first_call=True,
        ),
    ]


WORKLOADS = (
    native("32 bodies, 100 steps", bodies.setup, Mark(seconds=150e-6), bodies.by_jax),
    native("scalar recurrence, 1,000 steps", recurrence.setup, Mark(seconds=20e-6), recurrence_jax),
    native("mass-spring, 200 steps", mass_spring.setup, Mark(seconds=38e-6), mass_spring_jax),
    *native_elementwise(1_000_000, 1e-3),
    *native_elementwise(10_000_000, 10e-3),
    *pair(
        "compiled: x*y, shape (3,)", compiled_product, product, Mark(seconds=0.4e-6), product_jax
    ),
    *beside("chain of 100 products", products.chain, Mark(speedup=40), chain_jax),
    *beside("32 bodies, 100 steps", bodies.setup, Mark(speedup=20), bodies.by_jax),
    *beside("scalar recurrence, 1,000 steps", recurrence.setup, Mark(speedup=100), recurrence_jax),
    *beside("mass-spring, 200 steps", mass_spring.setup, Mark(speedup=40), mass_spring_jax),
    *elementwise_lines(1_000, 4.0),
    *elementwise_lines(1_000_000, 3.0),
    *elementwise_lines(10_000_000, 3.0),
    *(
        line
        for name, ours, jax in (
            ("per-sample gradients, batch 64", transforms.per_sample, transforms.per_sample_jax),
            ("Jacobian 256x256", transforms.jacobian, transforms.jacobian_jax),
            ("Hessian of 100 variables", transforms.hessian, transforms.hessian_jax),
            ("Hessian of a network times a vector", hessian_product, hessian_product_jax),
        )
        for line in beside(name, ours, Mark(speedup=1.0), jax)
    ),
    *(
        line
        for batch in (1, 32, 128)
        for line in beside(
            f"MLP, Adam step, batch {batch}", mlp.setup(batch), Mark(speedup=1.2), mlp.by_jax(batch)
        )
    ),
    *language_model(),
)
