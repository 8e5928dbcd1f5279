"""What is not there: attributes, names, keys, files; and classes that answer for themselves."""

from __future__ import annotations

import builtins
import collections
import contextlib
import sys
import types
from typing import Any

from adjoint import nn

from .harness import Box, Compile, Table, calls

table = Table("absence")
row = table.row


class Lazy:
    """Answers for attributes that it does not have."""

    def __init__(self) -> None:
        self.values = {"gain": 2.0}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None


class Proxy:
    """Answers for everything."""

    def __init__(self) -> None:
        object.__setattr__(self, "inner", Box(gain=2.0))

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        return 2.0


class Answering(metaclass=Meta):
    pass


class Slots:
    __slots__ = ("gain",)


class Missing(dict):  # type: ignore[type-arg]
    def __missing__(self, key: Any) -> Any:
        return 2.0


def caught(f: Any, *errors: Any) -> float:
    try:
        return float(f())
    except errors:
        return 1.0


def gain(s: Any) -> Any:
    s.gain = 3.0


row("getattr", Box, lambda s, x: x * getattr(s, "gain", 1.0), gain, recorded=True)
row("hasattr", Box, lambda s, x: x * (2.0 if hasattr(s, "gain") else 1.0), gain, recorded=True)
row("try and except", Box, lambda s, x: x * caught(lambda: s.gain, AttributeError), gain)
row("getattr of a computed name", Box, lambda s, x: x * getattr(s, "ga" + "in", 1.0), gain)
row("in its dict", Box, lambda s, x: x * (1 + ("gain" in s.__dict__)), gain)
row("in vars", Box, lambda s, x: x * (1 + ("gain" in vars(s))), gain)
row("vars get", Box, lambda s, x: x * vars(s).get("gain", 1.0), gain)
row("in dir", Box, lambda s, x: x * (1 + ("gain" in dir(s))), gain)
row("of its class", Box, lambda s, x: x * getattr(type(s), "gain_of_class", 1.0), lambda s: None)
row("a slot", Slots, lambda s, x: x * getattr(s, "gain", 1.0), gain, recorded=True)
row("a lazy object", Lazy, lambda s, x: x * s.gain, lambda s: s.values.update(gain=3.0))
row("a lazy object gets it", Lazy, lambda s, x: x * s.gain, gain)
row(
    "a lazy object has none",
    Lazy,
    lambda s, x: x * getattr(s, "other", 1.0),
    lambda s: s.values.update(other=4.0),
)
row(
    "a proxy",
    Proxy,
    lambda s, x: x * s.gain,
    lambda s: setattr(s.__self__ if False else object.__getattribute__(s, "inner"), "gain", 3.0),
)
row(
    "a proxy has none",
    Proxy,
    lambda s, x: x * getattr(s, "k", 1.0),
    lambda s: setattr(object.__getattribute__(s, "inner"), "k", 3.0),
)
row(
    "a missing key",
    dict,
    lambda s, x: x * s.get("gain", 1.0),
    lambda s: s.update(gain=3.0),
    recorded=True,
)
row("a key in a dict", dict, lambda s, x: x * (1 + ("gain" in s)), lambda s: s.update(gain=3.0))
row(
    "try a key",
    dict,
    lambda s, x: x * caught(lambda: s["gain"], KeyError),
    lambda s: s.update(gain=3.0),
)
row("dunder missing", Missing, lambda s, x: x * s["gain"], lambda s: s.update(gain=3.0))
row(
    "a default dict",
    lambda: collections.defaultdict(float, a=1.0),
    lambda s, x: x * s.get("b", 4.0),
    lambda s: s.update(b=5.0),
)
row(
    "a chain map",
    lambda: collections.ChainMap({}, {"a": 2.0}),
    lambda s, x: x * s["a"],
    lambda s: s.maps[0].update(a=3.0),
)
row("in a set", set, lambda s, x: x * (1 + ("a" in s)), lambda s: s.add("a"), recorded=True)
row("in a list", list, lambda s, x: x * (1 + ("a" in s)), lambda s: s.append("a"), recorded=True)
row(
    "try an index", list, lambda s, x: x * caught(lambda: s[0], IndexError), lambda s: s.append(5.0)
)
row(
    "an empty list",
    list,
    lambda s, x: x * (2.0 if s else 1.0),
    lambda s: s.append(5.0),
    recorded=True,
)
row("next of nothing", list, lambda s, x: x * next(iter(s), 1.0), lambda s: s.append(5.0))
row(
    "None",
    lambda: Box(v=None),
    lambda s, x: x * (s.v or 1.0),
    lambda s: setattr(s, "v", 3.0),
    recorded=True,
)
row(
    "a module's name",
    lambda: types.ModuleType("one"),
    lambda s, x: x * getattr(s, "gain", 1.0),
    gain,
)
row(
    "hasattr of a module",
    lambda: types.ModuleType("one"),
    lambda s, x: x * (1 + hasattr(s, "gain")),
    gain,
)
row(
    "an attribute goes",
    lambda: Box(gain=2.0),
    lambda s, x: x * getattr(s, "gain", 1.0),
    lambda s: delattr(s, "gain"),
)
row("a key goes", lambda: {"gain": 2.0}, lambda s, x: x * s.get("gain", 1.0), lambda s: s.clear())
row(
    "an attribute of a module goes",
    lambda: nn.Linear(2, 2),
    lambda s, x: x * getattr(s, "gain", 1.0),
    gain,
)
row(
    "a buffer comes",
    lambda: nn.Linear(2, 2),
    lambda s, x: x * (1 + hasattr(s, "extra")),
    lambda s: s.register_buffer("extra", None),
)
row(
    "a parameter is None",
    lambda: nn.Linear(2, 2),
    lambda s, x: s(x),
    lambda s: setattr(s, "bias", None),
    recorded=True,
)
row(
    "match of attributes",
    lambda: Box(kind=1),
    lambda s, x: x * matched(s),
    lambda s: setattr(s, "kind", 2),
)
row("match of keys", lambda: {"a": 1}, lambda s, x: x * matched(s), lambda s: s.update(a=2))
row("match of missing keys", dict, lambda s, x: x * matched(s), lambda s: s.update(a=2))
row("suppress", Box, lambda s, x: x * suppressed(s), gain)
row(
    "a nested absence",
    lambda: Box(a=Box()),
    lambda s, x: x * getattr(getattr(s, "a", None), "b", 1.0),
    lambda s: setattr(s.a, "b", 3.0),
)
row(
    "getattr of None",
    lambda: Box(a=None),
    lambda s, x: x * getattr(s.a, "real", 4),
    lambda s: setattr(s, "a", 2.0),
)
row("hasattr call", Box, lambda s, x: x * (1 + hasattr(s, "__call__")), lambda s: None)
row(
    "callable",
    lambda: Box(f=None),
    lambda s, x: x * (1 + callable(s.f)),
    lambda s: setattr(s, "f", len),
)
row("operator of an object", Box, lambda s, x: x * caught(lambda: s + 1, TypeError), lambda s: None)


