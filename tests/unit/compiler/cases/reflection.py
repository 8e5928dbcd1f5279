"""Reflection: `vars`, `eval`, signatures, closures, bases; and names that are rebound."""

from __future__ import annotations

import abc
import ast
import builtins
import dataclasses
import functools
import importlib
import inspect
import math
import sys
import types
import typing
from typing import Any

import adjoint as ad

from .harness import Box, Compile, Table, calls

table = Table("reflection")
row = table.row
PARTS = [2.0]


def scale(value: Any = 3.0) -> Any:
    return lambda s: setattr(s, "scale", value)


def boxed() -> Box:
    return Box(scale=2.0, parts=[1.0, 2.0], inner=Box(scale=5.0))


row("eval", boxed, lambda s, x: x * eval("s.scale"), scale())
row(
    "eval of a global",
    boxed,
    lambda s, x: x * eval("GAIN + len(PARTS)", globals()),
    lambda s: PARTS.append(1.0),
    lambda s: PARTS.pop(),
)
row("exec", boxed, lambda s, x: x * executed(s), scale())
row(
    "compile and eval",
    boxed,
    lambda s, x: x * eval(builtins.compile("s.scale", "<s>", "eval")),
    scale(),
)
row(
    "literal_eval",
    lambda: Box(text="[2.0]"),
    lambda s, x: x * ast.literal_eval(s.text)[0],
    lambda s: setattr(s, "text", "[3.0]"),
)
row("vars of an object", boxed, lambda s, x: x * vars(s)["scale"], scale())
row(
    "values of vars",
    boxed,
    lambda s, x: x * next(v for v in vars(s).values() if isinstance(v, float)),
    scale(),
)
row("dict of an object", boxed, lambda s, x: x * s.__dict__["scale"], scale())
row(
    "a kept dict of an object",
    lambda: (lambda b: (b, vars(b)))(boxed()),
    lambda s, x: x * s[1]["scale"],
    lambda s: scale()(s[0]),
)
row(
    "dir and getattr",
    boxed,
    lambda s, x: x * sum(getattr(s, n) for n in dir(s) if n.startswith("sc")),
    scale(),
)
row("getattr in a loop", boxed, lambda s, x: x * sum(getattr(s, n) for n in ("scale",)), scale())
row("setattr and getattr of a fresh object", boxed, lambda s, x: x * copied(s).scale, scale())
row("inspect.getmembers", boxed, lambda s, x: x * dict(inspect.getmembers(s))["scale"], scale())
row(
    "inspect.signature",
    lambda: defaulted(2.0),
    lambda s, x: x * inspect.signature(s).parameters["by"].default,
    lambda s: setattr(s, "__defaults__", (3.0,)),
)
row(
    "defaults",
    lambda: defaulted(2.0),
    lambda s, x: x * s.__defaults__[0],
    lambda s: setattr(s, "__defaults__", (3.0,)),
)
row(
    "the name of a function",
    lambda: defaulted(2.0),
    lambda s, x: x * len(s.__name__),
    lambda s: setattr(s, "__name__", "longer_name"),
)
row(
    "the doc of a function",
    lambda: defaulted(2.0),
    lambda s, x: x * len(s.__doc__ or ""),
    lambda s: setattr(s, "__doc__", "longer"),
)
row(
    "annotations",
    lambda: defaulted(2.0),
    lambda s, x: x * len(s.__annotations__),
    lambda s: s.__annotations__.clear(),
)
row(
    "the code of a function",
    lambda: defaulted(2.0),
    lambda s, x: x * s.__code__.co_argcount,
    lambda s: setattr(s, "__code__", (lambda a, b, c: a).__code__),
)
row(
    "the closure of a function",
    lambda: closed(),
    lambda s, x: x * s[0].__closure__[0].cell_contents,
    lambda s: s[1](3.0),
)
row(
    "cell contents",
    lambda: types.CellType(2.0),
    lambda s, x: x * s.cell_contents,
    lambda s: setattr(s, "cell_contents", 3.0),
)
row(
    "the globals of a function",
    lambda: defaulted(2.0),
    lambda s, x: x * s.__globals__["PARTS"][0],
    lambda s: PARTS.__setitem__(0, 3.0),
    lambda s: PARTS.__setitem__(0, 2.0),
)
row(
    "wrapped",
    lambda: wrapped(),
    lambda s, x: x * s.__wrapped__(),
    lambda s: setattr(s, "__wrapped__", lambda: 3.0),
)
row(
    "type hints",
    lambda: Hinted,
    lambda s, x: x * len(typing.get_type_hints(s)),
    lambda s: s.__annotations__.update(b=int),
    lambda s: s.__annotations__.pop("b"),
)
row(
    "fields of a dataclass",
    lambda: Config(),
    lambda s, x: x * len(dataclasses.fields(s)),
    lambda s: setattr(s, "rate", 5.0),
)
row(
    "astuple",
    lambda: Config(),
    lambda s, x: x * dataclasses.astuple(s)[0],
    lambda s: setattr(s, "rate", 5.0),
)
row(
    "the name of a class",
    lambda: type("Short", (), {}),
    lambda s, x: x * len(s.__name__),
    lambda s: setattr(s, "__name__", "Longer"),
)
row(
    "the bases of a class",
    lambda: type("K", (Base,), {}),
    lambda s, x: x * len(s.__bases__[0].__name__),
    lambda s: setattr(s, "__bases__", (OtherBase,)),
)
row(
    "the mro",
    lambda: type("K", (Base,), {}),
    lambda s, x: x * len(s.__mro__),
    lambda s: setattr(s, "__bases__", (Deep,)),
)
row(
    "issubclass",
    lambda: type("K", (Base,), {}),
    lambda s, x: x * (2.0 if issubclass(s, OtherBase) else 3.0),
    lambda s: setattr(s, "__bases__", (OtherBase,)),
)
row(
    "isinstance of a changed class",
    lambda: Base(),
    lambda s, x: x * (2.0 if isinstance(s, OtherBase) else 3.0),
    lambda s: setattr(s, "__class__", OtherBase),
)
row(
    "an abstract class",
    lambda: (Abstract, type("Late", (), {})()),
    lambda s, x: x * (2.0 if isinstance(s[1], s[0]) else 3.0),
    lambda s: s[0].register(type(s[1])),
)
row(
    "a protocol",
    lambda: Box(),
    lambda s, x: x * (2.0 if isinstance(s, Sized) else 3.0),
    lambda s: setattr(s, "size", 1),
)
row("import inside", boxed, lambda s, x: x * imported(), scale())
row("import_module", boxed, lambda s, x: x * importlib.import_module("math").pi, scale())
row("sys.modules", boxed, lambda s, x: x * sys.modules["math"].pi, scale())
row(
    "this module",
    boxed,
    lambda s, x: x * getattr(sys.modules[__name__], "PARTS")[0],
    lambda s: PARTS.__setitem__(0, 4.0),
    lambda s: PARTS.__setitem__(0, 2.0),
)
row("a frame's locals", boxed, lambda s, x: x * framed(), scale())
row("locals", boxed, lambda s, x: x * locals()["s"].scale, scale())
row(
    "object.__dict__ of a class",
    lambda: type("K", (), {"scale": 2.0}),
    lambda s, x: x * s.__dict__["scale"],
    scale(),
)
row(
    "vars of a class",
    lambda: type("K", (), {"scale": 2.0}),
    lambda s, x: x * vars(s)["scale"],
    scale(),
)


