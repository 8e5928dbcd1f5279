"""Odd ways to state: callables in C wrappers, globals of one's own, patched libraries."""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import operator
import random
import sys
import time
import types
import unittest.mock
import weakref
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table, called, calls, varies

table = Table("reaching")
row = table.row


def item(key: Any, value: Any = 3.0) -> Any:
    return lambda s: s.__setitem__(key, value)


def pair(make: Any) -> Any:
    """A dict, and something that reads it."""

    def made() -> Any:
        d = {"a": 2.0, 1.0: 2.0}
        return d, make(d)

    return made


def change(s: Any) -> None:
    s[0].update({"a": 3.0, 1.0: 3.0})


row(
    "frompyfunc of a method",
    pair(lambda d: np.frompyfunc(d.get, 1, 1)),
    lambda s, x: x * float(s[1](1.0)),
    change,
)
row(
    "frompyfunc of a function",
    pair(lambda d: np.frompyfunc(lambda v: d["a"] * v, 1, 1)),
    lambda s, x: x * float(s[1](1.0)),
    change,
)
row(
    "a kept vectorize",
    pair(lambda d: np.vectorize(d.get)),
    lambda s, x: x * float(s[1](1.0)),
    change,
)
row(
    "a partial of a method",
    pair(lambda d: functools.partial(d.get, "a")),
    lambda s, x: x * s[1](),
    change,
)
row(
    "a partial of a partial",
    pair(lambda d: functools.partial(functools.partial(d.get), "a")),
    lambda s, x: x * s[1](),
    change,
)
row(
    "a static method of C",
    pair(lambda d: type("K", (), {"f": staticmethod(d.get)})),
    lambda s, x: x * s[1].f("a"),
    change,
)
row(
    "a class attribute of C",
    pair(lambda d: type("K", (), {"f": d.get})()),
    lambda s, x: x * s[1].f("a"),
    change,
)
row(
    "getattr of C",
    pair(lambda d: type("K", (), {"__getattr__": staticmethod(d.__getitem__)})()),
    lambda s, x: x * s[1].a,
    change,
)
row(
    "getitem of C",
    pair(lambda d: type("K", (), {"__getitem__": staticmethod(d.__getitem__)})()),
    lambda s, x: x * s[1]["a"],
    change,
)
row(
    "call of C",
    pair(lambda d: type("K", (), {"__call__": staticmethod(d.get)})()),
    lambda s, x: x * s[1]("a"),
    change,
)
row(
    "len of C",
    pair(lambda d: type("K", (), {"__len__": staticmethod(d.__len__)})()),
    lambda s, x: x * len(s[1]),
    lambda s: s[0].update(z=1.0),
)
row(
    "iter of C",
    pair(lambda d: type("K", (), {"__iter__": staticmethod(d.values().__iter__)})()),
    lambda s, x: x * sum(s[1]),
    change,
)
row(
    "contains of C",
    pair(lambda d: type("K", (), {"__contains__": staticmethod(d.__contains__)})()),
    lambda s, x: x * (1 + ("z" in s[1])),
    lambda s: s[0].update(z=1.0),
)
row(
    "a property of an attrgetter",
    lambda: type("K", (), {"v": property(operator.attrgetter("inner.scale"))}),
    lambda s, x: x * made_of(s).v,
    lambda s: setattr(made_of(s).inner, "scale", 3.0),
    lambda s: setattr(made_of(s).inner, "scale", 2.0),
)
row(
    "a property of an itemgetter",
    lambda: type("K", (dict,), {"v": property(operator.itemgetter("a"))})(a=2.0),
    lambda s, x: x * s.v,
    item("a"),
)
row(
    "a property of a methodcaller",
    lambda: type(
        "K", (), {"v": property(operator.methodcaller("get")), "get": lambda self: self.w}
    )(),
    lambda s, x: x * with_w(s).v,
    lambda s: setattr(s, "w", 3.0),
)
row(
    "a method type of a builtin",
    pair(lambda d: types.MethodType(dict.get, d)),
    lambda s, x: x * s[1]("a"),
    change,
)
row(
    "a method type of a function",
    pair(lambda d: types.MethodType(lambda self, k: self[k], d)),
    lambda s, x: x * s[1]("a"),
    change,
)
row("a slot wrapper", pair(lambda d: d.__getitem__), lambda s, x: x * s[1]("a"), change)
row(
    "a method wrapper",
    pair(lambda d: d.__len__),
    lambda s, x: x * s[1](),
    lambda s: s[0].update(z=1.0),
)
row(
    "a default factory of C",
    pair(lambda d: collections.defaultdict(functools.partial(d.get, "a"))),
    lambda s, x: x * collections.defaultdict(s[1].default_factory)["q"],
    change,
)
row(
    "cmp_to_key",
    pair(lambda d: functools.cmp_to_key(lambda a, b: (a - b) * (1 if d["a"] < 2.5 else -1))),
    lambda s, x: x * sorted([1.0, 2.0], key=s[1])[0],
    change,
)
row(
    "a chain map of dicts",
    pair(lambda d: collections.ChainMap(d)),
    lambda s, x: x * s[1]["a"],
    change,
)
row(
    "keys of two dicts",
    pair(lambda d: d.keys()),
    lambda s, x: x * len(s[1] & {"a", "z"}),
    lambda s: s[0].update(z=1.0),
)
row(
    "a proxy of a proxy",
    pair(lambda d: types.MappingProxyType(types.MappingProxyType(d))),
    lambda s, x: x * s[1]["a"],
    change,
)
row("a view in a tuple", pair(lambda d: (d.values(),)), lambda s, x: x * sum(s[1][0]), change)
row("a callable iterator", pair(lambda d: iter(d.popitem, None)), lambda s, x: x * next(s[1])[1])
row(
    "a mock",
    lambda: unittest.mock.Mock(return_value=2.0),
    lambda s, x: x * s(),
    lambda s: setattr(s, "return_value", 3.0),
)
row(
    "a mock's attribute",
    lambda: unittest.mock.Mock(scale=2.0),
    lambda s, x: x * s.scale,
    lambda s: setattr(s, "scale", 3.0),
)
row(
    "a magic mock",
    unittest.mock.MagicMock,
    lambda s, x: x * len(s),
    lambda s: setattr(s.__len__, "return_value", 3),
)
row(
    "argparse",
    lambda: argparse.Namespace(lr=2.0, name="a"),
    lambda s, x: x * s.lr * len(s.name),
    lambda s: setattr(s, "lr", 3.0),
    recorded=True,
)
row(
    "a weak set",
    lambda: (lambda b: (b, weakref.WeakSet([b])))(Box()),
    lambda s, x: x * len(s[1]),
    lambda s: s[1].clear(),
)
row("a random object in a list", lambda: [random.Random(3).random], lambda s, x: x * s[0]())
row("a draw in a dict", lambda: {"draw": random.Random(3).gauss}, lambda s, x: x * s["draw"](0, 1))
row(
    "a poly1d",
    lambda: np.poly1d([1.0, 2.0]),
    lambda s, x: x * float(s(1.0)),
    lambda s: s.coeffs.fill(3.0),
)
row(
    "a polynomial",
    lambda: np.polynomial.Polynomial([1.0, 2.0]),
    lambda s, x: x * float(s(1.0)),
    lambda s: s.coef.fill(3.0),
)
row(
    "a buffer of bytes",
    lambda: (lambda b: (b, np.frombuffer(b)))(bytearray(16)),
    lambda s, x: x * (1 + float(s[1][0])),
    lambda s: s[0].__setitem__(slice(0, 8), b"\x00\x00\x00\x00\x00\x00\xf0?"),
)
row(
    "overlapping views",
    lambda: (lambda a: (a, np.lib.stride_tricks.sliding_window_view(a, 2)))(np.ones(4)),
    lambda s, x: x * float(s[1].sum()),
    lambda s: s[0].fill(3.0),
)
row(
    "a deleted attribute",
    lambda: Box(scale=2.0),
    lambda s, x: x * s.scale,
    lambda s: delattr(s, "scale"),
)
row("a deleted tensor", lambda: Box(w=ad.ones(2)), lambda s, x: x * s.w, lambda s: delattr(s, "w"))
row("a deleted item", lambda: {"a": 2.0}, lambda s, x: x * s["a"], lambda s: s.clear())
row(
    "an error by state",
    lambda: Box(bad=False),
    lambda s, x: checked(s, x),
    lambda s: setattr(s, "bad", True),
)
row("an error at first", lambda: Box(n=[1]), lambda s, x: x * s.n[0], lambda s: s.n.clear())
row(
    "annotations of a class",
    lambda: type("K", (), {"__annotations__": {"a": int}}),
    lambda s, x: x * len(s.__annotations__),
    lambda s: s.__annotations__.update(b=int),
)
row(
    "an enum that is made",
    lambda: Box(k="RED"),
    lambda s, x: x * len(__import__("enum").Enum("E", s.k).__members__),
    lambda s: setattr(s, "k", "RED BLUE"),
)
row(
    "mutable values of an enum",
    lambda: Kind,
    lambda s, x: x * s.A.value[0],
    lambda s: s.A.value.__setitem__(0, 3.0),
    lambda s: s.A.value.__setitem__(0, 2.0),
)
row(
    "a frozenset of objects",
    lambda: frozenset([Box(v=2.0)]),
    lambda s, x: x * next(iter(s)).v,
    lambda s: setattr(next(iter(s)), "v", 3.0),
)
row(
    "a tuple of tuples of lists",
    lambda: (((([2.0],),),),),
    lambda s, x: x * s[0][0][0][0][0],
    lambda s: s[0][0][0][0].__setitem__(0, 3.0),
)
row(
    "a dict with tuples as keys",
    lambda: {(1, 2): [2.0]},
    lambda s, x: x * s[1, 2][0],
    lambda s: s[1, 2].__setitem__(0, 3.0),
)
row(
    "a dict with objects as keys",
    lambda: {Box(v=2.0): 1.0},
    lambda s, x: x * next(iter(s)).v,
    lambda s: setattr(next(iter(s)), "v", 3.0),
)
row(
    "a list of functions of one code",
    lambda: [(lambda v: lambda x: x * v)(k) for k in (2.0, 3.0)],
    lambda s, x: s[0](x) + s[1](x),
    lambda s: s.reverse(),
    lambda s: s.pop(),
)
row(
    "functions that call one another",
    lambda: calling(),
    lambda s, x: s.even(x, 4),
    lambda s: setattr(s, "k", 3.0),
)
row(
    "a closure in a closure in a list",
    lambda: [nested([2.0])],
    lambda s, x: s[0]()(x),
    lambda s: s[0].__closure__[0].cell_contents.__setitem__(0, 3.0),
)
row(
    "partial of a class",
    lambda: functools.partial(Holder, 2.0),
    lambda s, x: s().apply(x),
    lambda s: setattr(Holder, "extra", 1.0),
    lambda s: delattr(Holder, "extra"),
)
row(
    "a class in a list",
    lambda: [Holder],
    lambda s, x: s[0](2.0).apply(x),
    lambda s: s.__setitem__(0, Bigger),
)
row(
    "type of an object",
    lambda: Box(o=Holder(2.0)),
    lambda s, x: type(s.o)(2.0).apply(x),
    lambda s: setattr(s, "o", Bigger(2.0)),
)
row(
    "class of an object",
    lambda: Box(o=Holder(2.0)),
    lambda s, x: s.o.__class__(2.0).apply(x),
    lambda s: setattr(s, "o", Bigger(2.0)),
)
row(
    "a chain of partials and methods",
    lambda: functools.partial(Holder.apply, Holder(2.0)),
    lambda s, x: s(x),
    lambda s: setattr(s.args[0], "v", 3.0),
)
row(
    "starmap of kept pairs",
    lambda: [(2.0, 3.0)],
    lambda s, x: x * sum(itertools.starmap(operator.mul, s)),
    lambda s: s.append((1.0, 1.0)),
)
row(
    "compress",
    lambda: [True, False],
    lambda s, x: x * sum(itertools.compress([2.0, 3.0], s)),
    lambda s: s.reverse(),
)
row(
    "islice of a kept list",
    lambda: [1.0, 2.0, 3.0],
    lambda s, x: x * sum(itertools.islice(s, 2)),
    lambda s: s.insert(0, 5.0),
)
row(
    "chain.from_iterable",
    lambda: [[1.0], [2.0]],
    lambda s, x: x * sum(itertools.chain.from_iterable(s)),
    lambda s: s[1].append(5.0),
)
row(
    "zip of star",
    lambda: [(1.0, 2.0), (3.0, 4.0)],
    lambda s, x: x * sum([*zip(*s, strict=True)][0]),
    lambda s: s.append((5.0, 6.0)),
)
row(
    "dict of zip",
    lambda: (["a"], [2.0]),
    lambda s, x: x * dict(zip(*s, strict=True))["a"],
    lambda s: s[1].__setitem__(0, 3.0),
)
row(
    "sum of lists",
    lambda: [[1.0], [2.0]],
    lambda s, x: x * len(sum(s, [])),  # noqa: RUF017
    lambda s: s[1].append(5.0),
)
row(
    "str.join of names",
    lambda: ["a", "b"],
    lambda s, x: x * len("-".join(s)),
    lambda s: s.append("c"),
)
row("translate", lambda: {97: "bb"}, lambda s, x: x * len("aa".translate(s)), item(97, "b"))
row(
    "int.from_bytes",
    lambda: bytearray(b"\x02"),
    lambda s, x: x * int.from_bytes(s, "big"),
    item(0, 3),
)
row("bytes of a bytearray", lambda: bytearray(b"\x02"), lambda s, x: x * bytes(s)[0], item(0, 3))
row(
    "a set operation",
    lambda: ({1, 2}, {2, 3}),
    lambda s, x: x * len(s[0] & s[1]),
    lambda s: s[1].add(1),
)
row(
    "sorted of a dict",
    lambda: {"b": 1.0, "a": 2.0},
    lambda s, x: x * s[sorted(s)[0]],
    lambda s: s.update({"_": 5.0}),
)
row(
    "min of a dict",
    lambda: {"b": 1.0, "a": 2.0},
    lambda s, x: x * len(min(s, key=s.get)),
    lambda s: s.update({"long": 0.0}),
)
row(
    "max by a method of C",
    lambda: {"b": 1.0, "aa": 2.0},
    lambda s, x: x * len(max(s, key=s.__getitem__)),
    lambda s: s.update({"b": 9.0}),
)
row("map of a kept method", lambda: {"a": 2.0}, lambda s, x: x * sum(map(s.get, ["a"])), item("a"))
row(
    "filter of a kept set",
    lambda: {1.0},
    lambda s, x: x * sum(filter(s.__contains__, [1.0, 2.0])),
    lambda s: s.add(2.0),
)


