"""Arguments that are not tensors: values, containers, objects, functions, and their changes."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import types
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table

table = Table("arguments")


class Mode(enum.Enum):
    A = 2.0
    B = 3.0


class Level(enum.IntEnum):
    LOW = 2
    HIGH = 3


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Config:
    rate: float = 2.0
    parts: list[float] = dataclasses.field(default_factory=lambda: [1.0])


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 2.0


@ad.composite
@dataclasses.dataclass
class State:
    x: Any
    n: int = 2


class Number(float):
    pass


class Text(str):
    scale = 2.0


class Point:
    def __init__(self, v: float) -> None:
        self.v = v

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point)

    def __hash__(self) -> int:
        return 1


def given(name: str, function: Any, *values: Any, recorded: bool = False) -> None:
    """A row: a function of a tensor and a value, called with several values, each twice."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        made = [v() if getattr(v, "__name__", "") == "<lambda>" else v for v in values]
        found = [f(ad.ones(2), v) for v in made for _ in range(2)]
        return found + [f(ad.ones(2), v) for v in made]

    program.__name__ = name
    table.add(program, recorded=recorded)


def held(name: str, function: Any, make: Any, *changes: Any, recorded: bool = False) -> None:
    """A row: a function of a tensor and an object, which is changed between calls."""

    def program(compile: Compile) -> Any:
        f, thing = compile(function), make()
        found = [f(ad.ones(2), thing) for _ in range(3)]
        for change in changes:
            change(thing)
            found += [f(ad.ones(2), thing) for _ in range(2)]
        return [found, thing if isinstance(thing, list | dict) else None]

    program.__name__ = name
    table.add(program, recorded=recorded)


given("numbers", lambda x, v: x * v, 2, 2.0, True, 3, -0.0, 0.0, recorded=True)
given("nan", lambda x, v: x * v, float("nan"), float("inf"), float("nan"), 1.0)
given("complex numbers", lambda x, v: x * v, 2j, complex(0.0, -0.0), complex(-0.0, 0.0))
given("strings", lambda x, v: x * len(v), "a", "bb", "", "a", recorded=True)
given("bytes", lambda x, v: x * len(v), b"a", b"bb", recorded=True)
given("None or not", lambda x, v: x * (v or 5), None, 2, 0, recorded=True)
given("tuples", lambda x, v: x * sum(v), (1,), (1, 2), (1.0, 2), (), recorded=True)
given("lists", lambda x, v: x * sum(v), [1], [1, 2], [1.0, 2], [], recorded=True)
given("a list or a tuple", lambda x, v: x * (2 if isinstance(v, list) else 3), [1], (1,), [1])
given("dicts", lambda x, v: x * sum(v.values()), {"a": 1}, {"a": 2}, {"b": 1}, {}, recorded=True)
given(
    "the order of dicts",
    lambda x, v: x * next(iter(v.values())),
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
)
given("sets", lambda x, v: x * len(v), {1}, {1, 2}, frozenset([1]))
given(
    "slices", lambda x, v: x[v] * 2, slice(0, 1), slice(0, 2), slice(None, None, 2), recorded=True
)
given("ranges", lambda x, v: x * sum(v), range(3), range(4), range(0, 3, 2), recorded=True)
given("ellipsis", lambda x, v: x[v] * 2, ..., None, 0)
given("enums", lambda x, v: x * v.value, Mode.A, Mode.B, Mode.A, recorded=True)
given("int enums", lambda x, v: x * v, Level.LOW, Level.HIGH, 2)
given("dtypes", lambda x, v: x.to(v) * 2, ad.float64, ad.float32, ad.int64, recorded=True)
given("devices", lambda x, v: x.to(v) * 2, ad.device("cpu"), "cpu")
given("sizes", lambda x, v: x.reshape(v) * 2, ad.Size([2, 1]), (1, 2), [2])
given(
    "numpy numbers",
    lambda x, v: x * float(v),
    np.float64(2),
    np.float32(2),
    np.int64(3),
    recorded=True,
)
given("numpy bools", lambda x, v: x * (2 if v else 3), np.True_, np.False_, True)
given("arrays", lambda x, v: x * float(v.sum()), np.ones(2), np.ones(3), np.ones(2) * 5)
given("functions", lambda x, v: v(x), ad.sin, ad.cos, nn.functional.relu, recorded=True)
given("named tuples", lambda x, v: x * v.b, Pair(1, 2), Pair(1, 3), recorded=True)
given("frozen dataclasses", lambda x, v: x * v.rate, Frozen(2.0), Frozen(3.0), Frozen(2.0))
given("dataclasses", lambda x, v: x * v.rate, Config(2.0), Config(3.0))
given("composites", lambda x, v: x * v.x * v.n, State(ad.ones(2), 2), State(ad.ones(2), 3))
given("equal but different", lambda x, v: x * v.v, Point(2.0), Point(3.0))
given("subclasses of numbers", lambda x, v: x * v, Number(2.0), 2.0, Number(3.0))
given("subclasses of strings", lambda x, v: x * len(v) * getattr(v, "scale", 1.0), Text("a"), "a")
given("decimals", lambda x, v: x * float(v), decimal.Decimal(2), decimal.Decimal(3))
given("fractions", lambda x, v: x * float(v), fractions.Fraction(1, 2), fractions.Fraction(1, 3))
given(
    "paths", lambda x, v: x * len(v.parts), pathlib.PurePosixPath("a"), pathlib.PurePosixPath("a/b")
)
given("dates", lambda x, v: x * v.day, datetime.date(2020, 1, 2), datetime.date(2020, 1, 3))
given("deltas", lambda x, v: x * v.days, datetime.timedelta(2), datetime.timedelta(3))
given("types", lambda x, v: x * len(v.__name__), int, float, Point, recorded=True)
given("modules", lambda x, v: v(x), nn.ReLU(), nn.Tanh())
given("partials", lambda x, v: v(x), functools.partial(ad.add, 1), functools.partial(ad.add, 2))
given("bound methods", lambda x, v: x * v(), Mode.A.name.upper().__len__, "four".__len__)
given("nested", lambda x, v: x * v["a"][0][1], {"a": [(1, 2)]}, {"a": [(1, 3)]}, recorded=True)
given("big integers", lambda x, v: x * (v % 1000), 10**30, 10**30 + 1)
given("a default dict", lambda x, v: x * v["a"], collections.defaultdict(int, a=2), {"a": 2})
given(
    "ordered dicts",
    lambda x, v: x * next(iter(v.values())),
    collections.OrderedDict(a=1, b=2),
    collections.OrderedDict(b=2, a=1),
)
given("a deque", lambda x, v: x * v[0], collections.deque([2]), collections.deque([3]))
given("generators", lambda x, v: x * next(v, 9), lambda: iter([1, 2]), lambda: iter([3, 4]))
given(
    "a generator of random numbers",
    lambda x, v: x + ad.randn(2, generator=v),
    ad.Generator().manual_seed(1) and None,
)

