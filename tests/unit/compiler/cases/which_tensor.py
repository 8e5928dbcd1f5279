"""Which tensor an argument is: keys of dicts, `is`, `in`, addresses, classes, attributes."""

from __future__ import annotations

import operator
import weakref
from typing import Any

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table, called

table = Table("which tensor")


def pair() -> tuple[Any, Any]:
    return ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)


def each(f: Any, *tensors: Any) -> list[Any]:
    return [called(f, t) for t in tensors for _ in range(2)] + [called(f, t) for t in tensors]


def lookup(name: str, make: Any, function: Any, recorded: bool = False) -> None:
    """A row: a function that asks which of two tensors it gets, or a third one."""

    def program(compile: Compile) -> Any:
        p, q = pair()
        state = make(p, q)
        f = compile(lambda t: function(state, t))
        return each(f, p, q, ad.ones(2, requires_grad=True))

    program.__name__ = name
    table.add(program, recorded=recorded)


lookup("rate by tensor", lambda p, q: {p: 2.0, q: 3.0}, lambda s, t: t * s.get(t, 5.0))
lookup("rate by id", lambda p, q: {id(p): 2.0, id(q): 3.0}, lambda s, t: t * s.get(id(t), 5.0))
lookup(
    "rate by hash", lambda p, q: {hash(p): 2.0, hash(q): 3.0}, lambda s, t: t * s.get(hash(t), 5.0)
)
lookup(
    "dunder hash",
    lambda p, q: {hash(p): 2.0},
    lambda s, t: t * s.get(t.__hash__(), 5.0),
)
lookup(
    "hash of the class",
    lambda p, q: {hash(p): 2.0},
    lambda s, t: t * s.get(ad.Tensor.__hash__(t), 5.0),
)
lookup("in a set", lambda p, q: {p}, lambda s, t: t * (2.0 if t in s else 3.0))
lookup("not in a frozenset", lambda p, q: frozenset([q]), lambda s, t: t * (1 + (t not in s)))
lookup("is", lambda p, q: [p], lambda s, t: t * (2.0 if t is s[0] else 3.0), recorded=True)
lookup("is not", lambda p, q: (q,), lambda s, t: t * (2.0 if t is not s[0] else 3.0))
lookup("operator.is_", lambda p, q: [p], lambda s, t: t * (2.0 if operator.is_(t, s[0]) else 3.0))
lookup("any is", lambda p, q: [p, q], lambda s, t: t * (2.0 if any(t is o for o in s) else 3.0))
lookup(
    "index by is", lambda p, q: [p, q], lambda s, t: t * sum(k for k, o in enumerate(s) if o is t)
)
lookup("index of ids", lambda p, q: [id(p), id(q)], lambda s, t: t * (1 + (id(t) in s)))
lookup("map id", lambda p, q: {id(p): 2.0}, lambda s, t: t * s.get([*map(id, [t])][0], 4.0))
lookup("dict.fromkeys", lambda p, q: [p, q], lambda s, t: t * len(dict.fromkeys([*s, t])))
lookup("set of all", lambda p, q: [p, q], lambda s, t: t * len({*s, t}))
lookup(
    "weak keys", lambda p, q: weakref.WeakKeyDictionary({p: 2.0}), lambda s, t: t * s.get(t, 1.0)
)
lookup("by attribute", lambda p, q: setattr(p, "tag", 3.0), lambda s, t: t * getattr(t, "tag", 1.0))
lookup("hasattr", lambda p, q: setattr(p, "mark", 1), lambda s, t: t * (1 + hasattr(t, "mark")))
lookup("its dict", lambda p, q: setattr(p, "m", 1), lambda s, t: t * (1 + len(t.__dict__)))
lookup("vars", lambda p, q: setattr(p, "m", 2), lambda s, t: t * vars(t).get("m", 1))
lookup("repr of it", lambda p, q: None, lambda s, t: t * len(object.__repr__(t)[:7]))
lookup("identity through a helper", lambda p, q: Box(p=p), lambda s, t: t * same(s.p, t))
lookup("key of a pair", lambda p, q: {(p, 1): 2.0}, lambda s, t: t * s.get((t, 1), 7.0))
lookup(
    "in an object", lambda p, q: Box(w=p, rest=[q]), lambda s, t: t * (t is s.w) + (t is s.rest[0])
)
lookup(
    "address of data",
    lambda p, q: p.data_ptr(),
    lambda s, t: t * (2.0 if t.data_ptr() == s else 3.0),
)
lookup("default of a function", lambda p, q: make_default(p), lambda s, t: t * s(t))