def executed(s: Any) -> float:
    scope: dict[str, Any] = {"s": s}
    exec("v = s.scale", scope)
    return float(scope["v"])


def copied(s: Any) -> Any:
    fresh = Box()
    for name in ("scale", "parts"):
        setattr(fresh, name, getattr(s, name))
    return fresh


def defaulted(by: float) -> Any:
    def f(x: Any, by: float = by) -> Any:
        """Doc."""
        return x * by

    return f


def closed() -> Any:
    by = 2.0

    def f() -> float:
        return by

    def change(v: float) -> None:
        nonlocal by
        by = v

    return f, change


def wrapped() -> Any:
    def inner() -> float:
        return 2.0

    @functools.wraps(inner)
    def outer() -> float:
        return inner()

    return outer


class Hinted:
    a: int


@dataclasses.dataclass
class Config:
    rate: float = 2.0


class Base:
    pass


class OtherBase:
    pass


class Deep(Base):
    pass


class Abstract(abc.ABC):  # noqa: B024
    pass


@typing.runtime_checkable
class Sized(typing.Protocol):
    size: int


def imported() -> float:
    from math import tau

    return tau


def framed() -> float:
    return float(sys._getframe(1).f_locals["s"].scale)


def found(s: Any) -> float:
    for v in s.parts:
        if v > 1.5:
            break
    else:
        return 0.0
    return float(v)


@table
def a_name_of_a_library_that_is_spelt_out(compile: Compile) -> Any:
    f = compile(lambda x: x * math.pi)
    old = math.pi
    found = calls(f, lambda: setattr(math, "pi", 3.0))
    math.pi = old  # type: ignore[misc]
    return found


@table
def a_function_of_a_library_that_is_rebound(compile: Compile) -> Any:
    f = compile(lambda x: x * math.sqrt(4.0))
    old = math.sqrt
    found = calls(f, lambda: setattr(math, "sqrt", lambda v: 3.0))
    math.sqrt = old
    return found


@table
def a_function_of_adjoint_that_is_rebound(compile: Compile) -> Any:
    f = compile(lambda x: ad.sin(x))
    old = ad.sin
    found = calls(f, lambda: setattr(ad, "sin", ad.cos))
    ad.sin = old
    return found


@table
def a_flag_of_sys(compile: Compile) -> Any:
    f = compile(lambda x: x * (2.0 if getattr(sys, "a_flag_of_mine", False) else 3.0))
    found = calls(f, lambda: setattr(sys, "a_flag_of_mine", True))
    del sys.a_flag_of_mine  # type: ignore[attr-defined]
    return found


@table
def a_function_gets_other_code(compile: Compile) -> Any:
    def h(x: Any) -> Any:
        return x * 2

    f = compile(lambda x: h(x))
    return calls(f, lambda: setattr(h, "__code__", (lambda x: x * 3).__code__))


@table
def the_function_itself_gets_other_code(compile: Compile) -> Any:
    def h(x: Any) -> Any:
        return x * 2

    f = compile(h)
    return calls(f, lambda: setattr(h, "__code__", (lambda x: x * 3).__code__))


@table
def the_default_of_the_function_itself(compile: Compile) -> Any:
    def h(x: Any, by: Any = [2.0]) -> Any:  # noqa: B006
        return x * by[0]

    f = compile(h)
    return calls(
        f,
        lambda: h.__defaults__[0].__setitem__(0, 3.0),
        lambda: setattr(h, "__defaults__", ([5.0],)),
    )
