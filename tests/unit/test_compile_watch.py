"""Ordinary programs pass the watch, which leaves the interpreter as it found it."""

from __future__ import annotations

import builtins
import collections
import copy
import dataclasses
import functools
import gc
import itertools
import math
import operator
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler._snapshots import Snapshot, TooLarge, same
from adjoint.compiler._watch import Watch
from tests.unit.watching import Net, Settings, State, decorated, helper, passes, watched, x

# -- things that programs read ---------------------------------------------------------------------

scale = 2.0
nested = {"a": [1.0, {"b": 2.0}], "c": (3.0, [4.0])}
weights = np.array([1.0, 2.0, 3.0])
vocabulary = {"one", "two"}
queue = collections.deque([1.0, 2.0])
table: dict[str, Any] = {}
stream = iter(range(10**6))
parameter = ad.ones(3, requires_grad=True)


class Pair(NamedTuple):
    a: Any
    b: Any


settings = Settings()
kept_partial = functools.partial(lambda a, b, c: a * b[0] + c, c=1.0)
bound_list = [5.0]
list_partial = functools.partial(lambda values, t: t * len(values), bound_list)


def with_list_default(t: Any, parts: list[float] = [1.0, 2.0]) -> Any:  # noqa: B006
    return t * sum(parts)


decorated_helper = decorated(helper)

# -- programs that pass ----------------------------------------------------------------------------


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