def same(a: Any, b: Any) -> float:
    return 2.0 if a is b else 3.0


def make_default(p: Any) -> Any:
    def is_it(t: Any, p: Any = p) -> float:
        return 2.0 if t is p else 3.0

    return is_it


@table
def all_parameters_have_their_own_momentum(compile: Compile) -> Any:
    params = [ad.ones(2) * k for k in (1.0, 2.0, 3.0)]
    momentum = {p: ad.zeros(2) for p in params}

    def step(p: Any, g: Any) -> Any:
        momentum[p].mul_(0.9).add_(g)
        p.sub_(0.1 * momentum[p])
        return p.sum()

    f = compile(step)
    found = [f(p, p.clone()) for _ in range(4) for p in params]
    return [found, params, [momentum[p] for p in params]]


@table
def state_by_id(compile: Compile) -> Any:
    params = [ad.ones(2) * k for k in (1.0, 2.0, 3.0)]
    state = {id(p): ad.full((2,), float(k)) for k, p in enumerate(params)}
    f = compile(lambda p: p + state[id(p)])
    return [f(p) for _ in range(3) for p in params]


@table
def no_decay(compile: Compile) -> Any:
    net = nn.Linear(2, 2)
    no_decay = {net.bias}
    f = compile(lambda p: p * (1.0 if p in no_decay else 0.9))
    return [f(p).detach() for _ in range(3) for p in (net.weight, net.bias, net.weight)]


@table
def two_arguments_that_are_one(compile: Compile) -> Any:
    p, q = pair()
    f = compile(lambda a, b: (a * b) if a is b else a + b)
    return [called(f, *given) for given in ((p, q), (p, q), (p, p), (p, p), (q, p), (q, q))]


@table
def two_in_a_list_that_are_one(compile: Compile) -> Any:
    p, q = pair()
    f = compile(lambda ts: ts[0] * (2.0 if ts[0] is ts[1] else 3.0))
    return [f([p, q]), f([p, q]), f([p, p]), f([p, p]), f([q, p])]


@table
def two_in_a_dict_that_are_one(compile: Compile) -> Any:
    p, q = pair()
    f = compile(lambda d: d["a"] * len({d["a"], d["b"]}))
    return [f({"a": p, "b": q}) for _ in range(3)] + [f({"a": p, "b": p}) for _ in range(2)]


@table
def keyword_and_position_are_one(compile: Compile) -> Any:
    p, q = pair()
    f = compile(lambda a, *, b: a * (2.0 if a is b else 3.0))
    return [f(p, b=q), f(p, b=q), f(p, b=p), f(q, b=q), f(q, b=p)]


@table
def a_parameter_and_a_tensor_in_a_list(compile: Compile) -> Any:
    p, t = nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)
    f = compile(lambda ts: ts[0] * (2.0 if isinstance(ts[0], nn.Parameter) else 3.0))
    return [f([p]), f([p]), f([t]), f([t]), f([p])]


@table
def a_parameter_and_a_tensor_in_a_dict(compile: Compile) -> Any:
    p, t = nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)
    f = compile(lambda d: d["a"] * (2.0 if type(d["a"]) is ad.Tensor else 3.0))
    return [f({"a": v}) for v in (t, t, p, p, t)]