class Holder:
    def __init__(self, v: float) -> None:
        self.v = v

    def apply(self, x: Any) -> Any:
        return x * self.v * getattr(self, "extra", 2.0)


class Bigger(Holder):
    def apply(self, x: Any) -> Any:
        return x * 10


class Kind(__import__("enum").Enum):  # type: ignore[misc]
    A = [2.0]  # noqa: RUF012


_made: dict[Any, Any] = {}


def made_of(cls: Any) -> Any:
    return cls.__dict__.get("one") or set_one(cls)


def set_one(cls: Any) -> Any:
    cls.one = cls()
    cls.one.inner = Box(scale=2.0)
    return cls.one


def with_w(s: Any) -> Any:
    if not hasattr(s, "w"):
        s.w = 2.0
    return s


def checked(s: Any, x: Any) -> Any:
    if s.bad:
        raise ValueError("bad")
    return x * 2


def calling() -> Any:
    box = Box(k=2.0)

    def even(x: Any, n: int) -> Any:
        return x * box.k if n == 0 else odd(x, n - 1)  # type: ignore[attr-defined]

    def odd(x: Any, n: int) -> Any:
        return even(x, n - 1)

    box.even = even  # type: ignore[attr-defined]
    return box


def nested(v: list[float]) -> Any:
    def outer() -> Any:
        return lambda x: x * v[0]

    return outer