def matched(s: Any) -> float:
    match s:
        case {"a": 1}:
            return 2.0
        case {"a": _}:
            return 3.0
        case Box(kind=1):
            return 4.0
        case Box(kind=_):
            return 5.0
        case _:
            return 6.0


def suppressed(s: Any) -> float:
    found = 1.0
    with contextlib.suppress(AttributeError):
        found = s.gain
    return found


@table
def a_global_that_is_not_there(compile: Compile) -> Any:
    globals().pop("LATE", None)
    f = compile(lambda x: x * (globals().get("LATE", 1.0)))
    found = calls(f, lambda: globals().update(LATE=3.0))
    del globals()["LATE"]
    return found


@table
def a_name_in_globals(compile: Compile) -> Any:
    globals().pop("LATER", None)
    f = compile(lambda x: x * (2.0 if "LATER" in globals() else 1.0))
    found = calls(f, lambda: globals().update(LATER=3.0))
    del globals()["LATER"]
    return found


@table
def a_name_error(compile: Compile) -> Any:
    globals().pop("LATEST", None)
    f = compile(lambda x: x * caught(lambda: LATEST, NameError))  # type: ignore[name-defined]  # noqa: F821
    found = calls(f, lambda: globals().update(LATEST=3.0))
    del globals()["LATEST"]
    return found


