"""Which object something is that is not a tensor: lists and dicts that are one or two."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import adjoint as ad

from .harness import Box, Compile, Table

table = Table("identity of objects")
row = table.row


@dataclasses.dataclass
class Config:
    parts: Any
    rate: float = 1.0


class List2(list):  # type: ignore[type-arg]
    extra = 2.0


class Table2(dict):  # type: ignore[type-arg]
    extra = 2.0


def shared() -> Box:
    parts = [1.0]
    return Box(a=parts, b=parts)


def apart() -> Box:
    return Box(a=[1.0], b=[1.0])


def is_one(s: Any, x: Any) -> Any:
    return x * (2.0 if s.a is s.b else 3.0)


row("a list becomes two", shared, is_one, lambda s: setattr(s, "b", [1.0]))
row("two lists become one", apart, is_one, lambda s: setattr(s, "b", s.a))
row(
    "two lists become a third",
    apart,
    is_one,
    lambda s: s.__dict__.update(dict.fromkeys("ab", [1.0])),
)
row("two lists swap", apart, is_one, lambda s: s.__dict__.update(a=s.b, b=s.a))
row(
    "an equal list",
    apart,
    lambda s, x: x * s.a[0],
    lambda s: setattr(s, "a", [1.0]),
    lambda s: s.a.append(1.0),
    lambda s: s.a.__setitem__(0, 5.0),
)
row(
    "an equal dict",
    lambda: Box(a={"k": 1.0}, b={"k": 1.0}),
    is_one,
    lambda s: setattr(s, "b", s.a),
    lambda s: setattr(s, "b", {"k": 1.0}),
)
row(
    "lists in lists",
    lambda: (lambda v: [v, v])([1.0]),
    lambda s, x: x * (2.0 if s[0] is s[1] else 3.0),
    lambda s: s.__setitem__(1, [1.0]),
)
row(
    "lists in dicts",
    lambda: (lambda v: {"a": v, "b": v})([1.0]),
    lambda s, x: x * (2.0 if s["a"] is s["b"] else 3.0),
    lambda s: s.update(b=[1.0]),
)
row(
    "lists in tuples",
    lambda: Box(t=(lambda v: (v, v))([1.0])),
    lambda s, x: x * (2.0 if s.t[0] is s.t[1] else 3.0),
    lambda s: setattr(s, "t", ([1.0], [1.0])),
)
row(
    "ids of lists",
    shared,
    lambda s, x: x * (2.0 if id(s.a) == id(s.b) else 3.0),
    lambda s: setattr(s, "b", [1.0]),
)
row(
    "a list by its id",
    lambda: (lambda v: Box(v=v, t={id(v): 2.0}))([1.0]),
    lambda s, x: x * s.t.get(id(s.v), 3.0),
    lambda s: setattr(s, "v", [1.0]),
)
row(
    "objects",
    lambda: (lambda v: Box(a=v, b=v))(Box(k=1)),
    is_one,
    lambda s: setattr(s, "b", Box(k=1)),
)
row("sets", lambda: (lambda v: Box(a=v, b=v))({1}), is_one, lambda s: setattr(s, "b", {1}))
row(
    "functions",
    lambda: (lambda v: Box(a=v, b=v))(lambda: 1),
    is_one,
    lambda s: setattr(s, "b", lambda: 1),
)
row("None", lambda: Box(a=None, b=None), is_one, lambda s: setattr(s, "b", 1))
row(
    "deques",
    lambda: (lambda v: Box(a=v, b=v))(collections.deque([1])),
    is_one,
    lambda s: setattr(s, "b", collections.deque([1])),
)
row(
    "a list that is replaced by an equal one in the call",
    lambda: Box(v=[1.0]),
    lambda s, x: (setattr(s, "v", list(s.v)), x * s.v[0])[1],
    lambda s: None,
)
row("empty lists", lambda: (lambda v: Box(a=v, b=v))([]), is_one, lambda s: setattr(s, "b", []))
row(
    "a default argument",
    lambda: defaulted(),
    lambda s, x: x * s.f(s.v),
    lambda s: setattr(s, "v", [1.0]),
)
row(
    "the key of a dict",
    lambda: Box(k=(1, 2), d={(1, 2): 3.0}),
    lambda s, x: x * s.d[s.k],
    lambda s: setattr(s, "k", (1, 2)),
)


def defaulted() -> Any:
    v = [1.0]

    def f(w: Any, v: Any = v) -> float:
        return 2.0 if w is v else 3.0

    return Box(f=f, v=v)


@table
def an_alias_of_a_list_that_the_call_replaces(compile: Compile) -> Any:
    box = Box(v=[1.0])

    def f(x: Any) -> Any:
        box.v = box.v[-3:]
        return x * sum(box.v)

    g = compile(f)
    found = []
    for _ in range(4):
        alias = box.v
        g(ad.ones(2))
        alias.append(1.0)
        found += [g(ad.ones(2)), list(box.v)]
    return found


def given(name: str, function: Any, *calls: Any) -> None:
    """A row: calls of a function with containers, each of them twice."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        t = ad.ones(2)
        made = [call(t) for call in calls]
        return [f(*args) for args in made for _ in range(2)] + [f(*args) for args in made]

    program.__name__ = name
    table.add(program)


def one_of(v: Any) -> tuple[Any, Any]:
    return v, v