# -- globals and builtins of one's own -------------------------------------------------------------


def module_with(name: str, code: str) -> Any:
    module: Any = types.ModuleType(name)
    exec(code, module.__dict__)
    return module


@table
def a_helper_of_another_module(compile: Compile) -> Any:
    module = module_with("helpers", "gain = 2.0\ndef scaled(x):\n    return x * gain")
    f = compile(lambda x: module.scaled(x))
    return calls(f, lambda: setattr(module, "gain", 3.0))


@table
def an_import_inside(compile: Compile) -> Any:
    sys.modules["a_module_of_cases"] = module_with("a_module_of_cases", "gain = 2.0")

    def f(x: Any) -> Any:
        import a_module_of_cases  # type: ignore[import-not-found]

        return x * a_module_of_cases.gain

    try:
        return calls(compile(f), lambda: setattr(sys.modules["a_module_of_cases"], "gain", 3.0))
    finally:
        del sys.modules["a_module_of_cases"]


@table
def a_from_import_inside(compile: Compile) -> Any:
    sys.modules["a_module_of_cases"] = module_with("a_module_of_cases", "gain = 2.0")

    def f(x: Any) -> Any:
        from a_module_of_cases import gain

        return x * gain

    try:
        return calls(
            compile(f),
            lambda: setattr(sys.modules["a_module_of_cases"], "gain", 3.0),
            lambda: sys.modules.update(a_module_of_cases=module_with("m", "gain = 7.0")),
        )
    finally:
        del sys.modules["a_module_of_cases"]