held(
    "a list that grows",
    lambda x, v: x * sum(v),
    lambda: [1.0],
    lambda v: v.append(2.0),
    recorded=True,
)
held("a list's item", lambda x, v: x * v[0], lambda: [1.0], lambda v: v.__setitem__(0, 2.0))
held("a dict's item", lambda x, v: x * v["a"], lambda: {"a": 1.0}, lambda v: v.update(a=2.0))
held(
    "an object's attribute",
    lambda x, v: x * v.a,
    lambda: Box(a=1.0),
    lambda v: setattr(v, "a", 2.0),
)
held(
    "a nested attribute",
    lambda x, v: x * v.a.b[0],
    lambda: Box(a=Box(b=[1.0])),
    lambda v: v.a.b.__setitem__(0, 2.0),
)
held(
    "an attribute comes", lambda x, v: x * getattr(v, "b", 5.0), Box, lambda v: setattr(v, "b", 2.0)
)
held("a config", lambda x, v: x * v.rate, Config, lambda v: setattr(v, "rate", 5.0))
held("a config's list", lambda x, v: x * sum(v.parts), Config, lambda v: v.parts.append(5.0))
held(
    "a frozen config", lambda x, v: x * v.rate, Frozen, lambda v: object.__setattr__(v, "rate", 5.0)
)
held(
    "a composite's number",
    lambda x, v: x * v.x * v.n,
    lambda: State(ad.ones(2)),
    lambda v: setattr(v, "n", 5),
)
held(
    "a composite's tensor",
    lambda x, v: x * v.x * v.n,
    lambda: State(ad.ones(2)),
    lambda v: setattr(v, "x", ad.ones(2) * 3),
)
held(
    "another tensor in a list",
    lambda x, v: x * v[0],
    lambda: [ad.ones(2)],
    lambda v: v.__setitem__(0, ad.zeros(2)),
)
held(
    "a tensor more in a list",
    lambda x, v: x * sum(v),
    lambda: [ad.ones(2)],
    lambda v: v.append(ad.ones(2)),
)
held(
    "a tensor in an object",
    lambda x, v: x * v.w,
    lambda: Box(w=ad.ones(2)),
    lambda v: setattr(v, "w", ad.zeros(2)),
)
held("an array", lambda x, v: x * float(v[0]), lambda: np.ones(2), lambda v: v.fill(3.0))
held(
    "an object with an array",
    lambda x, v: x * float(v.a[0]),
    lambda: Box(a=np.ones(2)),
    lambda v: v.a.fill(3.0),
)
held("a set", lambda x, v: x * len(v), lambda: {1}, lambda v: v.add(2))
held(
    "a function's attribute",
    lambda x, v: x * v.gain,
    lambda: with_gain(),
    lambda v: setattr(v, "gain", 3.0),
)
held(
    "a function's default",
    lambda x, v: v(x),
    lambda: with_default(),
    lambda v: setattr(v, "__defaults__", (3.0,)),
)
held("a function's closure", lambda x, v: v[0](x), lambda: with_closure(), lambda v: v[1](5.0))
held(
    "a class",
    lambda x, v: x * v.gain,
    lambda: type("K", (), {"gain": 2.0}),
    lambda v: setattr(v, "gain", 3.0),
)
held(
    "a module of layers",
    lambda x, v: v(x).detach(),
    lambda: nn.Linear(2, 2),
    lambda v: v.weight.data.zero_(),
)
held(
    "a bound method",
    lambda x, v: v(x),
    lambda: Holder(2.0).apply,
    lambda v: setattr(v.__self__, "v", 5.0),
)
held(
    "a partial",
    lambda x, v: v(x),
    lambda: functools.partial(lambda a, x: x * a[0], [1.0]),
    lambda v: v.args[0].__setitem__(0, 2.0),
)
held(
    "a namespace",
    lambda x, v: x * v.a,
    lambda: types.SimpleNamespace(a=1.0),
    lambda v: setattr(v, "a", 2.0),
)
held("a module", lambda x, v: x * v.a, lambda: module_with(), lambda v: setattr(v, "a", 2.0))
held(
    "its class changes",
    lambda x, v: x * v.gain(),
    lambda: Holder(2.0),
    lambda v: setattr(v, "__class__", Other),
)
held(
    "a list in a tuple",
    lambda x, v: x * v[0][0],
    lambda: ([1.0],),
    lambda v: v[0].__setitem__(0, 2.0),
)
held("a list is emptied", lambda x, v: x * len(v), lambda: [1.0, 2.0], lambda v: v.clear())
held(
    "keys are swapped",
    lambda x, v: x * sum(k * w for k, w in enumerate(v.values())),
    lambda: {"a": 1.0, "b": 2.0},
    lambda v: v.update(a=v.pop("a")),
)