given(
    "two lists or one",
    lambda a, b: a[0] * (2.0 if a is b else 3.0),
    lambda t: one_of([t]),
    lambda t: ([t], [t]),
)
given(
    "two dicts or one",
    lambda a, b: a["k"] * (2.0 if a is b else 3.0),
    lambda t: ({"k": t}, {"k": t}),
    lambda t: one_of({"k": t}),
)
given(
    "two objects or one",
    lambda a, b: a.t * (2.0 if a is b else 3.0),
    lambda t: one_of(Box(t=t)),
    lambda t: (Box(t=t), Box(t=t)),
)
given(
    "two configs or one",
    lambda a, b: a.parts * (2.0 if a is b else 3.0),
    lambda t: one_of(Config(t)),
    lambda t: (Config(t), Config(t)),
)
given(
    "lists in a list",
    lambda v: v[0][0] * (2.0 if v[0] is v[1] else 3.0),
    lambda t: (list(one_of([t])),),
    lambda t: ([[t], [t]],),
)
given(
    "lists without tensors",
    lambda t, a, b: t * (2.0 if a is b else 3.0),
    lambda t: (t, *one_of([1.0])),
    lambda t: (t, [1.0], [1.0]),
)
given(
    "an extra attribute of a config",
    lambda c: c.parts * getattr(c, "extra", 1.0),
    lambda t: (Config(t),),
    lambda t: (marked(Config(t), extra=3.0),),
)
given(
    "an extra attribute of a list",
    lambda v: v[0] * v.extra,
    lambda t: (List2([t]),),
    lambda t: (marked(List2([t]), extra=3.0),),
)
given(
    "an extra attribute of a dict",
    lambda v: v["k"] * v.extra,
    lambda t: (Table2(k=t),),
    lambda t: (marked(Table2(k=t), extra=3.0),),
)
given(
    "a list or a subclass",
    lambda v: v[0] * len(type(v).__name__),
    lambda t: ([t],),
    lambda t: (List2([t]),),
)
given(
    "a dict or a subclass",
    lambda v: v["k"] * len(type(v).__name__),
    lambda t: ({"k": t},),
    lambda t: (Table2(k=t),),
    lambda t: (collections.OrderedDict(k=t),),
    lambda t: (collections.defaultdict(int, k=t),),
)
given(
    "the factory of a dict",
    lambda v: v["k"] * v.default_factory(),
    lambda t: (collections.defaultdict(int, k=t),),
    lambda t: (collections.defaultdict(lambda: 3, k=t),),
)
given(
    "the length of a deque",
    lambda v: v[0] * (v.maxlen or 1),
    lambda t: (collections.deque([t]),),
    lambda t: (collections.deque([t], 3),),
    lambda t: (collections.deque([t], 4),),
)
given(
    "keys that are equal",
    lambda v: sum(v.values()) * len(repr(list(v))),
    lambda t: ({1: t},),
    lambda t: ({1.0: t},),
    lambda t: ({True: t},),
)
given(
    "keys that are objects",
    lambda v: sum(v.values()) * next(iter(v)).k,
    lambda t: ({Key(2.0): t},),
    lambda t: ({Key(3.0): t},),
)
given(
    "an empty list or None",
    lambda t, v: t * (2.0 if v is None else 3.0),
    lambda t: (t, []),
    lambda t: (t, None),
    lambda t: (t, ()),
)


class Key:
    """Equal to all others."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key)

    def __hash__(self) -> int:
        return 1

    def __lt__(self, other: Any) -> bool:
        return False


def marked(thing: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


def known(name: str, make: Any, function: Any) -> None:
    """A row: an argument that is a container of the state, or an equal one."""

    def program(compile: Compile) -> Any:
        state = make()
        f = compile(lambda v: function(state, v))
        other = make()
        return [f(v) for v in (state.v, state.v, other.v, other.v, state.v)]

    program.__name__ = name
    table.add(program)


_TENSOR = ad.ones(2)
known(
    "a list of the state", lambda: Box(v=[_TENSOR]), lambda s, v: v[0] * (2.0 if v is s.v else 3.0)
)
known(
    "a dict of the state",
    lambda: Box(v={"k": _TENSOR}),
    lambda s, v: v["k"] * (2.0 if v is s.v else 3.0),
)
known(
    "an object of the state",
    lambda: Box(v=Box(t=_TENSOR)),
    lambda s, v: v.t * (2.0 if v is s.v else 3.0),
)
known(
    "a config of the state",
    lambda: Box(v=Config(_TENSOR)),
    lambda s, v: v.parts * (2.0 if v is s.v else 3.0),
)
known(
    "a list of the state by id",
    lambda: Box(v=[_TENSOR]),
    lambda s, v: v[0] * (2.0 if id(v) == id(s.v) else 3.0),
)


@table
def an_argument_is_also_state_that_changes(compile: Compile) -> Any:
    box = Box(v=[ad.ones(2)], k=2.0)
    f = compile(lambda v: v[0] * box.v[0] * box.k)
    found = [f(box.v), f(box.v)]
    box.v[0] = ad.ones(2) * 3
    found += [f(box.v), f(box.v), f([ad.ones(2)])]
    return found


@table
def an_extra_attribute_that_changes(compile: Compile) -> Any:
    config: Any = Config(ad.ones(2))
    config.extra = 2.0
    f = compile(lambda c: c.parts * c.extra)
    found = [f(config), f(config)]
    config.extra = 3.0
    return [*found, f(config), f(config)]


@table
def a_method_of_a_config_reads_more(compile: Compile) -> Any:
    @dataclasses.dataclass
    class Own:
        x: Any
        scale = 2.0

        def scaled(self) -> Any:
            return self.x * self.scale

    one, other = Own(ad.ones(2)), Own(ad.ones(2))
    other.scale = 5.0
    f = compile(lambda c: c.scaled())
    found = [f(c) for c in (one, one, other, other, one)]
    Own.scale = 7.0
    return [*found, f(one), f(other)]
