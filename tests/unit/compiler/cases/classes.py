"""Classes: methods, descriptors, metaclasses, protocols, subclasses of built-in types."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import random
import time
from typing import Any

import numpy as np

from .harness import Box, Compile, Table, calls, varies

table = Table("classes")
row = table.row


def scale(value: Any = 3.0) -> Any:
    return lambda s: setattr(s, "scale", value)


row(
    "an attribute of a class",
    lambda: type("K", (), {"scale": 2.0}),
    lambda s, x: x * s.scale,
    scale(),
    recorded=True,
)
row(
    "an inherited attribute",
    lambda: type("K", (type("B", (), {"scale": 2.0}),), {})(),
    lambda s, x: x * s.scale,
    lambda s: scale()(type(s).__bases__[0]),
)
row(
    "a method is replaced",
    lambda: type("K", (), {"f": lambda self: 2.0})(),
    lambda s, x: x * s.f(),
    lambda s: setattr(type(s), "f", lambda self: 3.0),
)
row(
    "a method of the object",
    lambda: type("K", (), {"f": lambda self: 2.0})(),
    lambda s, x: x * s.f(),
    lambda s: setattr(s, "f", lambda: 3.0),
)
row(
    "a static method",
    lambda: type("K", (), {"f": staticmethod(lambda: 2.0)}),
    lambda s, x: x * s.f(),
    lambda s: setattr(s, "f", staticmethod(lambda: 3.0)),
)
row(
    "a class method",
    lambda: type("K", (), {"n": 2.0, "f": classmethod(lambda cls: cls.n)}),
    lambda s, x: x * s.f(),
    lambda s: setattr(s, "n", 3.0),
)
row(
    "a property's getter",
    lambda: type("K", (), {"v": property(lambda self: 2.0)})(),
    lambda s, x: x * s.v,
    lambda s: setattr(type(s), "v", property(lambda self: 3.0)),
)
row("super", lambda: Child(), lambda s, x: x * s.gain(), lambda s: setattr(s, "k", 3.0))
row(
    "super is replaced",
    lambda: type("K", (Child,), {})(),
    lambda s, x: x * s.gain(),
    lambda s: setattr(type(s), "gain", lambda self: 9.0),
)
row(
    "init_subclass",
    lambda: Registry.fresh(),
    lambda s, x: x * sum(c.k for c in s.all),
    lambda s: type("C", (s,), {"k": 5.0}),
)
row(
    "a metaclass property",
    lambda: Meta("K", (), {}),
    lambda s, x: x * s.level,
    lambda s: setattr(s, "_level", 3.0),
)
row(
    "a metaclass call",
    lambda: Meta("K", (), {"_level": 2.0}),
    lambda s, x: x * s(),
    lambda s: setattr(s, "_level", 3.0),
)
row(
    "a metaclass getitem",
    lambda: Meta("K", (), {"_level": 2.0}),
    lambda s, x: x * s[1],
    lambda s: setattr(s, "_level", 3.0),
)
row(
    "class_getitem",
    lambda: type("K", (), {"v": 2.0, "__class_getitem__": classmethod(lambda cls, k: cls.v * k)}),
    lambda s, x: x * s[2],
    lambda s: setattr(s, "v", 3.0),
)
row("set_name", lambda: Named(), lambda s, x: x * s.value, lambda s: s.__dict__.update(_value=3.0))
row(
    "a data descriptor",
    lambda: Named(),
    lambda s, x: x * s.value,
    lambda s: setattr(s, "value", 3.0),
)
row("slots", lambda: Slotted(2.0), lambda s, x: x * s.scale, scale(), recorded=True)
row(
    "slots that are inherited",
    lambda: SlottedMore(2.0),
    lambda s, x: x * s.scale * getattr(s, "more", 1.0),
    lambda s: setattr(s, "more", 3.0),
)
row(
    "a dataclass with slots",
    lambda: SlottedData(),
    lambda s, x: x * s.rate,
    lambda s: setattr(s, "rate", 3.0),
)
row(
    "new",
    lambda: Fresh,
    lambda s, x: x * s().v,
    lambda s: setattr(s, "made", 5.0),
    lambda s: setattr(s, "made", 2.0),
)
row("call", lambda: Calling(), lambda s, x: s(x), lambda s: setattr(s, "v", 3.0))
row(
    "call is replaced",
    lambda: type("K", (Calling,), {})(),
    lambda s, x: s(x),
    lambda s: setattr(type(s), "__call__", lambda self, x: x * 7),
)
row(
    "a singleton",
    lambda: Single.fresh(),
    lambda s, x: x * Single.get().v,
    lambda s: setattr(s, "v", s.v + 1),
)
row(
    "a borg",
    lambda: Borg._shared.update(v=2.0) or Borg(),
    lambda s, x: x * Borg().v,
    lambda s: setattr(s, "v", s.v + 1),
)
row(
    "a mixin",
    lambda: type("K", (Base, Child), {})(),
    lambda s, x: x * s.gain(),
    lambda s: setattr(s, "k", 7.0),
)
row(
    "an enum's value",
    lambda: Box(e=Colour.RED),
    lambda s, x: x * s.e.value,
    lambda s: setattr(s, "e", Colour.BLUE),
)
row(
    "an enum's method",
    lambda: Box(e=Colour.RED),
    lambda s, x: x * s.e.doubled(),
    lambda s: setattr(s, "e", Colour.BLUE),
)
row("members of an enum", lambda: Colour, lambda s, x: x * sum(c.value for c in s), recorded=True)
row(
    "an exception's arguments",
    lambda: ValueError(2.0),
    lambda s, x: x * s.args[0],
    lambda s: setattr(s, "args", (3.0,)),
)
row(
    "an error's attribute",
    lambda: OSError(2, "a"),
    lambda s, x: x * s.errno,
    lambda s: setattr(s, "errno", 3),
)
row(
    "an error of one's own",
    lambda: Failure("a"),
    lambda s, x: x * s.level,
    lambda s: setattr(s, "level", 3),
)
row(
    "the cause of an error",
    lambda: Failure("a"),
    lambda s, x: x * (1 + (s.__cause__ is None)),
    lambda s: setattr(s, "__cause__", ValueError()),
)
row(
    "a subclass of int",
    lambda: Level(2),
    lambda s, x: x * s * s.extra,
    lambda s: setattr(s, "extra", 3),
)
row(
    "a subclass of dict",
    lambda: Table2(a=2.0),
    lambda s, x: x * s["a"] * s.extra,
    lambda s: setattr(s, "extra", 3),
    lambda s: s.update(a=5.0),
)
row(
    "a subclass of list",
    lambda: List2([2.0]),
    lambda s, x: x * s[0] * s.extra,
    lambda s: setattr(s, "extra", 3),
    lambda s: s.append(5.0),
)
row(
    "a subclass of tuple",
    lambda: Tuple2([2.0]),
    lambda s, x: x * s[0] * s.extra,
    lambda s: setattr(s, "extra", 3),
)
row(
    "a subclass of str",
    lambda: Text("ab"),
    lambda s, x: x * len(s) * s.extra,
    lambda s: setattr(s, "extra", 3),
)
row(
    "a subclass of set",
    lambda: Set2([1]),
    lambda s, x: x * len(s) * s.extra,
    lambda s: s.add(2),
    lambda s: setattr(s, "extra", 3),
)
row(
    "a subclass of an array",
    lambda: np.ones(2).view(Array2),
    lambda s, x: x * float(s[0]),
    lambda s: s.fill(3.0),
)
row("getitem of an object", lambda: Indexed(), lambda s, x: x * s["a"], lambda s: s.d.update(a=3.0))
row(
    "iterating by getitem",
    lambda: Sequence2([1.0, 2.0]),
    lambda s, x: x * sum(s),
    lambda s: s.v.append(3.0),
)
row(
    "reversed of an object",
    lambda: Sequence2([1.0, 2.0]),
    lambda s, x: x * next(reversed(s)),
    lambda s: s.v.append(3.0),
)
row(
    "unpacking an object",
    lambda: Sequence2([1.0, 2.0]),
    lambda s, x: x * max(*s),
    lambda s: s.v.append(3.0),
)
row(
    "a matrix product of objects",
    lambda: Algebra(2.0),
    lambda s, x: x * (s @ 1.0),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "a reflected operator",
    lambda: Algebra(2.0),
    lambda s, x: x * (1.0 + s),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "an operator on a tensor",
    lambda: Algebra(2.0),
    lambda s, x: s * x,
    lambda s: setattr(s, "v", 3.0),
)
row(
    "in-place operators",
    lambda: Algebra(2.0),
    lambda s, x: x * added(s),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "comparison of objects",
    lambda: [Algebra(1.0), Algebra(2.0)],
    lambda s, x: x * (2.0 if s[0] < s[1] else 3.0),
    lambda s: setattr(s[0], "v", 5.0),
)
row(
    "abs, neg and int",
    lambda: Algebra(-2.0),
    lambda s, x: x * (abs(s) - (-s) + int(s) + round(s)),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "a context manager's state",
    lambda: Entering(2.0),
    lambda s, x: x * entered(s),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "an exit stack",
    lambda: Entering(2.0),
    lambda s, x: x * stacked(s),
    lambda s: setattr(s, "v", 3.0),
)
row(
    "a decorator with state",
    lambda: Decorated(),
    lambda s, x: s(x),
    lambda s: setattr(s, "by", 3.0),
)
row(
    "an awaited coroutine",
    lambda: Box(v=2.0),
    lambda s, x: x * awaited(s),
    lambda s: setattr(s, "v", 3.0),
)


@dataclasses.dataclass(slots=True)
class SlottedData:
    rate: float = 2.0


class Base:
    pass


class Parent:
    def gain(self) -> float:
        return float(self.k)  # type: ignore[attr-defined]


class Child(Parent):
    k = 2.0

    def gain(self) -> float:
        return 2 * super().gain()


class Registry:
    all: list[Any] = []  # noqa: RUF012

    @classmethod
    def fresh(cls) -> Any:
        def init_subclass(sub: Any) -> None:
            sub.all.append(sub)

        made = type("Registry2", (), {"all": [], "__init_subclass__": classmethod(init_subclass)})
        type("A", (made,), {"k": 2.0})
        return made


class Meta(type):
    _level = 2.0

    @property
    def level(cls) -> float:
        return cls._level

    def __call__(cls) -> Any:
        return cls._level

    def __getitem__(cls, key: int) -> float:
        return cls._level * key


class Described:
    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = "_" + name

    def __get__(self, one: Any, owner: Any = None) -> Any:
        return self if one is None else one.__dict__.get(self.name, 2.0)

    def __set__(self, one: Any, value: Any) -> None:
        one.__dict__[self.name] = value


class Named:
    value = Described()


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        self.scale = scale


class SlottedMore(Slotted):
    __slots__ = ("more",)


class Fresh:
    made = 2.0

    def __new__(cls) -> Any:
        one = super().__new__(cls)
        one.v = cls.made  # type: ignore[attr-defined]
        return one


class Calling:
    v = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.v


class Single:
    _one: Any = None

    @classmethod
    def fresh(cls) -> Any:
        cls._one = None
        return cls.get()

    @classmethod
    def get(cls) -> Any:
        if cls._one is None:
            cls._one = cls()
            cls._one.v = 2.0
        return cls._one


class Borg:
    _shared: dict[str, Any] = {"v": 2.0}  # noqa: RUF012

    def __init__(self) -> None:
        self.__dict__ = self._shared


class Colour(enum.Enum):
    RED = 2.0
    BLUE = 3.0

    def doubled(self) -> float:
        return 2 * self.value


class Failure(ValueError):
    level = 2


class Level(int):
    extra = 2


class Table2(dict):  # type: ignore[type-arg]
    extra = 2


class List2(list):  # type: ignore[type-arg]
    extra = 2


class Tuple2(tuple):  # type: ignore[type-arg]
    extra = 2


class Text(str):
    extra = 2


class Set2(set):  # type: ignore[type-arg]
    extra = 2


class Array2(np.ndarray):  # type: ignore[type-arg]
    pass


class Indexed:
    def __init__(self) -> None:
        self.d = {"a": 2.0}

    def __getitem__(self, key: str) -> float:
        return self.d[key]


class Sequence2:
    def __init__(self, v: list[float]) -> None:
        self.v = v

    def __len__(self) -> int:
        return len(self.v)

    def __getitem__(self, k: int) -> float:
        return self.v[k]


class Algebra:
    def __init__(self, v: float) -> None:
        self.v = v

    def __matmul__(self, other: float) -> float:
        return self.v * other

    def __radd__(self, other: float) -> float:
        return self.v + other

    def __mul__(self, other: Any) -> Any:
        return other * self.v

    def __iadd__(self, other: float) -> Any:
        return Algebra(self.v + other)

    def __lt__(self, other: Any) -> bool:
        return bool(self.v < other.v)

    def __abs__(self) -> float:
        return abs(self.v)

    def __neg__(self) -> float:
        return -self.v

    def __int__(self) -> int:
        return int(self.v)

    def __round__(self) -> int:
        return round(self.v)


def added(s: Any) -> float:
    s += 1.0
    return float(s.v)


class Entering:
    def __init__(self, v: float) -> None:
        self.v = v

    def __enter__(self) -> float:
        return self.v

    def __exit__(self, *error: Any) -> None:
        return None


def entered(s: Any) -> float:
    with s as v:
        return float(v)


def stacked(s: Any) -> float:
    with contextlib.ExitStack() as stack:
        return float(stack.enter_context(s))


class Decorated:
    def __init__(self) -> None:
        self.by = 2.0
        self.f = functools.wraps(multiplied)(lambda x: multiplied(x, self.by))

    def __call__(self, x: Any) -> Any:
        return self.f(x)


def awaited(s: Any) -> float:
    async def inner() -> float:
        return float(s.v)

    try:
        inner().send(None)
    except StopIteration as done:
        return float(done.value)
    return 0.0


def multiplied(x: Any, by: float) -> Any:
    return x * by


@table
def named_tuples_made_again(compile: Compile) -> Any:
    Point = collections.namedtuple("Point", "a b")
    box = Box(p=Point(2.0, [1.0]))
    f = compile(lambda x: x * box.p.a * box.p.b[0])
    return calls(
        f,
        lambda: setattr(box, "p", Point(2.0, [3.0])),
        lambda: setattr(box, "p", box.p._replace(a=9.0)),
    )


@table
def chances(compile: Compile) -> Any:
    class Dice:
        def __call__(self) -> float:
            return random.random()

    dice = Dice()
    return varies(compile(lambda x: x * 0 + dice()))


@table
def a_property_that_tells_the_time(compile: Compile) -> Any:
    class Clock:
        now = property(lambda self: time.perf_counter())

    clock = Clock()
    return varies(compile(lambda x: x * 0 + clock.now))


@table
def a_getitem_that_tells_the_time(compile: Compile) -> Any:
    class Clock:
        def __getitem__(self, key: Any) -> float:
            return time.perf_counter()

    clock = Clock()
    return varies(compile(lambda x: x * 0 + clock[0]))


@table
def a_class_attribute_that_tells_the_time(compile: Compile) -> Any:
    class Clock:
        now = time.perf_counter

    return varies(compile(lambda x: x * 0 + Clock.now()))


@table
def a_generator_that_tells_the_time(compile: Compile) -> Any:
    def clock() -> Any:
        while True:
            yield time.perf_counter()

    ticks = clock()
    return varies(compile(lambda x: x * 0 + next(ticks)))


@table
def a_method_of_C_that_tells_the_time(compile: Compile) -> Any:
    table = {"now": time.perf_counter}
    return varies(compile(lambda x: x * 0 + table["now"]()))


@table
def a_sort_key_that_tells_the_time(compile: Compile) -> Any:
    seen: list[float] = []

    def key(v: float) -> float:
        return time.perf_counter() + v

    def f(x: Any) -> Any:
        return x * 0 + key(min([1.0, 2.0], key=key))

    del seen
    return varies(compile(f))
