"""Compiled functions give what eager ones give, whatever they read and whatever of it changes.

Every way to read a value below is compiled once and then called after each of the changes, done and
undone: a read that is not guarded shows as a difference.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import functools
import itertools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

here = sys.modules[__name__]


class Part:
    shared = 3.0

    def __init__(self, k: float) -> None:
        self.k = k
        self.parts = [k, k + 1]

    @property
    def twice(self) -> float:
        return 2 * self.k

    def times(self, t: Any) -> Any:
        return t * self.k

    def __call__(self, t: Any) -> Any:
        return t + self.k

    def __getitem__(self, i: int) -> float:
        return self.parts[i]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Any:
        return iter(self.parts)

    def __float__(self) -> float:
        return self.k


class Child(Part):
    def times(self, t: Any) -> Any:
        return super().times(t) + 1


class Slots:
    __slots__ = ("k",)


@dataclasses.dataclass
class Data:
    k: float
    inner: Any


class Named(NamedTuple):
    k: float
    parts: list[float]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(ad.ones(2))
        self.register_buffer("shift", ad.zeros(2))
        self.k = 2.0
        self.drop = nn.Dropout(0.5)

    def forward(self, t: Any) -> Any:
        return self.weight * t * self.k + self.shift + (0.0 if self.training else 1.0)


def closure(k: float) -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    def read(t: Any) -> Any:
        return t * k

    def write(to: float) -> None:
        nonlocal k
        k = to

    return read, write


def function(t: Any, by: float = 2.0, *, plus: float = 1.0, parts: Any = [1.0]) -> Any:  # noqa: B006
    return t * by + plus + parts[0]


def other(t: Any, by: float = 2.0, *, plus: float = 1.0, parts: Any = None) -> Any:
    return t - 7


number = 2.0
flag = True
numbers = [1.0, 2.0, 3.0]
table = {"a": 1.0, "b": [2.0]}
elements = {1.0, 2.0}
queue = collections.deque([1.0, 2.0])
ordered = collections.OrderedDict(a=1.0, b=2.0)
chain = collections.ChainMap({"a": 1.0}, {"b": 2.0})
array = np.array([1.0, 2.0])
namespace = types.SimpleNamespace(k=2.0, part=Part(3.0))
module = types.ModuleType("users_module")
module.k = 2.0  # type: ignore[attr-defined]
part, child, slots, data = Part(2.0), Child(2.0), Slots(), Data(2.0, Part(4.0))
slots.k = 2.0
named = Named(2.0, [1.0])
layer = Layer()
layers = nn.Sequential(Layer(), Layer())
variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=2.0)
read_cell, write_cell = closure(2.0)
partial = functools.partial(function, by=3.0, parts=[2.0])
tensor = ad.ones(2)
parts_of_parts = (Part(1.0), [Part(2.0)])

READS: list[Callable[[Any], Any]] = [
    lambda t: t * number,
    lambda t: t * 2 if flag else t,
    lambda t: t * numbers[0],
    lambda t: t * sum(numbers) + len(numbers),
    lambda t: sum([t * n for n in numbers]),
    lambda t: t * max(numbers[1:]),
    lambda t: t * table["a"] + table["b"][0],
    lambda t: sum(t * v for v in table.values() if isinstance(v, float)),
    lambda t: t * table.get("c", 5.0),
    lambda t: t * ("c" in table),
    lambda t: t * len(elements) + (1.0 in elements),
    lambda t: t * queue[0] + len(queue),
    lambda t: t * next(iter(ordered.values())),
    lambda t: t * chain["b"],
    lambda t: t * float(array[0]) + float(array.sum()),
    lambda t: t * namespace.k + namespace.part.k,
    lambda t: t * module.k,
    lambda t: t * part.k,
    lambda t: t * part.twice,
    lambda t: t * part.shared + Part.shared,
    lambda t: part.times(t),
    lambda t: part(t),
    lambda t: t * part[0] + len(part) + sum(part) + float(part),
    lambda t: child.times(t),
    lambda t: t * slots.k,
    lambda t: t * data.k + data.inner.k,
    lambda t: t * dataclasses.asdict(data)["k"],
    lambda t: t * dataclasses.replace(data, inner=None).k,
    lambda t: t * copy.deepcopy(data).inner.k,
    lambda t: t * operator.attrgetter("inner.k")(data),
    lambda t: t * named.k + named.parts[0],
    lambda t: t * vars(part)["k"],
    lambda t: t * getattr(part, "new", 1.0),
    lambda t: t * hasattr(part, "new"),
    lambda t: layer(t),
    lambda t: layers(t),
    lambda t: sum(p.sum() for p in layer.parameters()) * t,
    lambda t: t * variable.get(),
    read_cell,
    function,
    partial,
    lambda t: function(t),
    lambda t: (lambda v: v * number)(t),
    lambda t: functools.reduce(lambda a, b: a * b, numbers, t),
    lambda t: t * next(itertools.islice(numbers, 1, None)),
    lambda t: t * tensor,
    lambda t: t * parts_of_parts[0].k + parts_of_parts[1][0].k,
    lambda t: t * sorted(parts_of_parts[1], key=lambda p: p.k)[0].k,
    lambda t: t * globals()["number"],
    lambda t: t * [p.k for p in (part, child)][-1],
    lambda t: t * (lambda: [number for _ in range(1)])()[0],
]


def attribute(thing: Any, name: str, value: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    missing = object()
    plain = hasattr(thing, "__dict__") and not name.startswith("__")
    before = vars(thing).get(name, missing) if plain else getattr(thing, name)

    def undo() -> None:
        delattr(thing, name) if before is missing else setattr(thing, name, before)

    return lambda: setattr(thing, name, value), undo


def item(thing: Any, key: Any, value: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    if key in thing if isinstance(thing, dict) else True:
        before = thing[key]
        return lambda: operator.setitem(thing, key, value), lambda: operator.setitem(
            thing, key, before
        )
    return lambda: operator.setitem(thing, key, value), lambda: operator.delitem(thing, key)


def tensor_item(of: nn.Module, name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    before = getattr(of, name)
    new = nn.Parameter(before.detach() + 5) if name == "weight" else before + 5
    return lambda: setattr(of, name, new), lambda: setattr(of, name, before)


def hook() -> tuple[Callable[[], Any], Callable[[], Any]]:
    handles: list[Any] = []
    return (
        lambda: handles.append(layer.register_forward_hook(lambda m, a, out: out * 3)),
        lambda: handles.pop().remove(),
    )


def in_context() -> tuple[Callable[[], Any], Callable[[], Any]]:
    tokens: list[Any] = []
    return lambda: tokens.append(variable.set(9.0)), lambda: variable.reset(tokens.pop())


CHANGES: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    attribute(here, "number", 5.0),
    attribute(here, "number", 2),
    attribute(here, "flag", False),
    attribute(here, "numbers", [4.0, 5.0]),
    item(numbers, 0, 6.0),
    (lambda: numbers.append(9.0), numbers.pop),
    (numbers.reverse, numbers.reverse),
    item(table, "a", 7.0),
    item(table, "c", 7.0),
    item(table["b"], 0, 7.0),  # type: ignore[arg-type]
    (lambda: elements.add(9.0), lambda: elements.discard(9.0)),
    (lambda: queue.rotate(1), lambda: queue.rotate(-1)),
    (lambda: ordered.move_to_end("a"), lambda: ordered.move_to_end("b")),
    item(chain.maps[1], "b", 8.0),
    item(array, 0, 8.0),
    attribute(namespace, "k", 8.0),
    attribute(namespace, "part", Part(8.0)),
    attribute(namespace.part, "k", 8.0),
    attribute(module, "k", 8.0),
    attribute(part, "k", 8.0),
    attribute(part, "shared", 8.0),
    attribute(Part, "shared", 8.0),
    attribute(part, "new", 8.0),
    attribute(part, "times", other),
    attribute(Part, "times", lambda self, t: t),
    attribute(Part, "twice", property(lambda self: 8.0)),
    attribute(here, "part", Part(9.0)),
    item(part.parts, 0, 8.0),
    attribute(child, "k", 8.0),
    attribute(slots, "k", 8.0),
    attribute(data, "k", 8.0),
    attribute(data.inner, "k", 8.0),
    attribute(data, "inner", Part(8.0)),
    item(named.parts, 0, 8.0),
    (layer.eval, layer.train),
    (layers.eval, layers.train),
    attribute(layer, "k", 8.0),
    attribute(layers[1], "k", 8.0),
    tensor_item(layer, "weight"),
    tensor_item(layer, "shift"),
    tensor_item(layers[0], "weight"),
    hook(),
    attribute(layer, "forward", other),
    in_context(),
    (lambda: write_cell(8.0), lambda: write_cell(2.0)),
    attribute(function, "__defaults__", (8.0,)),
    attribute(function, "__kwdefaults__", {"plus": 8.0, "parts": [8.0]}),
    attribute(function, "__code__", other.__code__),
    item(partial.keywords["parts"], 0, 8.0),
    item(partial.keywords, "by", 8.0),
    attribute(here, "function", other),
    attribute(here, "tensor", ad.zeros(2)),
    (lambda: tensor.mul_(2), lambda: tensor.div_(2)),
    attribute(parts_of_parts[1][0], "k", 8.0),  # type: ignore[index]
    (lambda: operator.setitem(parts_of_parts[1], 0, Part(9.0)), lambda: None),  # type: ignore[call-overload]
]


@pytest.fixture(autouse=True)
def _parts_as_they_were() -> Any:
    before = parts_of_parts[1][0]  # type: ignore[index]
    yield
    parts_of_parts[1][0] = before  # type: ignore[index]


@pytest.mark.parametrize("read", READS, ids=range(len(READS)))
def test_compiled_functions_see_every_change(read: Callable[[Any], Any]) -> None:
    compiled = ad.compile(read, fullgraph=True)
    t = ad.tensor([1.0, 2.0])

    def check(change: int) -> None:
        for _ in range(2):
            found, expected = compiled(t), read(t)
            assert ad.equal(found, expected), f"change {change}: {found} instead of {expected}"

    check(-1)
    for k, (change, undo) in enumerate(CHANGES):
        before = number, part, tensor
        change()
        try:
            check(k)
        finally:
            undo()
        assert all(map(operator.is_, before, (number, part, tensor)))
        check(k)