@table
def globals_of_ones_own(compile: Compile) -> Any:
    scope: dict[str, Any] = {"gain": 2.0}
    function = types.FunctionType((lambda x: x * gain).__code__, scope)  # type: ignore[name-defined]  # noqa: F821
    return calls(compile(function), lambda: scope.update(gain=3.0), lambda: scope.update(gain=4.0))


@table
def builtins_of_ones_own(compile: Compile) -> Any:
    own: dict[str, Any] = {"size": lambda v: 2.0}
    scope: dict[str, Any] = {"__builtins__": own}
    function = types.FunctionType((lambda x: x * size(1)).__code__, scope)  # type: ignore[name-defined]  # noqa: F821
    return calls(compile(function), lambda: own.update(size=lambda v: 3.0))


@table
def a_helper_with_builtins_of_its_own(compile: Compile) -> Any:
    own: dict[str, Any] = {"size": 2.0}
    helper = types.FunctionType((lambda x: x * size).__code__, {"__builtins__": own})  # type: ignore[name-defined]  # noqa: F821
    return calls(compile(lambda x: helper(x)), lambda: own.update(size=3.0))


@table
def a_module_in_builtins(compile: Compile) -> Any:
    import builtins

    f = compile(lambda x: x * divmod(7.0, 2.0)[0])
    old = builtins.divmod
    try:
        return calls(f, lambda: setattr(builtins, "divmod", lambda a, b: (7.0, 0.0)))
    finally:
        builtins.divmod = old