class Holder:
    def __init__(self, v: float) -> None:
        self.v = v

    def apply(self, x: Any) -> Any:
        return x * self.v

    def gain(self) -> float:
        return self.v


class Other(Holder):
    def gain(self) -> float:
        return 10 * self.v


def with_gain() -> Any:
    def f() -> None: ...

    f.gain = 2.0  # type: ignore[attr-defined]
    return f


def with_default() -> Any:
    def f(x: Any, by: float = 2.0) -> Any:
        return x * by

    return f


def with_closure() -> Any:
    by = 2.0

    def f(x: Any) -> Any:
        return x * by

    def change(v: float) -> None:
        nonlocal by
        by = v

    return f, change


def module_with() -> Any:
    module: Any = types.ModuleType("given")
    module.a = 1.0
    return module


@table
def positions_and_keywords(compile: Compile) -> Any:
    f = compile(lambda x, a=1.0, *rest, b=2.0, **more: x * a + sum(rest) + b + sum(more.values()))
    x = ad.ones(2)
    calls = [
        lambda: f(x), lambda: f(x, 3.0), lambda: f(x, a=3.0), lambda: f(x, 3.0, 4.0),
        lambda: f(x, b=5.0), lambda: f(x, c=5.0), lambda: f(x, c=5.0, d=1.0),
        lambda: f(x, d=1.0, c=5.0),
    ]  # fmt: skip
    return [call() for call in calls for _ in range(2)]


@table
def tensors_in_keywords(compile: Compile) -> Any:
    f = compile(lambda **given: sum((k + 1) * t for k, t in enumerate(given.values())))
    a, b = ad.ones(2), ad.ones(2) * 2
    return [f(a=a, b=b), f(a=a, b=b), f(b=b, a=a), f(b=b, a=a), f(a=b, b=a)]


@table
def numbers_that_always_change(compile: Compile) -> Any:
    f = compile(lambda x, k: x * k)
    return [f(ad.ones(2), 0.1 * k) for k in range(40)]


@table
def objects_that_always_change(compile: Compile) -> Any:
    f = compile(lambda x, box: x * box.k)
    return [f(ad.ones(2), Box(k=float(k))) for k in range(300)]


@table
def shapes_that_always_change(compile: Compile) -> Any:
    f = compile(lambda x: x.sum() * 2)
    return [f(ad.ones(k + 1)) for k in range(40)]


@table
def state_that_always_changes(compile: Compile) -> Any:
    box = Box(k=0.0)
    f = compile(lambda x: x * box.k)
    found = []
    for k in range(40):
        box.k = float(k)
        found.append(f(ad.ones(2)))
    return found


@table
def an_address_that_is_used_again(compile: Compile) -> Any:
    f = compile(lambda x, box: x * box.k)
    found = []
    for k in range(6):
        box = Box(k=float(k % 3))
        found += [f(ad.ones(2), box), f(ad.ones(2), box)]
        del box
    return found


@table
def a_method_of_many_objects(compile: Compile) -> Any:
    class Body:
        def __init__(self, k: float) -> None:
            self.k = k

        def push(self, x: Any) -> Any:
            return x * self.k

    bodies = [Body(float(k)) for k in range(5)]
    push = compile(Body.push)
    found = [push(b, ad.ones(2)) for _ in range(2) for b in bodies]
    bodies[2].k = 9.0
    return found + [push(b, ad.ones(2)) for b in bodies]
