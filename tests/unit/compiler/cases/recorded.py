"""Programs as people write them, that must be recorded: to refuse everything is no virtue."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import nn, optim

from .harness import Box, Compile, Table, called, calls

table = Table("must be recorded")
F = nn.functional
GRAVITY = 9.81
RATES = {"slow": 0.1, "fast": 0.5}


def must(name: str, function: Any, *changes: Any, make: Any = Box) -> None:
    table.row(name, make, function, *changes, recorded=True)


@dataclasses.dataclass
class Config:
    steps: int = 3
    rate: float = 0.1
    kind: str = "heun"
    weights: list[float] = dataclasses.field(default_factory=lambda: [1.0, 2.0])


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 0.1


@ad.composite
@dataclasses.dataclass
class State:
    x: Any
    history: list[Any]


class Scheme(enum.Enum):
    EULER = "euler"
    HEUN = "heun"


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Pair(NamedTuple):
    a: Any
    b: Any


class Shape:
    sides = 4

    def __init__(self, size: float) -> None:
        self.size = size

    @property
    def area(self) -> float:
        return self.size**2

    @classmethod
    def count(cls) -> int:
        return cls.sides

    @staticmethod
    def half(v: Any) -> Any:
        return v / 2

    def scaled(self, x: Any, by: float = 2.0) -> Any:
        return x * self.size * by


class Round(Shape):
    sides = 0

    def scaled(self, x: Any, by: float = 2.0) -> Any:
        return super().scaled(x, by) * math.pi


must("reversed range", lambda s, x: sum(x * k for k in reversed(range(4))))
must("range with a step", lambda s, x: sum(x * k for k in range(9, 0, -3)))
must("enumerate", lambda s, x: sum(x * k * v for k, v in enumerate([1.0, 2.0])))
must("zip", lambda s, x: sum(x * a * b for a, b in zip([1.0], [2.0], strict=True)))
must("sorted", lambda s, x: x * sorted([3.0, 1.0, 2.0], key=lambda v: -v)[0])
must("sorted names", lambda s, x: x * sum(RATES[k] for k in sorted(RATES)))
must("a comprehension", lambda s, x: sum([x * k for k in range(3) if k % 2 == 0]))
must("a dict comprehension", lambda s, x: sum({k: x * k for k in range(3)}.values()))
must("a set comprehension", lambda s, x: x * sum({k % 2 for k in range(5)}))
must("a generator expression", lambda s, x: sum(x * k for k in range(3)))
must("nested comprehensions", lambda s, x: sum(sum(x * i * j for i in range(2)) for j in range(2)))
must("a generator", lambda s, x: sum(stream(x, 3)))
must("yield from", lambda s, x: sum(twice(x)))
must("an f-string", lambda s, x: x * len(f"{s.v:.2f} and {s.v!r}"), make=lambda: Box(v=2.0))
must("isinstance", lambda s, x: x * (2.0 if isinstance(x, ad.Tensor) else 3.0))
must(
    "isinstance of many",
    lambda s, x: x * (2.0 if isinstance(s.v, int | float) else 3.0),
    make=lambda: Box(v=1),
)
must("type", lambda s, x: x * (2.0 if type(s.v) is int else 3.0), make=lambda: Box(v=1))
must("math", lambda s, x: x * math.sqrt(2.0) + math.sin(math.pi) + math.comb(4, 2))
must("round and abs", lambda s, x: x * round(abs(-2.6)) + min(1, 2) + max([1, 2]) + divmod(7, 2)[0])
must("numpy scalars", lambda s, x: x * float(np.float64(2.0) * np.sqrt(np.float32(4.0))))
must("numpy arrays", lambda s, x: x * float(np.linspace(0, 1, 5).mean() + np.arange(3).sum()))
must("numpy linalg", lambda s, x: x * float(np.linalg.norm(np.array([3.0, 4.0]))))
must("a constant array", lambda s, x: x * float(s.a.sum()), make=lambda: Box(a=np.ones(3)))
must("operator", lambda s, x: operator.add(operator.mul(x, 2.0), operator.itemgetter(0)([3.0])))
must("itertools", lambda s, x: sum(x * a * b for a, b in itertools.product([1.0, 2.0], repeat=2)))
must("pairwise", lambda s, x: sum(x * (b - a) for a, b in itertools.pairwise([1.0, 2.0, 4.0])))
must("functools.reduce", lambda s, x: functools.reduce(lambda a, b: a * b, [x, x, x]))
must("functools.partial", lambda s, x: functools.partial(operator.mul, 2.0)(x))
must(
    "a partial in state", lambda s, x: s.f(x), make=lambda: Box(f=functools.partial(scaled, by=2.0))
)
must(
    "collections",
    lambda s, x: x * sum(collections.Counter("aab").values()) + len(collections.deque([1])),
)
must("a default dict inside", lambda s, x: sum(grouped(x)["a"]))
must("a named tuple", lambda s, x: Pair(x, x * 2).b + Pair(x, x)._replace(a=x * 3).a)
must("a config", lambda s, x: x * s.rate * s.steps, lambda s: setattr(s, "rate", 0.5), make=Config)
must(
    "a config's list", lambda s, x: x * sum(s.weights), lambda s: s.weights.append(1.0), make=Config
)
must("dataclasses.replace", lambda s, x: x * dataclasses.replace(s, rate=0.5).rate, make=Config)
must(
    "replace keeps the rest",
    lambda s, x: x * dataclasses.replace(s, rate=0.5).weights[1],
    lambda s: s.weights.append(1.0),
    make=Config,
)
must("a frozen config", lambda s, x: x * s.rate, make=Frozen)
must("dataclasses.asdict", lambda s, x: x * dataclasses.asdict(s)["rate"], make=Frozen)
must("a fresh dataclass", lambda s, x: x * Config(steps=5).steps)
must(
    "an enum",
    lambda s, x: x * (2.0 if s.k is Scheme.HEUN else 3.0),
    lambda s: setattr(s, "k", Scheme.EULER),
    make=lambda: Box(k=Scheme.HEUN),
)
must("an enum by value", lambda s, x: x * len(Scheme("heun").name))
must(
    "flags",
    lambda s, x: x * (2.0 if Flags.A in s.k else 3.0),
    make=lambda: Box(k=Flags.A | Flags.B),
)
must("globals", lambda s, x: x * GRAVITY * RATES["slow"])
must(
    "a method", lambda s, x: s.scaled(x), lambda s: setattr(s, "size", 3.0), make=lambda: Shape(2.0)
)
must("an inherited method", lambda s, x: s.scaled(x, by=3.0), make=lambda: Round(2.0))
must("a property", lambda s, x: x * s.area, make=lambda: Shape(2.0))
must("a class method", lambda s, x: x * s.count() + Shape.half(4.0), make=lambda: Shape(2.0))
must("an object made inside", lambda s, x: Shape(2.0).scaled(x))
must("a class made inside", lambda s, x: x * type("K", (), {"v": 2.0}).v)
must("a closure made inside", lambda s, x: adder(2.0)(x))
must("a counter inside", lambda s, x: x * counted(3))
must("a list inside", lambda s, x: sum(collected(x)))
must("a while loop", lambda s, x: looped(x))
must("try and finally", lambda s, x: tried(x))
must("an exception that is caught", lambda s, x: x * caught())
must("a context manager", lambda s, x: within(x))
must("match", lambda s, x: x * matched(s.v), make=lambda: Box(v=("a", 2.0)))
must(
    "star arguments",
    lambda s, x: spread(x, *s.v, **s.k),
    make=lambda: Box(v=[1.0, 2.0], k={"c": 3.0}),
)
must("unpacking", lambda s, x: unpacked(x, s.v), make=lambda: Box(v=[1.0, 2.0, 3.0, 4.0]))
must("a walrus", lambda s, x: (y := x * 2) + y)
must(
    "a conditional",
    lambda s, x: x * 2 if s.v > 1 else x * 3,
    lambda s: setattr(s, "v", 0),
    make=lambda: Box(v=2),
)
must("slices", lambda s, x: x[: s.n] * 2, make=lambda: Box(n=1))
must(
    "strings",
    lambda s, x: x * len(["a", "b"]) + "abc".index("c") + int("3") + "a".upper().count("A"),
)
must(
    "string methods",
    lambda s, x: x * (2.0 if s.name.startswith("lin") else 3.0),
    make=lambda: Box(name="linear"),
)
must(
    "a chain of attributes",
    lambda s, x: x * s.a.b.c,
    lambda s: setattr(s.a.b, "c", 3.0),
    make=lambda: Box(a=Box(b=Box(c=2.0))),
)
must(
    "nested containers",
    lambda s, x: x * s["a"][0]["b"],
    lambda s: s["a"][0].update(b=3.0),
    make=lambda: {"a": [{"b": 2.0}]},
)
must(
    "any and all",
    lambda s, x: x * (2.0 if any(v > 1 for v in s.v) and all(s.v) else 3.0),
    make=lambda: Box(v=[1, 2]),
)
must(
    "copying a list", lambda s, x: x * sum(s.v[:] + [*s.v] + list(s.v)), make=lambda: Box(v=[1, 2])
)
must("merging dicts", lambda s, x: x * sum((s | {"b": 2.0}).values()), make=lambda: {"a": 1.0})
must(
    "a lambda in state",
    lambda s, x: s.f(x),
    lambda s: setattr(s, "f", lambda x: x * 3),
    make=lambda: Box(f=lambda x: x * 2),
)
must(
    "functions in a dict", lambda s, x: s["relu"](x), make=lambda: {"relu": F.relu, "tanh": ad.tanh}
)
must("a decorated function", lambda s, x: doubled(x))
must("recursion", lambda s, x: power(x, 5))
must("lru_cache that is warm", lambda s, x: x * 2.0)
must("assert", lambda s, x: asserted(x))
must("a type alias", lambda s, x: x * len(list[int].__args__))
must("hasattr of a method", lambda s, x: x * (1 + hasattr(s, "scaled")), make=lambda: Shape(1.0))
must("getattr of a constant", lambda s, x: x.sin() + F.relu(x))
must("a simple namespace", lambda s, x: x * s.rate, make=lambda: types.SimpleNamespace(rate=2.0))
must("complex numbers", lambda s, x: (x * (1 + 2j)).real)
must("integers", lambda s, x: x * (7 // 2 + 7 % 3 + 2**5 + (5 & 3) + (1 << 2)))
must(
    "equality of strings",
    lambda s, x: x if s.k == "a" else x * 2,
    lambda s: setattr(s, "k", "b"),
    make=lambda: Box(k="a"),
)
must("in a tuple", lambda s, x: x * (2.0 if s.k in ("a", "b") else 3.0), make=lambda: Box(k="a"))
must("shapes", lambda s, x: x.reshape(*x.shape, 1).squeeze(-1) * math.prod(x.shape))
must("dtype of a tensor", lambda s, x: x.to(ad.float64) if x.dtype == ad.float32 else x)
must(
    "tensors in containers",
    lambda s, x: sum(t * x for t in s.ts),
    make=lambda: Box(ts=[ad.ones(2), ad.ones(2) * 2]),
)
must("stack and cat", lambda s, x: ad.stack([x, x * 2]).sum(0) + ad.cat([x, x])[:2])
must("einsum", lambda s, x: ad.einsum("i,i->i", x, x))
must("where and masks", lambda s, x: ad.where(x > 0, x, -x))
must("vmap", lambda s, x: ad.func.vmap(lambda v: v * 2)(x))
must("grad", lambda s, x: ad.func.grad(lambda v: (v**2).sum())(x))


def stream(x: Any, n: int) -> Iterator[Any]:
    for k in range(n):
        yield x * k


def twice(x: Any) -> Iterator[Any]:
    yield from stream(x, 2)
    yield from [x, x]


def scaled(x: Any, by: float) -> Any:
    return x * by


def grouped(x: Any) -> Any:
    found = collections.defaultdict(list)
    found["a"].append(x)
    return found


def adder(n: float) -> Any:
    def add(x: Any) -> Any:
        return x + n

    return add


def counted(n: int) -> int:
    count = 0

    def up() -> None:
        nonlocal count
        count += 1

    for _ in range(n):
        up()
    return count


def collected(x: Any) -> list[Any]:
    out = []
    for k in range(3):
        out.append(x * k)
    return out


def looped(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if k == 2:
            continue
        if k > 4:
            break
        x = x * k
    else:
        x = x + 100
    return x


def tried(x: Any) -> Any:
    try:
        return x * 2
    finally:
        x = x + 1


def caught() -> float:
    try:
        return [1.0][5]
    except IndexError:
        return 2.0


@contextlib.contextmanager
def doubling() -> Iterator[float]:
    yield 2.0


def within(x: Any) -> Any:
    with doubling() as by, ad.enable_grad():
        return x * by


def matched(v: Any) -> float:
    match v:
        case ("a", float() as n):
            return n
        case _:
            return 1.0


def spread(x: Any, a: float, b: float, c: float = 0.0) -> Any:
    return x * a + b + c


def unpacked(x: Any, v: Any) -> Any:
    first, *_, last = v
    return x * first + last


def decorator(f: Any) -> Any:
    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs) * 2

    return inner


@decorator
def doubled(x: Any) -> Any:
    return x + 1


def power(x: Any, n: int) -> Any:
    return x if n == 1 else x * power(x, n - 1)


def asserted(x: Any) -> Any:
    assert x.ndim == 1, "one axis"
    return x * 2


# -- programs --------------------------------------------------------------------------------------


@table.recorded
def a_training_loop(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = compile(step)
    losses = [f(x := ad.randn(8, 2), x.sum(1, keepdim=True)) for _ in range(6)]
    return [losses, list(net.parameters())]


@table.recorded
def training_with_groups_and_clipping(compile: Compile) -> Any:
    net = nn.ModuleDict({"a": nn.Linear(2, 4), "b": nn.Linear(4, 1)})
    optimizer = optim.AdamW(
        [{"params": net["a"].parameters(), "lr": 0.1}, {"params": net["b"].parameters()}], lr=0.01
    )

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net["b"](net["a"](x).relu()).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    f = compile(step)
    return [[f(ad.randn(4, 2)) for _ in range(5)], list(net.parameters())]


@table.recorded
def training_by_hand(compile: Compile) -> Any:
    params = {n: ad.randn(*s, requires_grad=True) for n, s in (("w", (2, 3)), ("b", (3,)))}
    decay = {"w"}

    def step(x: Any, rate: float) -> Any:
        loss = (x @ params["w"] + params["b"]).square().mean()
        grads = ad.autograd.grad(loss, list(params.values()))
        with ad.no_grad():
            for (name, p), g in zip(params.items(), grads, strict=True):
                p -= rate * (g + (0.01 * p if name in decay else 0.0))
        return loss.detach()

    f = compile(step)
    return [[f(ad.ones(4, 2), 0.1) for _ in range(4)], params]


@table.recorded
def modules_in_lists(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
            self.heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 2)})
            self.plain = [1.0, 2.0]

        def forward(self, x: Any, head: str = "a") -> Any:
            for k, layer in enumerate(self.layers):
                x = layer(x).relu() + (x if k else 0)
            return self.heads[head](x) * sum(self.plain)

    net = Net()
    f = compile(net)
    found = []
    for head in ("a", "a", "b", "b"):
        net.zero_grad()
        y = f(ad.ones(3, 2), head)
        y.sum().backward()
        found += [y.detach(), [p.grad for p in net.parameters()]]
    net.plain.append(3.0)
    return [*found, f(ad.ones(3, 2)).detach()]


@table.recorded
def train_and_eval(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    f = compile(lambda x: net(x))
    found = [f(ad.ones(4, 2)).detach() for _ in range(3)]
    net.eval()
    found += [f(ad.ones(4, 2)).detach() for _ in range(2)]
    net.train()
    return [*found, f(ad.ones(4, 2)).detach(), list(net.buffers())]


@table.recorded
def shared_weights(compile: Compile) -> Any:
    one = nn.Linear(2, 2)
    net = nn.Sequential(one, nn.Tanh(), one)
    f = compile(net)
    found = []
    for _ in range(3):
        net.zero_grad()
        f(ad.ones(2)).sum().backward()
        found.append([p.grad for p in net.parameters()])
    return found


@table.recorded
def frozen_layers(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    f = compile(net)
    found = []
    for k in range(4):
        net[0].requires_grad_(k < 2)
        net.zero_grad()
        f(ad.ones(2)).sum().backward()
        found.append([p.grad for p in net.parameters()])
    return found


@table.recorded
def a_time_loop(compile: Compile) -> Any:
    config = Config(steps=20)

    def simulate(x: Any, v: Any, k: Any) -> Any:
        for _ in range(config.steps):
            a = -k * x
            v = v + config.rate * a
            x = x + config.rate * v
        return x, v

    f = compile(simulate)
    found = []
    for _ in range(3):
        k = ad.full((2,), 4.0, requires_grad=True)
        x, v = f(ad.ones(2), ad.zeros(2), k)
        found += [x.detach(), v.detach(), ad.autograd.grad((x * v).sum(), k)[0]]
    config.steps = 10
    return [*found, f(ad.ones(2), ad.zeros(2), ad.full((2,), 4.0))]


@table.recorded
def a_time_loop_of_objects(compile: Compile) -> Any:
    class Body:
        def __init__(self, mass: float) -> None:
            self.mass = mass
            self.forces = [self.spring, self.drag]

        def spring(self, x: Any, v: Any) -> Any:
            return -x * 3.0

        def drag(self, x: Any, v: Any) -> Any:
            return -v * 0.1

        def step(self, x: Any, v: Any, h: float = 0.01) -> Any:
            a = sum(f(x, v) for f in self.forces) / self.mass
            return x + h * v, v + h * a

    body = Body(2.0)

    def run(x: Any, v: Any) -> Any:
        for _ in range(10):
            x, v = body.step(x, v)
        return x

    f = compile(run)
    x = ad.ones(2, requires_grad=True)
    found = [called(f, x, ad.zeros(2)) for _ in range(3)]
    body.mass = 3.0
    return [*found, called(f, x, ad.zeros(2))]


@table.recorded
def runge_kutta_with_a_tableau(compile: Compile) -> Any:
    tableau = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0))
    weights = np.array([1, 2, 2, 1]) / 6

    def step(f: Any, y: Any, h: float) -> Any:
        ks: list[Any] = []
        for row in tableau:
            ks.append(f(y + h * sum((a * k for a, k in zip(row, ks, strict=True)), y * 0)))
        return y + h * sum(float(w) * k for w, k in zip(weights, ks, strict=True))

    def run(y: Any) -> Any:
        for _ in range(3):
            y = step(lambda v: -v.sin(), y, 0.1)
        return y

    return calls(compile(run))


@table.recorded
def composites(compile: Compile) -> Any:
    def f(state: Any, n: int) -> Any:
        for _ in range(n):
            state = dataclasses.replace(state, x=state.x * 2, history=[*state.history, state.x])
        return state

    g = compile(f)
    found = []
    for _ in range(3):
        s = g(State(ad.ones(2), []), 3)
        found += [s.x, s.history]
    return found


@table.recorded
def methods_of_objects(compile: Compile) -> Any:
    one, other = Shape(2.0), Round(3.0)
    f = compile(lambda shape, x: shape.scaled(x))
    found = [f(s, ad.ones(2)) for s in (one, one, other, other, one)]
    one.size = 5.0
    return [*found, f(one, ad.ones(2)), f(other, ad.ones(2))]


@table.recorded
def losses_in_a_dict(compile: Compile) -> Any:
    net = nn.Linear(2, 2)
    weights = {"fit": 1.0, "size": 0.1}

    def losses(x: Any, y: Any) -> Any:
        out = net(x)
        found = {"fit": F.mse_loss(out, y), "size": sum(p.square().sum() for p in net.parameters())}
        return sum(weights[k] * v for k, v in found.items()), found

    f = compile(losses)
    found = []
    for _ in range(3):
        net.zero_grad()
        total, parts = f(ad.ones(3, 2), ad.zeros(3, 2))
        total.backward()
        found += [parts["fit"].detach(), [p.grad for p in net.parameters()]]
    weights["size"] = 0.5
    return [*found, f(ad.ones(3, 2), ad.zeros(3, 2))[0].detach()]


@table.recorded
def newton(compile: Compile) -> Any:
    def solve(x: Any) -> Any:
        for _ in range(5):
            x = x - (x * x - 2.0) / (2.0 * x)
        return x

    return calls(compile(solve))


@table.recorded
def attention(compile: Compile) -> Any:
    class Attention(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.register_buffer("mask", ad.ones(4, 4).tril())

        def forward(self, x: Any) -> Any:
            b, n, w = x.shape
            q, k, v = (
                t.reshape(b, n, self.heads, w // self.heads).transpose(1, 2)
                for t in self.qkv(x).chunk(3, -1)
            )
            s = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
            s = s.masked_fill(self.mask[:n, :n] == 0, float("-inf"))
            return (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, w)

    net = Attention(4, 2)
    f = compile(net)
    found = []
    for _ in range(3):
        net.zero_grad()
        f(ad.ones(2, 3, 4)).sum().backward()
        found.append([p.grad for p in net.parameters()])
    return found