# -- libraries that are patched --------------------------------------------------------------------


def patched(name: str, make: Any, where: Any, attribute: str, value: Any) -> None:
    def program(compile: Compile) -> Any:
        f = compile(make())
        owner = where()
        missing = object()
        old = owner.__dict__.get(attribute, missing)
        found = [called(f) for _ in range(3)]
        setattr(owner, attribute, value)
        try:
            return found + [called(f) for _ in range(2)]
        finally:
            if old is missing:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, old)

    program.__name__ = name
    table.add(program)


def linear() -> Any:
    net = nn.Linear(2, 2, bias=False)
    net.weight.data.fill_(2.0)
    return net


patched(
    "forward of a layer",
    lambda: (lambda n: lambda x: n(x))(linear()),
    lambda: nn.Linear,
    "forward",
    lambda self, x: x * 7,
)
patched(
    "call of modules",
    lambda: (lambda n: lambda x: n(x))(linear()),
    lambda: nn.Module,
    "__call__",
    lambda self, x: x * 7,
)
patched(
    "an attribute of a layer's class",
    lambda: (lambda n: lambda x: x * getattr(n, "gain", 1.0))(linear()),
    lambda: nn.Linear,
    "gain",
    3.0,
)
patched(
    "an attribute of all modules",
    lambda: (lambda n: lambda x: x * getattr(n, "gain", 1.0))(linear()),
    lambda: nn.Module,
    "gain",
    3.0,
)
patched(
    "a function of adjoint",
    lambda: lambda x: nn.functional.relu(x),
    lambda: nn.functional,
    "relu",
    lambda x: x * 7,
)
patched("an op", lambda: lambda x: ad.sin(x), lambda: ad, "sin", lambda x: x * 7)
patched(
    "a function of NumPy",
    lambda: lambda x: x * float(np.sqrt(4.0)),
    lambda: np,
    "sqrt",
    lambda v: 7.0,
)
patched(
    "an absent name of NumPy",
    lambda: lambda x: x * getattr(np, "a_name_of_mine", 2.0),
    lambda: np,
    "a_name_of_mine",
    7.0,
)
patched("a constant of NumPy", lambda: lambda x: x * np.pi, lambda: np, "pi", 3.0)
patched(
    "an attribute of argparse",
    lambda: (lambda n: lambda x: x * getattr(n, "gain", 1.0))(argparse.Namespace()),
    lambda: argparse.Namespace,
    "gain",
    3.0,
)


