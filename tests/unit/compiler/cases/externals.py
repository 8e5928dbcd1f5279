"""Externals and random numbers: what is called again in each replay, and what it may change."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table, called, calls, varies

table = Table("externals and draws")


@table.recorded
def an_external_reads_state(compile: Compile) -> Any:
    box = Box(scale=2.0)
    g = ad.external(lambda v: v * box.scale)
    f = compile(lambda x: g(x.double()) + 1)
    return calls(f, lambda: setattr(box, "scale", 3.0))


@table
def an_external_counts(compile: Compile) -> Any:
    log: list[int] = []

    def count(v: Any) -> Any:
        log.append(1)
        return v * 2

    g = ad.external(count)
    f = compile(lambda x: g(x) + 1)
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), len(log)]


@table.raises
def an_external_changes_what_the_function_reads(compile: Compile) -> Any:
    box = Box(scale=1.0)

    def count(v: Any) -> Any:
        box.scale += 1.0
        return v * 2

    g = ad.external(count)
    f = compile(lambda x: g(x) * box.scale)
    x = ad.ones(2, dtype=ad.float64)
    return [f(x) for _ in range(4)]


@table
def an_external_writes_a_tensor(compile: Compile) -> Any:
    buffer = ad.zeros(2, dtype=ad.float64)

    def write(v: Any) -> Any:
        buffer.add_(1)
        return v * 2

    g = ad.external(write)
    f = compile(lambda x: g(x) + buffer)
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), buffer]


@table
def an_external_writes_a_tensor_read_before(compile: Compile) -> Any:
    buffer = ad.zeros(2, dtype=ad.float64)

    def write(v: Any) -> Any:
        buffer.add_(1)
        return v * 2

    g = ad.external(write)
    f = compile(lambda x: buffer * 3 + g(x))
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), buffer]


@table
def an_external_writes_the_array_of_a_tensor(compile: Compile) -> Any:
    array = np.zeros(2)
    buffer = ad.from_numpy(array)

    def write(v: Any) -> Any:
        array[:] += 1
        return v * 2

    g = ad.external(write)
    f = compile(lambda x: g(x) + buffer)
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), array]


@table
def an_external_writes_its_argument(compile: Compile) -> Any:
    def write(v: Any) -> Any:
        v = np.array(v)
        v += 1
        return v

    g = ad.external(write)
    f = compile(lambda x: g(x) + x)
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), x]


@table.recorded
def an_external_calls_a_compiled_function(compile: Compile) -> Any:
    inner = compile(lambda x: x * 2)

    def through(v: Any) -> Any:
        return inner(ad.tensor(np.array(v))).numpy()

    g = ad.external(through)
    f = compile(lambda x: g(x) + 1)
    x = ad.ones(2, dtype=ad.float64)
    return [*(f(x) for _ in range(4)), inner(x)]


@table
def an_external_calls_its_caller(compile: Compile) -> Any:
    def through(v: Any) -> Any:
        return v if v.sum() > 8 else f(ad.tensor(np.array(v) * 2)).numpy()

    g = ad.external(through)
    f = compile(lambda x: g(x) + 1)
    x = ad.ones(2, dtype=ad.float64)
    return [f(x) for _ in range(4)]


@table
def an_external_draws(compile: Compile) -> Any:
    rng = np.random.default_rng(3)
    g = ad.external(lambda v: v + rng.standard_normal(v.shape))
    f = compile(lambda x: g(x) * 2)
    x = ad.ones(2, dtype=ad.float64)
    return [f(x) for _ in range(4)]


@table
def an_external_draws_of_adjoint(compile: Compile) -> Any:
    g = ad.external(lambda v: v + ad.randn(2, dtype=ad.float64).numpy())
    f = compile(lambda x: g(x) * 2 + ad.randn(2, dtype=ad.float64))
    x = ad.ones(2, dtype=ad.float64)
    return [f(x) for _ in range(4)]


@table
def an_external_raises(compile: Compile) -> Any:
    box = Box(on=False)

    def maybe(v: Any) -> Any:
        if box.on:
            raise KeyError("a")
        return v * 2

    g = ad.external(maybe)
    f = compile(lambda x: g(x) + 1)
    x = ad.ones(2, dtype=ad.float64)
    found: list[Any] = [f(x) for _ in range(3)]
    box.on = True
    try:
        f(x)
    except Exception as error:
        found.append(type(error).__name__)
    box.on = False
    return [*found, f(x)]


@table
def gradients_of_an_external(compile: Compile) -> Any:
    g = ad.external(lambda v: v**2, vjp=lambda v, gr: 2 * v * gr)
    f = compile(lambda x: g(x) * 2)
    found = []
    for k in range(4):
        x = ad.full((2,), float(k), dtype=ad.float64, requires_grad=True)
        f(x).sum().backward()
        found.append(x)
    return found


@table
def another_external_in_its_place(compile: Compile) -> Any:
    box = Box(g=ad.external(lambda v: v * 2))
    f = compile(lambda x: box.g(x.double()) + 1)
    return calls(f, lambda: setattr(box, "g", ad.external(lambda v: v * 5)))


@table
def the_parameters_of_an_external(compile: Compile) -> Any:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0

        def run(self, v: Any) -> Any:
            return v * self.scale

    model = Model()
    g = ad.external(model.run)
    f = compile(lambda x: g(x.double()) + 1)
    return calls(f, lambda: setattr(model, "scale", 7.0))


# -- draws -----------------------------------------------------------------------------------------


def drawn(name: str, function: Any, recorded: bool = False) -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x: function(x))
        found = [called(f) for _ in range(4)]
        ad.manual_seed(7)
        return found + [called(f) for _ in range(2)]

    program.__name__ = name
    table.add(program, recorded=recorded)


drawn("randn", lambda x: x + ad.randn(2), recorded=True)
drawn("rand_like", lambda x: x * ad.rand_like(x), recorded=True)
drawn("randint", lambda x: x * ad.randint(0, 9, (2,)), recorded=True)
drawn("randperm", lambda x: x[ad.randperm(2)], recorded=True)
drawn("dropout", lambda x: nn.functional.dropout(x, 0.5), recorded=True)
drawn("bernoulli", lambda x: x * ad.bernoulli(ad.full((2,), 0.5)), recorded=True)
drawn("normal_", lambda x: x + ad.empty(2).normal_(), recorded=True)
drawn("multinomial", lambda x: x * ad.multinomial(ad.ones(5), 2), recorded=True)
drawn("numbers that nobody reads", lambda x: (ad.rand(3), x * 2)[1], recorded=True)
drawn("random.random", lambda x: x * random.random())
drawn("random.shuffle", lambda x: x * shuffled()[0])
drawn("np.random", lambda x: x * float(np.random.standard_normal()))
drawn("np.random.shuffle", lambda x: x * numpy_shuffled())
drawn("a seed inside", lambda x: (ad.manual_seed(3), x + ad.randn(2))[1])
drawn("a new generator", lambda x: x + ad.randn(2, generator=ad.Generator().manual_seed(1)))
drawn("fork_rng", lambda x: forked(x))
drawn("initialisers", lambda x: x * nn.init.normal_(ad.empty(2)), recorded=True)
drawn("a new layer", lambda x: nn.Linear(2, 2)(x))


def shuffled() -> list[int]:
    values = list(range(50))
    random.shuffle(values)
    return values


def numpy_shuffled() -> float:
    values = np.arange(50.0)
    np.random.shuffle(values)
    return float(values[0])


def forked(x: Any) -> Any:
    with ad.random.fork_rng():
        return x + ad.randn(2)


@table
def a_generator_of_ones_own(compile: Compile) -> Any:
    own = ad.Generator().manual_seed(1)
    f = compile(lambda x: x + ad.randn(2, generator=own))
    return [*calls(f, lambda: own.manual_seed(5)), own.get_state()]


@table
def another_generator(compile: Compile) -> Any:
    box = Box(g=ad.Generator().manual_seed(1))
    f = compile(lambda x: x + ad.randn(2, generator=box.g))
    return calls(f, lambda: setattr(box, "g", ad.Generator().manual_seed(9)))


SCIPY = {
    "norm.rvs": lambda s: float(s.norm.rvs()),
    "a frozen distribution": lambda s: float(s.norm(0, 1).rvs()),
    "uniform.rvs": lambda s: float(s.uniform.rvs(size=1)[0]),
    "multivariate normal": lambda s: float(s.multivariate_normal.rvs()),
    "a kde": lambda s: float(s.gaussian_kde(np.arange(5.0)).resample(1)[0, 0]),
}
for _name, _draw in SCIPY.items():

    def _program(compile: Compile, draw: Any = _draw) -> Any:
        from scipy import stats

        return varies(compile(lambda x: x * 0 + draw(stats)))

    _program.__name__ = f"scipy's {_name}"
    table.add(_program)


@table
def a_distribution_made_before(compile: Compile) -> Any:
    from scipy import stats

    normal = stats.norm(0, 1)
    return varies(compile(lambda x: x * 0 + float(normal.rvs())))


@table
def a_bound_draw(compile: Compile) -> Any:
    from scipy import stats

    draw = stats.norm(0, 1).rvs
    return varies(compile(lambda x: x * 0 + float(draw())))


@table
def a_density_of_scipy(compile: Compile) -> Any:
    from scipy import stats

    box = Box(d=stats.norm(0, 1))
    f = compile(lambda x: x * float(box.d.pdf(0.5)))
    return calls(f, lambda: setattr(box, "d", stats.norm(0, 2)))


@table
def a_draw_with_a_seed(compile: Compile) -> Any:
    from scipy import stats

    f = compile(lambda x: x * float(stats.norm.rvs(random_state=3)))
    return calls(f)