@table
def a_parameter_and_a_tensor_in_a_tuple(compile: Compile) -> Any:
    p, t = nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)
    f = compile(lambda pair: sum(v * (1 + isinstance(v, nn.Parameter)) for v in pair))
    return [f((t, p)), f((t, p)), f((p, t)), f((p, p)), f((t, t))]


@table
def a_parameter_and_a_tensor_alone(compile: Compile) -> Any:
    p, t = nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)
    f = compile(lambda v: v * (2.0 if isinstance(v, nn.Parameter) else 3.0))
    return [f(v) for v in (p, p, t, t, p)]


@table
def a_parameter_by_keyword(compile: Compile) -> Any:
    p, t = nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)
    f = compile(lambda *, v: v * len(type(v).__name__))
    return [f(v=v) for v in (p, p, t, t, p)]


@table
def a_parameter_found_in_state(compile: Compile) -> Any:
    state = [nn.Parameter(ad.ones(2)), ad.ones(2, requires_grad=True)]
    chosen = [0]
    f = compile(lambda x: x * (2.0 if isinstance(state[chosen[0]], nn.Parameter) else 3.0))
    found = [f(ad.ones(2)), f(ad.ones(2))]
    chosen[0] = 1
    return [*found, f(ad.ones(2)), f(ad.ones(2))]


@table
def an_argument_that_is_a_weight(compile: Compile) -> Any:
    net = nn.Linear(2, 2)
    f = compile(lambda w: w * (2.0 if w is net.weight else 3.0))
    other = net.weight.detach().clone().requires_grad_()
    return [called(f, w) for w in (other, other, net.weight, net.weight, other)]


@table
def a_weight_read_and_given(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    f = compile(lambda t: t * w + w)
    other = ad.ones(2, requires_grad=True) * 1
    return [called(f, t) for t in (w, w, other, other, w)]


@table
def arguments_swap(compile: Compile) -> Any:
    p, q = pair()
    first = [p]
    f = compile(lambda a, b: a * 2 + b * 3 if a is first[0] else a * 5 + b * 7)
    return [called(f, *given) for given in ((p, q), (p, q), (q, p), (q, p), (p, q))]


@table
def a_view_and_its_base(compile: Compile) -> Any:
    base = ad.arange(4.0)
    view = base[:2]

    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    g = compile(f)
    other = ad.arange(4.0)
    return [g(view, base), g(view, base), g(view, other), g(view, other), g(view, base), base]


@table
def the_attribute_of_an_argument_changes(compile: Compile) -> Any:
    p: Any = ad.ones(2)
    p.scale = 2.0
    f = compile(lambda t: t * t.scale)
    found = [f(p), f(p)]
    p.scale = 3.0
    return [*found, f(p), f(p)]


@table
def an_argument_gets_an_attribute(compile: Compile) -> Any:
    p: Any = ad.ones(2)
    f = compile(lambda t: t * getattr(t, "scale", 1.0))
    found = [f(p), f(p)]
    p.scale = 3.0
    return [*found, f(p), f(p)]


@table
def counts_of_tensors(compile: Compile) -> Any:
    p, q = pair()
    f = compile(lambda *ts: ts[0] * len({id(t) for t in ts}))
    return [f(p, q), f(p, q), f(p, p), f(q, q), f(p, q)]


@table
def one_of_many_parameters(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    names = {p: name for name, p in net.named_parameters()}
    f = compile(lambda p: p * len(names[p]) + (1.0 if names[p].startswith("1") else 2.0))
    return [f(p).detach() for _ in range(2) for p in net.parameters()]


@table
def a_registry_of_seen_tensors(compile: Compile) -> Any:
    p, q = pair()
    registry: dict[Any, int] = {}

    def f(t: Any) -> Any:
        k = registry.setdefault(t, len(registry))
        return t * (k + 1)

    g = compile(f)
    return [*(g(t) for t in (p, p, q, q, p)), len(registry)]