CLOCKS = {
    "a frompyfunc of a clock": np.frompyfunc(lambda v: time.perf_counter(), 1, 1),
    "a frompyfunc of C": np.frompyfunc(time.perf_counter_ns().__class__.__add__, 2, 1),
    "a class that calls a clock": type("K", (), {"__call__": staticmethod(time.perf_counter)})(),
    "a class whose getattr is a clock": type(
        "K", (), {"__getattr__": lambda self, n: time.perf_counter()}
    )(),
    "a property of a clock": type("K", (), {"now": property(lambda self: time.perf_counter())})(),
    "a partial of a method of a clock": functools.partial(time.perf_counter.__call__),
}


@table
def clocks_in_classes(compile: Compile) -> Any:
    one, two, three = (CLOCKS[k] for k in [*CLOCKS][2:5])
    return [
        varies(compile(lambda x: x * 0 + one())),
        varies(compile(lambda x: x * 0 + two.anything)),
        varies(compile(lambda x: x * 0 + three.now)),
    ]


@table
def clocks_in_ufuncs(compile: Compile) -> Any:
    tick = CLOCKS["a frompyfunc of a clock"]
    return varies(compile(lambda x: x * 0 + float(tick(1.0))))


@table
def clocks_in_ufuncs_of_c(compile: Compile) -> Any:
    draw = np.frompyfunc(random.Random(3).uniform, 2, 1)
    count = np.frompyfunc(itertools.count().__next__, 0, 1) if False else None
    del count
    return varies(compile(lambda x: x * 0 + float(draw(0.0, 1.0))))


@table
def clocks_in_method_wrappers(compile: Compile) -> Any:
    tick = CLOCKS["a partial of a method of a clock"]
    return varies(compile(lambda x: x * 0 + tick()))


@table
def a_generator_function(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        yield x * 2
        yield x * 3

    g = compile(f)
    return [list(g(ad.ones(2))) for _ in range(3)]


@table
def a_coroutine_function(compile: Compile) -> Any:
    async def f(x: Any) -> Any:
        return x * 2

    g = compile(f)
    found = []
    for _ in range(3):
        try:
            g(ad.ones(2)).send(None)
        except StopIteration as done:
            found.append(done.value)
    return found


@table
def compiled_twice(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(compile(lambda x: x * box.scale))
    return calls(f, lambda: setattr(box, "scale", 3.0))


@table
def compiled_inside(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(lambda x: ad.compile(lambda y: y * box.scale)(x))
    return calls(f, lambda: setattr(box, "scale", 3.0))


@table
def kinds_of_callables(compile: Compile) -> Any:
    class K:
        scale = 2.0

        def method(self, x: Any) -> Any:
            return x * self.scale

        @classmethod
        def of_class(cls, x: Any) -> Any:
            return x * cls.scale

        @staticmethod
        def static(x: Any) -> Any:
            return x * K.scale

        def __call__(self, x: Any) -> Any:
            return x * self.scale

    one = K()
    given = [one.method, K.of_class, K.static, one, functools.partial(K.method, one)]
    fs = [compile(f) for f in given]
    found = [called(f) for f in fs for _ in range(2)]
    K.scale = 3.0
    found += [called(f) for f in fs for _ in range(2)]
    one.scale = 4.0
    return found + [called(f) for f in fs for _ in range(2)]


@table
def another_instance_of_a_class(compile: Compile) -> Any:
    class K:
        def __init__(self, v: float) -> None:
            self.v = v

        def __call__(self, x: Any) -> Any:
            return x * self.v

    current = [K(2.0)]
    f = compile(lambda x: current[0](x))
    return calls(f, lambda: current.__setitem__(0, K(3.0)), lambda: setattr(current[0], "v", 4.0))
