"""What a recording run reads is guarded, what it changes outside is refused, the rest passes."""

from __future__ import annotations

import builtins
import collections
import contextvars
import copy
import dataclasses
import datetime
import enum
import functools
import gc
import heapq
import itertools
import logging
import math
import operator
import os
import pathlib
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler._guards import Guards
from adjoint.compiler._snapshots import MOST_PARTS, Snapshot, TooLarge, same
from adjoint.compiler._watch import Refusal, Watch


def watched(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Guards, list[Refusal]]:
    with Watch(f, (args, kwargs)) as watch:
        f(*args, **kwargs)
    return watch.guards(), watch.refusals


def passes(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Guards:
    guards, refusals = watched(f, *args, **kwargs)
    assert refusals == []
    assert guards.hold(), guards.failed()
    assert guards.failed() is None
    return guards


def refused(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Refusal:
    _, refusals = watched(f, *args, **kwargs)
    assert refusals, "nothing was refused"
    assert refusals[0].where.startswith((f"{os.path.basename(__file__)}:", "<string>:"))
    return refusals[0]


def x(n: int = 3) -> ad.Tensor:
    return ad.arange(n, dtype=ad.float32)


# -- things that programs read ---------------------------------------------------------------------

scale = 2.0
sizes = [1, 2, 3]
nested = {"a": [1.0, {"b": 2.0}], "c": (3.0, [4.0])}
weights = np.array([1.0, 2.0, 3.0])
vocabulary = {"one", "two"}
queue = collections.deque([1.0, 2.0])
counter = 0
log: list[Any] = []
table: dict[str, Any] = {}
stream = iter(range(10**6))
stream_of_two = iter([1, 2])
generator = random.Random(0)
array_generator = np.random.default_rng(0)
parameter = ad.ones(3, requires_grad=True)
namespace = types.SimpleNamespace(lr=0.1, deep=types.SimpleNamespace(k=[1.0]))
no_value = float("nan")


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


mode = Mode.SLOW


class Settings:
    kind = "linear"
    factor = 0.5

    def __init__(self) -> None:
        self.lr = 0.1
        self.layers = [1.0, 2.0]
        self.count = 0
        self.cache: dict[str, Any] = {}

    @property
    def half(self) -> float:
        return self.lr / 2

    @functools.cached_property
    def once(self) -> float:
        return self.lr * 3

    @classmethod
    def doubled(cls) -> float:
        return cls.factor * 2

    @staticmethod
    def three() -> float:
        return 3.0

    def method(self, t: Any) -> Any:
        return t * self.lr

    def __call__(self, t: Any) -> Any:
        return t + self.lr

    def __getitem__(self, i: int) -> float:
        return self.layers[i]

    def __iter__(self) -> Iterator[float]:
        return iter(self.layers)


class Slotted:
    __slots__ = ("k", "later")

    def __init__(self) -> None:
        self.k = 4.0


@dataclasses.dataclass
class State:
    position: Any
    speed: Any
    dt: float = 0.1

    def step(self) -> State:
        return dataclasses.replace(self, position=self.position + self.dt * self.speed)


class Pair(NamedTuple):
    a: Any
    b: Any


settings = Settings()
slotted = Slotted()
kept_partial = functools.partial(lambda a, b, c: a * b[0] + c, c=1.0)
bound_list = [5.0]
list_partial = functools.partial(lambda values, t: t * len(values), bound_list)


def helper(t: Any, by: float = 2.0, *, add: float = 1.0) -> Any:
    return t * by + add


def with_list_default(t: Any, parts: list[float] = [1.0, 2.0]) -> Any:  # noqa: B006
    return t * sum(parts)


def decorated(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        kwargs["by"] = kwargs.pop("by", 3.0)
        return f(*args, **kwargs)

    return wrapper


decorated_helper = decorated(helper)


# -- programs that pass ----------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 3))
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.norm = nn.LayerNorm(3)
        self.alpha = nn.Parameter(ad.ones(1))
        self.register_buffer("offset", ad.zeros(3))
        self.depth = 2
        self.options = {"skip": True}

    def forward(self, t: Any) -> Any:
        y = self.body(t)
        for i, layer in enumerate(self.layers):
            y = y + layer(y) * self.alpha if self.options["skip"] else layer(y)
            if i + 1 == self.depth:
                break
        return self.norm(y) + self.offset


def loop(t: Any) -> Any:
    total = 0.0
    parts = []
    for i in range(5):
        parts.append(t * i)
        total = total + parts[-1].sum()
    parts.extend(parts[:2])
    parts.sort(key=lambda one: one.ndim)
    parts[0] = t
    del parts[1]
    return total + sum(p.sum() for p in parts)


def containers(t: Any) -> Any:
    d = {"a": t, "b": 2.0}
    d["c"] = t * 2
    d.update(e=t)
    d.setdefault("f", []).append(t)
    plain = {}
    plain["n"] = 1
    plain["m"] = plain.get("n", 0) + 1
    s = set()
    s.add(1)
    q = collections.deque()
    q.append(t)
    counts = collections.Counter()
    counts["a"] += 1
    grouped = collections.defaultdict(list)
    grouped["x"].append(t)
    ordered = collections.OrderedDict(a=1)
    ordered.move_to_end("a")
    buffer = bytearray(3)
    buffer[0] = 1
    total = [v for v in d.values() if isinstance(v, ad.Tensor)]
    return sum(total) * len(s) + plain["m"] + len(q) + counts["a"] + len(grouped) + len(ordered)


def comprehensions(t: Any) -> Any:
    a = [t * i for i in range(3)]
    b = {i: v * 1 for i, v in enumerate(a)}
    c = sum(v for v in b.values())
    d = {len(str(i)) for i in range(3)}
    return c + len(d) + max(map(lambda one: one.ndim, a))  # noqa: C417


def generators(t: Any) -> Any:
    def parts(n: int) -> Iterator[Any]:
        for i in range(n):
            yield t * i
        yield from (t, t)

    stream = parts(3)
    first = next(stream)
    return first + sum(stream)


def closures(t: Any) -> Any:
    n = 0

    def count() -> None:
        nonlocal n
        n += 1

    for _ in range(3):
        count()
    return t * n


def objects(t: Any) -> Any:
    made = Settings()
    made.lr = 0.3
    made.count += 1
    made.layers.append(3.0)
    made.cache["a"] = t
    state = State(t, t * 2)
    for _ in range(3):
        state = state.step()
    state.dt = 0.2
    pair = Pair(t, state)
    fresh = types.SimpleNamespace(a=1)
    fresh.b = 2
    copied = copy.copy(made)
    copied.lr = made.once
    return made(t) + pair.b.position * state.dt + fresh.b + copied.half + sum(made)


def builtins_and_maths(t: Any) -> Any:
    y = t * math.pi + math.sin(1.0)
    for a, b in zip([1.0, 2.0], (3.0, 4.0), strict=True):
        y = y + a * b + abs(-a) + max(a, b) + round(b) + divmod(3, 2)[0] + pow(2, 2)
    for i, c in enumerate(reversed([1, 2])):
        y = y * i + c
    text = f"{len(y)} {y.ndim:>3} {type(y).__name__!r}"
    assert isinstance(text, str) and callable(helper) and hasattr(y, "shape")
    y = functools.reduce(operator.add, [y, y])
    for one in itertools.chain([1.0], itertools.repeat(2.0, 2)):
        y = y + one
    return y + sum(sorted([3, 1])) + any([0, 1]) + int("3") + float("2.5") + ord("a")


def arrays_made_inside(t: Any) -> Any:
    a = np.zeros(3)
    a[0] = 1.0
    a += 2.0
    a[1:][0] = 5.0
    np.fill_diagonal(np.zeros((2, 2)), 1.0)
    np.add(a, 1.0, out=a)
    rng = np.random.default_rng(3)
    other = random.Random(4)
    return t * ad.from_numpy(a).float() * float(rng.normal()) * other.random()


def exceptions(t: Any) -> Any:
    try:
        raise ValueError("no")
    except ValueError as error:
        error.extra = 1  # type: ignore[attr-defined]
        y = t * len(error.args)
    try:
        [][1]
    except IndexError:
        y = y + 1
    try:
        settings.not_there  # type: ignore[attr-defined]
    except AttributeError:
        y = y * 2
    return y


def recursion(t: Any, n: int = 5) -> Any:
    return t if n == 0 else recursion(t * 1.5, n - 1)


def in_place_on_tensors(t: Any) -> Any:
    y = t.clone()
    y[0] = 5.0
    y += 1
    y.mul_(2)
    y.requires_grad = True
    parameter.grad = None
    return y


class Square(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        ctx.save_for_backward(t)
        ctx.power = 2
        return t * t

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (t,) = ctx.saved_tensors
        return g * ctx.power * t


def with_backward(t: Any) -> Any:
    w = t.clone().requires_grad_()
    loss = Square.apply(w).sum()
    loss.backward()
    with ad.no_grad():
        return w - 0.1 * w.grad


def transforms(t: Any) -> Any:
    def f(v: Any) -> Any:
        return (v * scale).sin().sum()

    return ad.func.grad(f)(t) + ad.func.vmap(lambda v: v * 2)(t)


def classes_made_inside(t: Any) -> Any:
    class Local:
        k = 3

        def __init__(self, v: Any) -> None:
            self.v = v

    return Local(t).v * Local.k


def stars(*args: Any, **kwargs: Any) -> Any:
    kwargs["more"] = 1
    kwargs.pop("gone", None)
    values = [*args, *kwargs.values()]
    return helper(*values[:1], by=2.0)


def setattr_inside(t: Any) -> Any:
    made = types.SimpleNamespace()
    setattr(made, "v", t)  # noqa: B010
    object.__setattr__(made, "w", 1)
    made.__dict__["z"] = 2
    vars(made)["y"] = 3
    delattr(made, "w")
    return getattr(made, "v") * made.z + made.y  # noqa: B009


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", self.b * 2)


def frozen(t: Any) -> Any:
    return Frozen(t).a * Frozen(t).b


def context_managers(t: Any) -> Any:
    class Manager:
        def __enter__(self) -> Manager:
            self.inside = True
            return self

        def __exit__(self, *args: object) -> None:
            self.inside = False

    with Manager() as manager, ad.no_grad(), ad.set_grad_enabled(False):
        y = t * manager.inside
    return y + 1


def walrus_and_match(t: Any) -> Any:
    if (n := len(t)) > 2:
        t = t * n
    match {"kind": "a", "value": 2.0}:
        case {"kind": "a", "value": v}:
            return t * v
    return t


def imports(t: Any) -> Any:
    import cmath
    from math import pi

    return t * pi * cmath.pi


def stores_what_is_there(t: Any) -> Any:
    settings.lr = 0.1
    return t * settings.lr


PASSING = [
    loop,
    containers,
    comprehensions,
    generators,
    closures,
    objects,
    builtins_and_maths,
    arrays_made_inside,
    exceptions,
    recursion,
    in_place_on_tensors,
    with_backward,
    transforms,
    classes_made_inside,
    stars,
    setattr_inside,
    frozen,
    context_managers,
    walrus_and_match,
    imports,
    stores_what_is_there,
    helper,
    with_list_default,
    decorated_helper,
    settings,
    settings.method,
    kept_partial.func and functools.partial(helper, by=4.0),
    Settings.doubled and (lambda t: t * Settings.doubled() * settings.three()),
    list_partial,
    ad.func.grad(lambda t: (t * scale).sum()),
    lambda t: sum(v for v in queue) * t + len(vocabulary) + nested["a"][1]["b"] + weights.sum(),
]


@pytest.mark.parametrize("f", PASSING, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_ordinary_programs_are_not_refused(f: Callable[..., Any]) -> None:
    passes(f, x())


def test_models_are_not_refused() -> None:
    model = Net()
    passes(model, ad.ones(2, 3))
    passes(lambda t: model(t).sum(), ad.ones(2, 3))
    passes(model.eval(), ad.ones(2, 3))
    passes(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), ad.ones(2, 3))
    passes(nn.Sequential(nn.BatchNorm1d(3), nn.GELU()), ad.ones(2, 3))


# -- what is read is guarded -----------------------------------------------------------------------


def changes(
    monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], change: Callable[..., Any], *words: str
) -> None:
    """Guards hold before a change, not after it, and hold again when it is undone."""
    guards = passes(f, x())
    with monkeypatch.context() as patch:
        undo = change(patch)
        assert not guards.hold()
        said = guards.failed()
        assert said is not None
        for word in words:
            assert word in said
        if undo is not None:
            undo()
    assert guards.hold(), guards.failed()


def here(name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(sys.modules[__name__], name, value)


def test_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    changes(
        monkeypatch, lambda t: t * scale, here("scale", 3.0), "global `scale`", "was 2.0 and is 3.0"
    )
    changes(monkeypatch, lambda t: t * scale, here("scale", 2), "was 2.0 and is 2")
    changes(monkeypatch, lambda t: helper(t), here("helper", lambda t: t), "`helper`")
    changes(monkeypatch, lambda t: t * parameter, here("parameter", ad.ones(3)), "a tensor [3]")
    changes(monkeypatch, lambda t: t * mode.value, here("mode", Mode.FAST), "Mode.SLOW")
    changes(monkeypatch, lambda t: t * no_value, here("no_value", 0.0), "nan")
    changes(
        monkeypatch,
        lambda t: t * scale,
        lambda patch: patch.delattr(sys.modules[__name__], "scale"),
        "is gone",
    )


def test_a_global_with_an_equal_value_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = passes(lambda t: t * scale * len(sizes), x())
    monkeypatch.setattr(sys.modules[__name__], "scale", float("2.0"))
    monkeypatch.setattr(sys.modules[__name__], "sizes", [*sizes])
    assert guards.hold()


def test_a_builtin_name_that_is_shadowed(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = passes(lambda t: t * len(sizes), x())
    monkeypatch.setattr(sys.modules[__name__], "len", lambda _: 1, raising=False)
    assert not guards.hold()
    assert "built-in" in str(guards.failed())


def test_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(thing: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
        return lambda patch: patch.setattr(thing, name, value, raising=False)

    changes(monkeypatch, lambda t: t * settings.lr, on(settings, "lr", 0.2), "`settings.lr`", "0.2")
    changes(monkeypatch, lambda t: t * settings.factor, on(Settings, "factor", 0.6), "0.6")
    changes(monkeypatch, lambda t: t * settings.factor, on(settings, "factor", 0.6), "0.6")
    changes(monkeypatch, lambda t: t * Settings.factor, on(Settings, "factor", 0.6), "0.6")
    changes(monkeypatch, lambda t: t * settings.half, on(settings, "lr", 0.2), "`self.lr`")
    changes(monkeypatch, lambda t: t * settings.half, on(Settings, "half", 0.2))
    changes(monkeypatch, lambda t: t * settings.doubled(), on(Settings, "factor", 0.2))
    changes(monkeypatch, lambda t: settings.method(t), on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: settings.method(t), on(Settings, "method", lambda s, t: t))
    changes(monkeypatch, lambda t: settings.method(t), on(settings, "method", lambda t: t))
    changes(monkeypatch, settings, on(settings, "lr", 0.2))
    changes(monkeypatch, settings.method, on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * slotted.k, on(slotted, "k", 5.0))
    changes(monkeypatch, lambda t: t * namespace.deep.k[0], on(namespace.deep, "k", [2.0]))
    changes(monkeypatch, lambda t: t * getattr(settings, "lr"), on(settings, "lr", 0.2))  # noqa: B009
    changes(
        monkeypatch, lambda t: t * hasattr(settings, "new"), on(settings, "new", 1), "not there"
    )
    changes(monkeypatch, lambda t: t * vars(settings)["lr"], on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * settings.__dict__["lr"], on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * operator.attrgetter("lr")(settings), on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * copy.copy(settings).lr, on(settings, "lr", 0.2))
    changes(monkeypatch, helper, on(helper, "__defaults__", (3.0,)))
    changes(monkeypatch, helper, on(helper, "__kwdefaults__", {"add": 3.0}))
    changes(monkeypatch, helper, on(helper, "__code__", recursion.__code__))
    changes(monkeypatch, decorated_helper, on(helper, "__kwdefaults__", {"add": 3.0}))


def test_reads_of_functions_made_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is new, what it reads is not."""

    def nested_function(t: Any) -> Any:
        def inner() -> Any:
            return t * scale

        return inner()

    def listed(t: Any) -> Any:
        return [t * scale for _ in range(2)][-1]

    def generated(t: Any) -> Any:
        return sum(t * scale for _ in range(2))

    def executed(t: Any) -> Any:
        return eval("t * scale", globals(), {"t": t})

    for f in (nested_function, listed, generated, executed):
        changes(monkeypatch, f, here("scale", 3.0), "`scale`", "3.0")


variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=1.0)
thread_own = threading.local()
thread_own.k = 2.0
chained = collections.ChainMap({"a": 1.0}, {"b": 2.0})
users = collections.UserDict({"a": 1.0})


class Base:
    def method(self, t: Any) -> Any:
        return t * 2


class Derived(Base):
    def method(self, t: Any) -> Any:
        return super().method(t) + 1


derived = Derived()


@functools.lru_cache
def remembered() -> list[float]:
    return [1.0, 2.0]


def test_less_common_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(thing: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
        return lambda patch: patch.setattr(thing, name, value)

    def setting(to: float) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(_: pytest.MonkeyPatch) -> Any:
            token = variable.set(to)
            return lambda: variable.reset(token)

        return change

    def item(container: Any, key: Any, value: Any) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(_: pytest.MonkeyPatch) -> Any:
            before = container[key]
            container[key] = value
            return lambda: operator.setitem(container, key, before)

        return change

    remembered()
    changes(monkeypatch, lambda t: t * variable.get(), setting(3.0))
    changes(monkeypatch, lambda t: t * thread_own.k, on(thread_own, "k", 3.0))
    changes(monkeypatch, lambda t: t * chained["b"], item(chained.maps[1], "b", 3.0))
    changes(monkeypatch, lambda t: t * users["a"], item(users, "a", 3.0))
    changes(monkeypatch, lambda t: t * sum(remembered()), item(remembered(), 0, 3.0))
    changes(monkeypatch, derived.method, on(Base, "method", lambda self, t: t))
    changes(monkeypatch, derived.method, on(Base.method, "__code__", (lambda self, t: t).__code__))


def test_sets_and_arrays_among_the_arguments_are_guarded() -> None:
    """They are the same argument as long as they are the same object."""
    array, elements = np.ones(3), {1, 2}
    guards = passes(lambda t, a, e: t * a.sum() * len(e), x(), array, elements)
    array[0] = 2.0
    assert not guards.hold()
    array[0] = 1.0
    assert guards.hold()
    elements.add(3)
    assert not guards.hold()
    _, refusals = watched(lambda t, a: t * a[0], x(), np.ones(1000))
    assert refusals[0].reason.startswith("an argument is an array of 8000 bytes")


def test_attributes_that_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(1.0, 2.0)

    def f(t: Any) -> Any:
        match state:
            case State(1.0, speed=v):
                return t * v
        return t

    guards = passes(f, x())
    state.position = 2.0
    assert not guards.hold()
    state.position = 1.0
    assert guards.hold()
    state.speed = 3.0
    assert not guards.hold()


def test_objects_in_objects_that_are_handed_over() -> None:
    outer, inner = Settings(), Settings()
    outer.layers = [inner]  # type: ignore[list-item]

    def f(t: Any) -> Any:
        return t * copy.deepcopy(outer).layers[0].lr  # type: ignore[attr-defined]

    guards = passes(f, x())
    inner.lr = 5.0
    assert not guards.hold()


def test_old_containers_in_new_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holder:
        def __init__(self, v: Any) -> None:
            self.v = v

    made = [1.0, 2.0]
    first = operator.itemgetter(0)
    boxes = (made,)

    def f(t: Any) -> Any:
        holder = Holder(first(boxes))
        return t * holder.v[0]

    guards = passes(f, x())
    made[0] = 2.0
    assert not guards.hold()


def test_the_order_of_an_ordered_dict_counts() -> None:
    ordered = collections.OrderedDict(a=1.0, b=2.0)
    guards = passes(lambda t: sum(t * v for v in ordered.values()), x())
    ordered.move_to_end("a")
    assert not guards.hold()
    ordered.move_to_end("b")
    assert guards.hold()


def test_a_missing_attribute_that_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    changes(
        monkeypatch,
        exceptions,
        lambda patch: patch.setattr(settings, "not_there", 1, raising=False),
        "not there",
    )


def test_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    def item(container: Any, key: Any, value: Any) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(patch: pytest.MonkeyPatch) -> Callable[[], None] | None:
            if isinstance(container, dict):
                patch.setitem(container, key, value)
                return None
            before = container[key]
            container[key] = value
            return lambda: operator.setitem(container, key, before)

        return change

    for f in (
        lambda t: t * len(sizes),
        lambda t: t * sum(sizes),
        lambda t: t * sizes[0],
        lambda t: sum(t * s for s in sizes),
        lambda t: sum([t * s for s, _ in zip(sizes, range(3), strict=True)]),
    ):
        monkeypatch.setattr(sys.modules[__name__], "sizes", [1, 2, 3])
        guards = passes(f, x())
        sizes[0] = 5
        assert not guards.hold()
        assert "`sizes`" in str(guards.failed())
        sizes[0] = 1
        assert guards.hold()
        sizes[0] = True
        assert not guards.hold()
    changes(monkeypatch, lambda t: t * nested["a"][0], item(nested["a"], 0, 2.0), "`nested`")
    changes(monkeypatch, lambda t: t * nested["c"][0], item(nested["c"][1], 0, 2.0), "`nested`")
    changes(monkeypatch, lambda t: t * len(nested), item(nested, "new", 2.0), "has changed")
    changes(monkeypatch, lambda t: t * globals()["scale"], here("scale", 3.0))
    changes(monkeypatch, list_partial, item(bound_list, 0, 6.0))
    changes(
        monkeypatch,
        with_list_default,
        item(with_list_default.__defaults__[0], 0, 3.0),  # type: ignore[index]
    )


def test_arrays_sets_and_deques() -> None:
    guards = passes(lambda t: t * weights.sum() + len(vocabulary) + queue[0], x())
    for change, undo in (
        (lambda: operator.setitem(weights, 0, 7.0), lambda: operator.setitem(weights, 0, 1.0)),
        (lambda: vocabulary.add("three"), lambda: vocabulary.discard("three")),
        (lambda: queue.append(3.0), lambda: queue.pop()),
    ):
        change()
        assert not guards.hold()
        undo()
        assert guards.hold()


def test_closures() -> None:
    k = 2.0

    def f(t: Any) -> Any:
        return t * k

    guards = passes(f, x())
    k = 3.0
    assert not guards.hold()
    assert "`k` of an enclosing function" in str(guards.failed())
    k = 2.0
    assert guards.hold()


def test_the_order_of_a_dict_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "nested", {"a": 1.0, "b": 2.0})
    guards = passes(lambda t: sum(t * v for v in nested.values()), x())
    nested["a"] = nested.pop("a")
    assert not guards.hold()


def test_user_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("users_own_settings")
    module.rate = 0.5  # type: ignore[attr-defined]
    monkeypatch.setattr(sys.modules[__name__], "namespace", module)
    changes(monkeypatch, lambda t: t * namespace.rate, lambda p: p.setattr(module, "rate", 0.6))


def test_modules() -> None:
    model = Net()
    guards = passes(model, ad.ones(2, 3))

    def fails(change: Callable[[], Any], undo: Callable[[], Any]) -> None:
        change()
        assert not guards.hold()
        assert guards.failed()
        undo()
        assert guards.hold(), guards.failed()

    def set_to(thing: Any, name: str, value: Any) -> Callable[[], None]:
        return lambda: setattr(thing, name, value)

    fails(model.eval, model.train)
    fails(set_to(model.body[2], "p", 0.2), set_to(model.body[2], "p", 0.1))
    fails(set_to(model, "depth", 1), set_to(model, "depth", 2))
    fails(lambda: model.options.update(skip=False), lambda: model.options.update(skip=True))
    alpha, offset, layer = model.alpha, model.offset, model.layers[0]
    fails(set_to(model, "alpha", nn.Parameter(ad.ones(1))), set_to(model, "alpha", alpha))
    fails(set_to(model, "offset", ad.zeros(3)), set_to(model, "offset", offset))
    fails(
        lambda: model.layers.__setitem__(0, nn.Linear(3, 3)),
        lambda: model.layers.__setitem__(0, layer),
    )
    weight = layer.weight
    fails(set_to(layer, "weight", nn.Parameter(weight.detach())), set_to(layer, "weight", weight))
    handles: list[Any] = []
    fails(
        lambda: handles.append(model.norm.register_forward_hook(lambda *args: None)),
        lambda: handles.pop().remove(),
    )
    fails(
        lambda: model.norm.__dict__.update(forward=lambda t: t),
        lambda: model.norm.__dict__.pop("forward"),
    )
    before = model.norm.eps
    fails(set_to(model.norm, "eps", 1.0), set_to(model.norm, "eps", before))


def test_parameters_may_change_their_values() -> None:
    model = Net()
    guards = passes(model, ad.ones(2, 3))
    with ad.no_grad():
        for one in model.parameters():
            one.add_(1)
            one.grad = ad.zeros_like(one)
    assert guards.hold()


def test_functional_call_needs_no_guard_for_what_it_exchanges() -> None:
    model = nn.Linear(3, 3)

    def f(weight: Any, t: Any) -> Any:
        return ad.func.functional_call(model, {"weight": weight}, (t,))

    guards = passes(f, ad.ones(3, 3), x())
    model.bias = nn.Parameter(ad.ones(3))
    assert not guards.hold()


def test_guards_keep_alive_what_they_compare() -> None:
    made = Settings()
    guards = passes(made.method, x())
    address = id(made)
    del made
    gc.collect()
    assert guards.hold()
    assert any(id(one) == address for one in gc.get_objects() if type(one) is Settings)


def test_many_guards() -> None:
    things = [Settings() for _ in range(600)]

    def f(t: Any) -> Any:
        for thing in things:
            t = t * thing.lr
        return t

    guards = passes(f, x())
    assert len(guards) > 600
    things[599].lr = 3.0
    assert not guards.hold()
    assert "3.0" in str(guards.failed())


# -- arguments -------------------------------------------------------------------------------------


def test_structures_among_the_arguments_are_not_guarded() -> None:
    state, parts, named = State(x(), x()), [x(), 2.0], {"a": {"b": 3.0}}

    def f(state: State, parts: list[Any], named: dict[str, Any]) -> Any:
        return state.step().position * parts[1] + named["a"]["b"] + len(parts)

    guards = passes(f, state, parts, named)
    state.dt = 0.5
    parts.append(1)
    named["a"]["b"] = 1.0
    assert guards.hold(), guards.failed()


def test_without_arguments_the_first_frame_tells_them() -> None:
    state = State(x(), x())
    with Watch(State.step) as watch:
        State.step(state)
    state.dt = 0.5
    assert watch.refusals == []
    assert watch.guards().hold()
    with Watch(state.step) as watch:
        state.step()
    guards = watch.guards()
    assert guards.hold()
    state.dt = 0.7
    assert not guards.hold()


def test_attributes_of_opaque_arguments_are_guarded() -> None:
    made = Settings()
    guards = passes(lambda t, s: t * s.lr, x(), made)
    made.lr = 1.0
    assert not guards.hold()


def test_changed_arguments_are_refused() -> None:
    def store(d: dict[str, Any]) -> None:
        d["a"] = 1

    def append(parts: list[Any]) -> None:
        parts.append(1)

    def assign(state: State) -> None:
        state.dt = 3.0

    def deep(d: dict[str, Any]) -> None:
        d["inner"].clear()

    def array(a: Any) -> None:
        a[1:][0] = 1.0

    assert '`d["a"]` is assigned' in refused(store, {}).reason
    assert "`parts.append(1)` changes" in refused(append, [x()]).reason
    assert "`state.dt` is assigned" in refused(assign, State(x(), x())).reason
    assert '`d["inner"].clear()` changes' in refused(deep, {"inner": [1]}).reason
    refused(array, np.ones(3))


# -- what a replay would not repeat ----------------------------------------------------------------


def global_store(t: Any) -> None:
    global counter
    counter += 1


def attribute_store(t: Any) -> None:
    settings.count += 1


def item_store(t: Any) -> None:
    table["a"] = t


def item_store_of_a_number(t: Any) -> None:
    table["n"] = len(t)


def class_store(t: Any) -> None:
    Settings.kind = "other"


def deep_store(t: Any) -> None:
    namespace.deep.k[0] = len(t)


def nested_store(t: Any) -> None:
    nested["a"][1]["b"] += 1


def stored_through_dict(t: Any) -> None:
    settings.__dict__["count"] = len(t) + settings.count


def stored_through_vars(t: Any) -> None:
    vars(settings)["count"] = len(t) + settings.count


def stored_by_setattr(t: Any) -> None:
    setattr(settings, "count", settings.count + 1)  # noqa: B010


def stored_by_object(t: Any) -> None:
    object.__setattr__(settings, "count", settings.count + 1)


def stored_in_call_result(t: Any) -> None:
    next(iter([settings])).count += 1


def stored_in_globals(t: Any) -> None:
    globals()["counter"] = counter + 1


def stored_in_a_module(t: Any) -> None:
    sys.modules[__name__].counter = counter + 1  # type: ignore[attr-defined]


def appended(t: Any) -> None:
    log.append(t)


def appended_by_a_bound_method(t: Any) -> None:
    add = log.append
    add(t)


def appended_by_a_class(t: Any) -> None:
    list.append(log, t)


def appended_in_place(t: Any) -> None:
    global log
    log += [t]


def appended_in_a_comprehension(t: Any) -> None:
    [log.append(i) for i in range(2)]


def appended_by_map(t: Any) -> None:
    list(map(log.append, [t]))


def appended_in_a_callback(t: Any) -> None:
    list(map(lambda v: log.append(v), [t]))  # noqa: C417


def appended_to_an_attribute(t: Any) -> None:
    settings.layers.append(1.0)


def cached(t: Any) -> None:
    settings.cache["key"] = t


def updated(t: Any) -> None:
    table.update(a=1)


def set_default(t: Any) -> None:
    table.setdefault("q", 1)


def added_to_a_set(t: Any) -> None:
    vocabulary.add("one")


def popped(t: Any) -> None:
    queue.rotate(1)


def heap(t: Any) -> None:
    heapq.heappush(sizes, 4)


def by_operator(t: Any) -> None:
    operator.setitem(sizes, 0, 1)


def default_list(t: Any, seen: list[Any] = []) -> None:  # noqa: B006
    seen.append(t)


def array_store(t: Any) -> None:
    weights[0] = 1.0


def array_view_store(t: Any) -> None:
    part = weights[1:]
    part[0] = 2.0


def array_in_place(t: Any) -> None:
    part = weights
    part *= 1.0


def array_out(t: Any) -> None:
    np.add(1.0, 1.0, out=weights[:1])


def deleted(t: Any) -> None:
    made = settings
    made.gone = 1  # type: ignore[attr-defined]
    del made.gone  # type: ignore[attr-defined]


def advanced(t: Any) -> None:
    next(stream)


def iterated(t: Any) -> None:
    for _ in stream:
        break


def spread(t: Any) -> None:
    [*itertools.islice(stream, 2)]


def unpacked(t: Any) -> None:
    _a, _b = stream_of_two


def looked_up(t: Any) -> None:
    3 in stream  # noqa: B015


def passed_with_a_star(t: Any) -> None:
    max(*stream_of_two)


def environment_by_in(t: Any) -> None:
    "PATH" in os.environ  # noqa: B015


def computed_once(t: Any) -> None:
    Lazy.one.value


class Lazy:
    one: Lazy

    @functools.cached_property
    def value(self) -> float:
        return 3.0


def iterated_inside(t: Any) -> None:
    list(zip(stream, [1, 2], strict=False))


def random_number(t: Any) -> None:
    random.random()


def random_choice(t: Any) -> None:
    random.choice([1, 2])


def random_own(t: Any) -> None:
    generator.uniform(0, 1)


def random_array(t: Any) -> None:
    np.random.rand(3)  # noqa: NPY002


def random_array_own(t: Any) -> None:
    array_generator.normal()


def random_unseeded(t: Any) -> None:
    np.random.default_rng()


def clock(t: Any) -> None:
    time.time()


def counter_clock(t: Any) -> None:
    time.perf_counter()


def date(t: Any) -> None:
    datetime.datetime.now()


def environment(t: Any) -> None:
    os.environ["PATH"]


def environment_by_get(t: Any) -> None:
    os.environ.get("PATH")


def environment_by_getenv(t: Any) -> None:
    os.getenv("PATH")


def printed(t: Any) -> None:
    print("hello")


def written(t: Any) -> None:
    sys.stdout.write("")


def opened(t: Any) -> None:
    with open(os.devnull) as file:
        file.read()


def read_path(t: Any) -> None:
    pathlib.Path(os.devnull).read_text()


def listed(t: Any) -> None:
    os.listdir(".")


def logged(t: Any) -> None:
    logging.getLogger(__name__).debug("x")


def thread(t: Any) -> None:
    one = threading.Thread(target=lambda: None)
    one.start()
    one.join()


def seeded(t: Any) -> None:
    ad.manual_seed(0)


def collected(t: Any) -> None:
    gc.collect(0)


def executed(t: Any) -> None:
    exec("counter = 5", globals())


def context_variable(t: Any) -> None:
    variable.set(2.0)


REFUSED: dict[Callable[..., Any], str] = {
    global_store: "the global `counter` is assigned",
    attribute_store: "`settings.count` is assigned, which a replay would not repeat",
    item_store: '`table["a"]` is assigned',
    item_store_of_a_number: '`table["n"]` is assigned',
    class_store: "`Settings.kind` is assigned",
    deep_store: "`namespace.deep.k[0]` is assigned",
    nested_store: '`nested["a"][1]["b"]` is assigned',
    stored_through_dict: "is assigned",
    stored_through_vars: "is assigned",
    stored_by_setattr: "is assigned",
    stored_by_object: "is assigned",
    stored_in_call_result: "is assigned",
    stored_in_globals: "is assigned",
    stored_in_a_module: "is assigned",
    appended: "`log.append(t)` changes",
    appended_by_a_bound_method: "`add(t)` changes",
    appended_by_a_class: "`list.append(log, t)` changes",
    appended_in_place: "changes",
    appended_in_a_comprehension: "changes",
    appended_by_map: "",
    appended_in_a_callback: "changes",
    appended_to_an_attribute: "`settings.layers.append(1.0)` changes",
    cached: "is assigned",
    updated: "changes",
    set_default: "changes",
    added_to_a_set: "changes",
    popped: "changes",
    heap: "changes",
    by_operator: "changes",
    default_list: "`seen.append(t)` changes",
    array_store: "`weights[0]` is assigned",
    array_view_store: "`part[0]` is assigned",
    array_in_place: "changes",
    array_out: "changes",
    deleted: "is assigned",
    advanced: "used up",
    iterated: "used up",
    iterated_inside: "used up",
    spread: "used up",
    unpacked: "used up",
    looked_up: "used up",
    passed_with_a_star: "used up",
    environment_by_in: "os.environ",
    computed_once: "`Lazy.one.value` is computed and kept",
    random_number: "`random.random()` gives another value at each call",
    random_choice: "another value",
    random_own: "another value",
    random_array: "another value",
    random_array_own: "another value",
    random_unseeded: "without a seed",
    clock: "`time.time()` gives another value",
    counter_clock: "another value",
    date: "`datetime.now()` gives another value",
    environment: "os.environ",
    environment_by_get: "os.environ",
    environment_by_getenv: "another value",
    printed: "`print()` would not happen again",
    written: "`write()` of a file",
    opened: "`open()`",
    read_path: "`read_text()` of a path",
    listed: "listdir",
    logged: "`debug()` of a logger",
    thread: "`threading.start()`",
    seeded: "`adjoint.manual_seed()`",
    collected: "`gc.collect()`",
    executed: "",
    context_variable: "changes",
}


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Programs below change what they read: put it back."""
    module = sys.modules[__name__]
    names = ("sizes", "nested", "table", "log", "queue", "vocabulary", "counter")
    held = {name: copy.deepcopy(getattr(module, name)) for name in names}
    own = copy.deepcopy(vars(settings))
    array, deep = weights.copy(), [*namespace.deep.k]
    module.stream_of_two = iter([1, 2])  # type: ignore[attr-defined]
    Lazy.one = Lazy()
    yield
    vars(module).update(held)
    vars(settings).clear()
    vars(settings).update(own)
    Settings.kind = "linear"
    weights[:] = array
    namespace.deep.k[:] = deep


@pytest.mark.parametrize(("f", "reason"), REFUSED.items(), ids=[f.__name__ for f in REFUSED])
def test_what_a_replay_would_not_repeat_is_refused(f: Callable[..., Any], reason: str) -> None:
    refusal = refused(f, x())
    assert reason in refusal.reason
    line = f.__code__.co_firstlineno
    place = refusal.where.partition(":")[2].partition(" ")[0]
    assert line < int(place) <= line + 4 or f in (appended_by_map, executed)


def test_a_variable_of_an_enclosing_function() -> None:
    n = 0

    def f(t: Any) -> None:
        nonlocal n
        n += 1

    assert "`n` of an enclosing function is assigned" in refused(f, x()).reason
    assert n == 1


def test_stores_of_modules_are_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, t: Any) -> Any:
            self.calls += 1
            return t

    assert "`self.calls` is assigned" in refused(Counting(), x()).reason

    model = nn.Linear(3, 3)
    _, refusals = watched(lambda t: model.eval()(t), x())
    assert refusals


def test_setters_are_judged_by_what_they_do() -> None:
    class Thing:
        def __init__(self) -> None:
            self.kept = 0

        @property
        def value(self) -> int:
            return self.kept

        @value.setter
        def value(self, to: int) -> None:
            self.kept = to

    thing = Thing()

    def f(t: Any) -> None:
        thing.value = 3

    assert "`self.kept` is assigned" in refused(f, x()).reason

    def g(t: Any) -> None:
        Thing().value = 3

    passes(g, x())


def test_an_object_too_large_to_compare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "sizes", [0.0] * (MOST_PARTS + 1))
    refusal = refused(lambda t: t * sizes[0], x())
    assert "`sizes` has more than" in refusal.reason
    assert "make it a tuple" in refusal.reason
    monkeypatch.setattr(module, "sizes", tuple([0.0] * (MOST_PARTS + 1)))
    passes(lambda t: t * sizes[0], x())
    monkeypatch.setattr(module, "weights", np.zeros(10_000))
    assert "an array of 80000 bytes" in refused(lambda t: t * weights[0], x()).reason


def test_large_containers_made_inside_pass() -> None:
    class Holder:
        def __init__(self) -> None:
            self.items = [0.0] * (MOST_PARTS + 1)

    passes(lambda t: t * Holder().items[0] * len(Holder().items), x())


def test_long_runs_are_looked_through_in_between() -> None:
    class Point:
        def __init__(self, v: float) -> None:
            self.v = v
            self.parts: list[float] = []

    def f(t: Any) -> Any:
        total = 0.0
        for i in range(8000):
            point = Point(i)
            point.v += 1
            point.parts.append(point.v * scale)
            total += point.parts[0]
        settings.count = 5
        return t * total

    refusal = refused(f, x())
    assert "`settings.count`" in refusal.reason
    _, refusals = watched(f, x())
    assert len(refusals) <= 1


# -- in compiled functions -------------------------------------------------------------------------


class Scaled(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        ctx.save_for_backward(t)
        ctx.own = 2.0
        return t * t

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (t,) = ctx.saved_tensors
        ctx.seen = True
        return g * t * scale * ctx.own


def gradient(f: Callable[..., Any]) -> list[float]:
    t = ad.ones(2, requires_grad=True)
    f(t).backward()
    found: list[float] = t.grad.tolist()
    return found


def test_what_a_first_call_sets_up_does_not_keep_it_from_being_compiled() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask: Any = None

        def forward(self, t: Any) -> Any:
            if self.mask is None:
                self.mask = ad.arange(t.shape[-1]) > 0
            return t * self.mask

    model = Masked()
    compiled = ad.compile(model)
    with pytest.warns(ad.compiler.CompileWarning, match=r"`self\.mask` is assigned"):
        compiled(x())
    assert compiled(x()).tolist() == compiled(x()).tolist() == model(x()).tolist()
    assert len(compiled._compiled.programs) == 1


def test_what_is_refused_twice_is_not_tried_again() -> None:
    def f(t: Any) -> Any:
        settings.count += 1
        return t * 2

    compiled = ad.compile(f)
    with pytest.warns(ad.compiler.CompileWarning) as told:
        for _ in range(4):
            compiled(x())
    assert len(told) == 1
    assert settings.count == 4
    assert compiled.programs == []


def test_what_backward_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    f = ad.compile(lambda t: Scaled.apply(t).sum(), fullgraph=True)
    for to in (2.0, 3.0, 2.0):
        monkeypatch.setattr(sys.modules[__name__], "scale", to)
        assert gradient(f) == gradient(f) == [2.0 * to, 2.0 * to]
    assert len(f.programs) == 2


def test_what_a_hook_does_outside_is_refused() -> None:
    def f(t: Any) -> Any:
        y = t * 2
        y.register_hook(lambda g: log.append(g))
        return y.sum()

    with pytest.warns(ad.compiler.CompileWarning, match="changes an object"):
        gradient(ad.compile(f))


def test_compiled_functions_follow_their_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net().eval()
    compiled = ad.compile(model)
    t = ad.ones(2, 3)

    def same_as_eager() -> None:
        assert ad.equal(compiled(t), model(t))
        assert ad.equal(compiled(t), model(t))

    same_as_eager()
    model.depth = 1
    same_as_eager()
    model.options["skip"] = False
    same_as_eager()
    model.layers[0] = nn.Linear(3, 3)
    same_as_eager()
    model.offset = ad.ones(3)
    same_as_eager()
    model.norm.eps = 0.5
    same_as_eager()
    model.body[1] = nn.Tanh()
    same_as_eager()


# -- the watch itself ------------------------------------------------------------------------------


def test_tracing_profiling_and_collection_are_as_before() -> None:
    def tracer(*args: Any) -> None:
        return None

    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        passes(helper, x())
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(outer)
    assert gc.isenabled()
    gc.disable()
    try:
        passes(helper, x())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_one_watch_at_a_time() -> None:
    def f(t: Any) -> Any:
        with pytest.raises(RuntimeError, match="watched already"), Watch(helper):
            pass
        return settings.method(t)

    guards = watched(f, x())[0]
    assert any("lr" in name for name in guards.describe())
    assert gc.isenabled()


def test_a_trace_function_that_is_set_ends_the_watch() -> None:
    def f(t: Any) -> None:
        outer = sys.gettrace()
        set_it = sys.settrace
        set_it(None)
        set_it(outer)

    with Watch(f) as watch:
        f(x())
    assert watch.refusals


def test_the_core_refuses_what_is_no_guard_and_no_frame() -> None:
    for table in (
        [],
        (1,),
        ((0,) * 6,),
        ((3, [], "a", 1, (), None),),
        ((5, {}, None, None, (), None),),
        ((6, {}, None, None, (), None),),
        ((7, {}, "a", None, (), None),),
        ((9, None, None, None, ((1, 2, 3),), None),),
        ((9, None, None, None, (({}, (1,), ()),), None),),
        ((99, None, None, None, (), None),),
    ):
        with pytest.raises(TypeError):
            ad._core._guards_check(table)  # type: ignore[arg-type]
    frame = sys._getframe()
    for call in (
        lambda: ad._core._frame_operand(frame, 0),
        lambda: ad._core._frame_callee(frame, 0, 0),
    ):
        with pytest.raises(RuntimeError, match="before its steps"):
            call()
    for index in (-1, 10**6):
        with pytest.raises(IndexError):
            ad._core._frame_variable(frame, index)
    with pytest.raises(TypeError):
        ad._core._frame_function(1)  # type: ignore[arg-type]


def test_an_interrupt_during_a_check_is_not_swallowed() -> None:
    def interrupted(now: Any) -> bool:
        raise KeyboardInterrupt

    def broken(now: Any) -> bool:
        raise ValueError

    check = ad._core._guards_check(((9, None, None, 1, None, interrupted),))
    with pytest.raises(KeyboardInterrupt):
        check()
    assert ad._core._guards_check(((9, None, None, 1, None, broken),))() is False


def test_exceptions_of_the_function_pass_through() -> None:
    def f(t: Any) -> None:
        raise KeyError("mine")

    outer = sys.gettrace()
    with pytest.raises(KeyError, match="mine"), Watch(f, ((x(),), {})):
        f(x())
    assert sys.gettrace() is outer
    assert gc.isenabled()


def test_user_code_is_not_run_by_the_watch_or_its_guards() -> None:
    calls = []

    class Odd:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return 2.0

        def __eq__(self, other: object) -> bool:
            calls.append("eq")
            return True

        def __hash__(self) -> int:
            return 0

    odd = Odd()
    with Watch(lambda: None, ((), {})) as watch:
        value = (lambda: odd.anything)()
    assert value == 2.0
    assert calls == ["anything"]
    watch.guards().hold()
    assert calls == ["anything"]


# -- comparing -------------------------------------------------------------------------------------


def test_values_are_compared_by_type_and_bits() -> None:
    nan = float("nan")
    assert same(nan, float("nan"))
    assert same(complex(nan, 1), complex(nan, 1))
    assert not same(0.0, -0.0)
    assert not same(1, True)
    assert not same(1, 1.0)
    assert same("ab", "".join(["a", "b"]))
    assert same(ad.float32, ad.float32)
    assert not same(ad.float32, ad.float64)
    assert same(ad.device("cpu"), ad.device("cpu"))


@pytest.mark.parametrize(
    ("value", "equal", "other"),
    [
        ([1, 2], [1, 2], [1, 2.0]),
        ((1, [2]), (1, [2]), (1, [3])),
        ({"a": 1}, {"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, {2, 1}, {1, 3}),
        (frozenset([1]), frozenset([1]), frozenset([2])),
        (collections.deque([1]), collections.deque([1]), collections.deque([2])),
        (bytearray(b"a"), bytearray(b"a"), bytearray(b"b")),
        (np.array([1, 2]), np.array([1, 2]), np.array([1.0, 2.0])),
        ([[]], [[]], [[[]]]),
    ],
)
def test_containers_are_compared_part_by_part(value: Any, equal: Any, other: Any) -> None:
    snapshot = Snapshot(value)
    assert snapshot.holds(value)
    assert snapshot.holds(equal)
    assert not snapshot.holds(other)
    assert not snapshot.holds(None)


def test_a_container_that_contains_itself() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    snapshot = Snapshot(endless)
    assert snapshot.holds(endless)
    endless[0] = 2
    assert not snapshot.holds(endless)


def test_snapshots_of_large_things_are_refused() -> None:
    with pytest.raises(TooLarge, match="parts"):
        Snapshot([[0] * 100 for _ in range(100)])
    with pytest.raises(TooLarge, match="bytes"):
        Snapshot(np.zeros(1000))
    with pytest.raises(TooLarge, match="objects"):
        Snapshot(np.array([None, []], dtype=object))


def test_builtins_is_not_touched() -> None:
    before = {**vars(builtins)}
    passes(builtins_and_maths, x())
    assert before == vars(builtins)
