"""Results: their structure, their memory, their history, and what callers do with them."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table

table = Table("results")


@dataclasses.dataclass
class Out:
    x: Any
    n: int = 2

    def __post_init__(self) -> None:
        self.norm = self.x.sum() if isinstance(self.x, ad.Tensor) else None


@dataclasses.dataclass
class Plain:
    x: Any
    n: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any


@ad.composite
class Own:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.tag = "a"


class Pair(NamedTuple):
    a: Any
    b: Any


class Table2(dict):  # type: ignore[type-arg]
    extra = 1


class List2(list):  # type: ignore[type-arg]
    extra = 1


class Kept:
    def __init__(self, x: Any) -> None:
        self.x = x


def seen_of(r: Any) -> Any:
    """A result with all that can be seen of it."""
    if isinstance(r, ad.Tensor):
        return [r.detach().clone(), r.stride(), r.requires_grad, r.is_leaf, type(r).__name__]
    if dataclasses.is_dataclass(r) or isinstance(r, Own | Kept | types.SimpleNamespace):
        return [type(r).__name__, {k: seen_of(v) for k, v in sorted(vars(r).items())}]
    if isinstance(r, dict):
        factory = getattr(r, "default_factory", None)
        own = dict(getattr(r, "__dict__", {}))
        return [type(r).__name__, [(k, seen_of(v)) for k, v in r.items()], str(factory), own]
    if isinstance(r, list | tuple | collections.deque):
        more = [getattr(r, "maxlen", None), dict(getattr(r, "__dict__", {}))]
        return [type(r).__name__, [seen_of(v) for v in r], more]
    return [type(r).__name__, r if not isinstance(r, np.ndarray) else r.tolist()]


def gives(name: str, function: Any, recorded: bool = False) -> None:
    """A row: what a function returns."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        found = []
        for k in range(4):
            found.append(seen_of(f(ad.full((2,), float(k + 1), requires_grad=True))))
        return found

    program.__name__ = name
    table.add(program, recorded=recorded)