@table
def a_builtin_is_shadowed(compile: Compile) -> Any:
    f = compile(lambda x: x * len([1, 2]))
    found = calls(f, lambda: globals().update(len=lambda _: 7.0))
    del globals()["len"]
    return found


@table
def a_builtin_is_made(compile: Compile) -> Any:
    f = compile(lambda x: x * getattr(builtins, "gain_of_all", 1.0))
    found = calls(f, lambda: setattr(builtins, "gain_of_all", 3.0))
    del builtins.gain_of_all  # type: ignore[attr-defined]
    return found


@table
def an_empty_cell(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        return x * caught(lambda: late, NameError)

    g = compile(f)
    found = [g(x) for x in given()]
    late = 4.0
    return found + [g(x) for x in given()]


def given() -> Any:
    import adjoint as ad

    return [ad.ones(2), ad.ones(2)]


@table
def a_class_attribute_comes(compile: Compile) -> Any:
    class Plain:
        pass

    one = Plain()
    f = compile(lambda x: x * getattr(one, "gain", 1.0))
    return calls(f, lambda: setattr(Plain, "gain", 3.0))


@table
def a_base_class_gets_an_attribute(compile: Compile) -> Any:
    class Base:
        pass

    class Plain(Base):
        pass

    one = Plain()
    f = compile(lambda x: x * getattr(one, "gain", 1.0))
    return calls(f, lambda: setattr(Base, "gain", 3.0))


@table
def an_instance_shadows_its_class(compile: Compile) -> Any:
    class Plain:
        gain = 2.0

    one = Plain()
    f = compile(lambda x: x * one.gain)
    return calls(f, lambda: setattr(one, "gain", 3.0), lambda: delattr(one, "gain"))


@table
def a_subclass_overrides(compile: Compile) -> Any:
    class Base:
        def gain(self) -> float:
            return 2.0

    class Plain(Base):
        pass

    one = Plain()
    f = compile(lambda x: x * one.gain())
    return calls(f, lambda: setattr(Plain, "gain", lambda self: 3.0))


@table
def getattr_comes_to_a_class(compile: Compile) -> Any:
    class Plain:
        pass

    one = Plain()
    f = compile(lambda x: x * getattr(one, "gain", 1.0))
    return calls(f, lambda: setattr(Plain, "__getattr__", lambda self, name: 3.0))


@table
def getattribute_comes_to_a_class(compile: Compile) -> Any:
    class Plain:
        gain = 2.0

    one = Plain()
    f = compile(lambda x: x * one.gain)
    return calls(f, lambda: setattr(Plain, "__getattribute__", lambda self, name: 3.0))


@table
def a_metaclass_answers(compile: Compile) -> Any:
    f = compile(lambda x: x * Answering.anything)  # type: ignore[attr-defined]
    found = calls(f, lambda: setattr(Answering, "anything", 3.0))
    del Answering.anything  # type: ignore[attr-defined]
    return found


@table
def a_loaded_module(compile: Compile) -> Any:
    f = compile(lambda x: x * (2.0 if "a_module_of_mine" in sys.modules else 1.0))
    found = calls(f, lambda: sys.modules.update(a_module_of_mine=types.ModuleType("m")))
    del sys.modules["a_module_of_mine"]
    return found


@table
def a_module_that_answers(compile: Compile) -> Any:
    module: Any = types.ModuleType("answering")
    module.__getattr__ = lambda name: 2.0
    f = compile(lambda x: x * module.gain)
    return calls(f, lambda: setattr(module, "__getattr__", lambda name: 3.0))


@table
def bool_comes_to_a_class(compile: Compile) -> Any:
    class Plain:
        pass

    one = Plain()
    f = compile(lambda x: x * (2.0 if one else 3.0))
    return calls(f, lambda: setattr(Plain, "__bool__", lambda self: False))


@table
def len_comes_to_a_class(compile: Compile) -> Any:
    class Plain:
        pass

    one = Plain()
    f = compile(lambda x: x * (2.0 if one else 3.0))
    return calls(f, lambda: setattr(Plain, "__len__", lambda self: 0))


@table
def eq_comes_to_a_class(compile: Compile) -> Any:
    class Plain:
        pass

    one = Plain()
    f = compile(lambda x: x * (2.0 if one == 1 else 3.0))
    return calls(f, lambda: setattr(Plain, "__eq__", lambda self, other: True))