def marked(thing: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


gives("a list", lambda x: [x * 2, x], recorded=True)
gives("a dict", lambda x: {"b": x * 2, "a": x.sum(), "n": 3}, recorded=True)
gives("an ordered dict", lambda x: collections.OrderedDict(b=x * 2, a=x * 3))
gives("a default dict", lambda x: collections.defaultdict(list, a=x * 2))
gives("a deque", lambda x: collections.deque([x * 2], maxlen=3))
gives("a named tuple", lambda x: Pair(x * 2, 3), recorded=True)
gives("a dataclass", lambda x: Plain(x * 2), recorded=True)
gives("a dataclass with more", lambda x: marked(Plain(x * 2), extra=3))
gives("a dataclass that computes", lambda x: Out(x * 2))
gives("a frozen dataclass", lambda x: Frozen(x * 2))
gives("a composite", lambda x: Own(x * 2))
gives("a composite with more", lambda x: marked(Own(x * 2), extra=3))
gives("an object", lambda x: Kept(x * 2))
gives("a namespace", lambda x: types.SimpleNamespace(x=x * 2))
gives("a subclass of dict", lambda x: Table2(a=x * 2))
gives("a subclass of dict with more", lambda x: marked(Table2(a=x * 2), extra=2))
gives("a subclass of list", lambda x: List2([x * 2]))
gives("a subclass of list with more", lambda x: marked(List2([x * 2]), extra=2))
gives("a set", lambda x: {1, 2})
gives("a counter", lambda x: collections.Counter(a=2))
gives("numbers", lambda x: (x * 2, 1, 2.0, True, None, "a", b"b", 1j, ...))
gives("signed zero and nan", lambda x: (x * 2, -0.0, float("inf")))
gives("a numpy number", lambda x: (x * 2, np.float32(2.0)))
gives("an array", lambda x: (x * 2, np.ones(2)))
gives("a shape", lambda x: (x * 2, x.shape, x.dtype, x.device), recorded=False)
gives("a range and a slice", lambda x: (x * 2, range(3), slice(1)))
gives("a function", lambda x: (x * 2, len))
gives("a type", lambda x: (x * 2, int))
gives("an enum", lambda x: (x * 2, ad.contiguous_format))
gives("nothing", lambda x: None)
gives("a number alone", lambda x: 3.0)
gives("an empty list", lambda x: [])
gives("a parameter", lambda x: nn.Parameter(x.detach() * 2))
gives("a fresh leaf", lambda x: (x.detach() * 2).requires_grad_())
gives("a tensor with an attribute", lambda x: marked(x * 2, tag=1))
gives("the argument", lambda x: x)
gives("a view of the argument", lambda x: x[:1])
gives("contiguous", lambda x: x.contiguous())
gives("to the same", lambda x: x.to(x.dtype))
gives("reshape to the same", lambda x: x.reshape(2))
gives("expand", lambda x: x.expand(3, 2))
gives("a transpose", lambda x: (x[None] * ad.ones(3, 1)).T, recorded=True)
gives("a view of a result", lambda x: (x * 2)[:1], recorded=True)
gives("a result and its view", lambda x: (lambda y: (y, y[:1]))(x * 2))
gives("unbind", lambda x: tuple((x * 2).unbind()))
gives("detach", lambda x: (x * 2).detach(), recorded=True)
gives("detach of the argument", lambda x: x.detach())
gives("integers", lambda x: (x * 2).long(), recorded=True)
gives("a mask", lambda x: x > 1, recorded=True)
gives("complex", lambda x: x * 1j, recorded=True)
gives("a scalar", lambda x: x.sum(), recorded=True)
gives("an empty tensor", lambda x: x[:0] * 2)
gives("a constant", lambda x: ad.ones(2), recorded=True)
gives("zeros_like", lambda x: ad.zeros_like(x), recorded=True)
gives("nested", lambda x: {"a": [(x * 2, {"b": x})]}, recorded=True)
gives("a generator", lambda x: list(t * 2 for t in x))
gives("half precision", lambda x: x.to(ad.bfloat16) * 3, recorded=True)
gives("sort", lambda x: tuple(x.sort()))
gives("max with a dim", lambda x: tuple(x.max(0)))
gives("the type of max", lambda x: type(x.max(0)).__name__ and x.max(0).indices)


def after(name: str, function: Any, use: Any) -> None:
    """A row: what a caller does with a result."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        found = []
        for k in range(4):
            x = ad.full((2,), float(k + 1), requires_grad=True)
            w = ad.full((2,), 3.0, requires_grad=True)
            try:
                found += [use(f, x, w), x, w]
            except RuntimeError:
                found.append("RuntimeError")
        return found

    program.__name__ = name
    table.add(program)


def passed(y: Any, g: Any = None, **options: Any) -> Any:
    y.backward(ad.ones_like(y) if g is None else g, **options)
    return y.detach().clone()


def gradient_changed(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    g = ad.ones_like(y)
    y.backward(g)
    g.mul_(5)
    return g


def one_gradient_changed(f: Any, x: Any, w: Any) -> Any:
    passed(f(x, w))
    if x.grad is not None:
        x.grad.add_(1)
    return None if w.grad is None else w.grad.clone()


def in_place(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    y.mul_(2)
    return passed(y)


def twice(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    passed(y)
    return passed(y)


def retained(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    passed(y, retain_graph=True)
    return passed(y)


def hooked(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    y.register_hook(lambda g: g * 3)
    return passed(y)


def kept(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    y.retain_grad()
    passed(y)
    return y.grad


def of_one(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    return ad.autograd.grad(y.sum(), w, allow_unused=True)[0]


def through(f: Any, x: Any, w: Any) -> Any:
    return passed(f(f(x, w), w * 2))


def mixed(f: Any, x: Any, w: Any) -> Any:
    return passed(f(x, w) * x)


def leaf_changed(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    with ad.no_grad():
        w.add_(1)
    return y.detach()


def added_up(f: Any, x: Any, w: Any) -> Any:
    passed(f(x, w))
    return passed(f(x, w))


def detached(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w).detach()
    y.add_(1)
    return y


def in_no_grad(f: Any, x: Any, w: Any) -> Any:
    with ad.no_grad():
        y = f(x, w)
        y.add_(1)
    return y


def by_result(f: Any, x: Any, w: Any) -> Any:
    y = f(x, w)
    return ad.autograd.grad(y.sum(), y)[0]


def vector(f: Any, x: Any, w: Any) -> Any:
    return passed(f(x, w), ad.tensor([2.0, -1.0]))


def expanded(f: Any, x: Any, w: Any) -> Any:
    return passed(f(x, w), ad.ones(()).expand(2))


def functional(f: Any, x: Any, w: Any) -> Any:
    return ad.func.vjp(lambda a: f(a, w.detach()), x.detach())[1](ad.ones(2))[0]


def forward_mode(f: Any, x: Any, w: Any) -> Any:
    return ad.func.jvp(lambda a: f(a, w.detach()), (x.detach(),), (ad.ones(2),))[1]


def batch(f: Any, x: Any, w: Any) -> Any:
    return ad.func.vmap(lambda a: f(a, w.detach()))(ad.stack([x.detach(), x.detach() * 2]))


def anomalous(f: Any, x: Any, w: Any) -> Any:
    with ad.autograd.detect_anomaly(check_nan=False):
        return passed(f(x, w))


FUNCTIONS = {
    "a sum": lambda x, w: x + w,
    "a product": lambda x, w: x * w,
    "one of them": lambda x, w: x * 1.0,
    "sines": lambda x, w: (x * w).sin() * w,
    "a norm": lambda x, w: x * w.norm(),
}
USES = (
    *(gradient_changed, one_gradient_changed, in_place, twice, retained, hooked, kept, of_one),
    *(through, mixed, leaf_changed, added_up, detached, in_no_grad, by_result, vector, expanded),
    *(functional, forward_mode, batch, anomalous),
)
# A second pass needs retain_graph in programs; sums of sums differ by a last bit (compile.md).
SAID = {("a sum", twice), ("one of them", twice), ("sines", through)}
for _name, _function in FUNCTIONS.items():
    for _use in USES:
        if (_name, _use) not in SAID:
            after(f"{_name}, {_use.__name__.replace('_', ' ')}", _function, _use)


@table
def one_list_twice(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        a = [x * 2]
        return a, a

    g = compile(f)
    found = []
    for _ in range(3):
        a, b = g(ad.ones(2))
        found.append(a is b)
    return found


@table
def a_list_of_the_argument(compile: Compile) -> Any:
    f = compile(lambda v: (v, v[0] * 2))
    found = []
    for _ in range(3):
        v = [ad.ones(2)]
        found.append(f(v)[0] is v)
    return found


@table
def a_list_of_the_state(compile: Compile) -> Any:
    box = Box(v=[ad.ones(2)])
    f = compile(lambda x: (box.v, x * 2))
    return [f(ad.ones(2))[0] is box.v for _ in range(3)]


@table
def fresh_lists_are_fresh(compile: Compile) -> Any:
    f = compile(lambda x: [x * 2])
    found = [f(ad.ones(2)) for _ in range(3)]
    found[1].append(1)
    return [*found, len({id(one) for one in found})]


@table
def results_alias_what_eager_aliases(compile: Compile) -> Any:
    found = []
    for function in (
        *(lambda x: x[:1], lambda x: x.view(2), lambda x: x.contiguous(), lambda x: x.T),
        *(lambda x: x.detach(), lambda x: x.reshape(1, 2), lambda x: x.to(ad.float32)),
        *(lambda x: x.float(), lambda x: x.expand(2), lambda x: x.flatten(), lambda x: x.squeeze()),
        *(lambda x: x.real, lambda x: x.clone(), lambda x: x + 0),
    ):
        f = compile(function)
        for _ in range(3):
            x = ad.ones(2)
            y = f(x)
            y.add_(1)
            found += [x, y, y is x]
    return found


@table
def weights_that_are_aliased(compile: Compile) -> Any:
    w = ad.ones(4)
    f = compile(lambda x: (w[:2], x * 2))
    found = []
    for _ in range(3):
        v, _ = f(ad.ones(2))
        v.add_(1)
        found.append(w.clone())
    return found
