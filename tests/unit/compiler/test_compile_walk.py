"""Ordinary programs pass the walk, which leaves the interpreter as it found it."""

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
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler._guards import ABSENT, Guards, Kind, Place, Row, alike
from adjoint.compiler._walk import Walk
from tests.unit.compiler.walking import Net, Settings, State, decorated, helper, passes, walked, x
from tools import gen_pure

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
    return t * ad.from_numpy(a).float()


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
    import operator
    from math import pi

    return operator.mul(t, pi)


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


def test_one_walk_at_a_time() -> None:
    with (
        Walk(helper, ((x(),), {})),
        pytest.raises(RuntimeError, match="recorded already"),
        Walk(helper, ((), {})),
    ):
        pass


def _thresholds() -> Any:
    return gc.get_threshold()


def test_the_collector_rests_and_nobody_can_tell() -> None:
    before = gc.get_threshold()
    with Walk(helper, ((x(),), {})) as walk:
        assert _thresholds() == before  # which refuses the call
    assert gc.get_threshold() == before
    assert "get_threshold" in walk.refusals[0].reason


def test_a_profile_function_that_is_set_ends_the_walk() -> None:
    with Walk(helper, ((x(),), {})) as walk:
        outer = sys.getprofile()
        sys.setprofile(lambda *_: None)
        sys.setprofile(outer)
    assert walk.refusals[0].reason == "a profile function was set, and what followed was not seen"


def test_a_profile_function_is_there_again_after_the_walk() -> None:
    seen: list[str] = []

    def mine(frame: types.FrameType, event: str, arg: Any) -> None:
        seen.append(event)

    sys.setprofile(mine)
    try:
        passes(helper, x())
        assert sys.getprofile() is mine
        seen.clear()
        helper(x())
        assert "call" in seen
    finally:
        sys.setprofile(None)


def test_the_core_refuses_what_is_not_a_row_and_not_a_frame() -> None:
    def make(*rows: Any) -> Any:
        return ad._core._Guards(list(rows), ABSENT, alike, None, [])

    class Slotted:
        __slots__ = ("a",)

    for row in (
        1,
        (0,) * 6,
        (Kind.PLACE, 1, None, Place.CELL, False),
        (Kind.PLACE, 1, None, Place.CODE, False),
        (Kind.PLACE, 1, None, Place.DICT, False),
        (Kind.PLACE, 1, None, Slotted.a, False),  # type: ignore[attr-defined]
        (Kind.PLACE, 1, None, None, False),
        (Kind.NAMES, [], {}, None, False),
        (Kind.LIST, (), (), None, False),
        (Kind.DICT, [], (), None, False),
        (Kind.ORDER, [], (), set, False),
        (Kind.CLASS, 1, print, None, False),
        (Kind.TENSOR, 1, None, None, False),
        (Kind.ASK, 1, 2, None, False),
        (99, 1, 2, None, False),
    ):
        with pytest.raises(TypeError, match="not a row"):
            make(row)
    with pytest.raises(TypeError, match="a frame"):
        ad._core._frame_function(1)  # type: ignore[arg-type]


def test_an_interrupt_during_a_check_is_not_swallowed() -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    def broken() -> bool:
        raise ValueError

    def check(question: Callable[[], bool]) -> bool:
        return Guards([Row(Kind.ASK, None, question, None, False, "it")]).hold()

    with pytest.raises(KeyboardInterrupt):
        check(interrupted)
    assert check(broken) is False


def test_the_function_of_a_frame_is_found() -> None:
    def here() -> Any:
        return ad._core._frame_function(sys._getframe())

    assert here() is here


def test_exceptions_of_the_function_pass_through() -> None:
    def f(t: Any) -> None:
        raise KeyError("mine")

    outer = sys.getprofile()
    with pytest.raises(KeyError, match="mine"), Walk(f, ((x(),), {})):
        f(x())
    assert sys.getprofile() is outer
    assert gc.isenabled()


def test_user_code_is_not_run_by_the_walk_or_its_guards() -> None:
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
    with Walk(lambda: None, ((), {})) as walk:
        value = (lambda: odd.anything)()
    assert value == 2.0
    assert calls == ["anything"]
    walk.guards().hold()
    assert calls == ["anything"]


# -- comparing -------------------------------------------------------------------------------------


def same(a: object, b: object) -> bool:
    return ad._core._Guards([], ABSENT, alike, None, []).same(a, b)


def test_values_are_compared_by_type_and_bits() -> None:
    nan = float("nan")
    assert same(nan, float("nan"))
    assert same(complex(nan, 1), complex(nan, 1))
    assert not same(complex(0.0, 1), complex(-0.0, 1))
    assert not same(0.0, -0.0)
    assert not same(1, True)
    assert not same(1, 1.0)
    assert same("ab", "".join(["a", "b"]))
    assert same(ad.float32, ad.float32)
    assert not same(ad.float32, ad.float64)
    assert same(ad.device("cpu"), ad.device("cpu"))
    assert same(range(3), range(3))
    assert same(slice(1, None), slice(1, None))
    assert not same(slice(1, 2), slice(1, 2.0))
    assert same(np.float64(1.0), np.float64(1.0))
    assert not same(np.float64(1.0), np.float64(2.0))
    assert same(settings.method, settings.method)
    assert not same(object(), object())


@pytest.mark.parametrize(
    ("value", "equal", "other"),
    [
        ((1, 2), (1, 2), (1, 2.0)),
        ((1, (2, "a")), (1, (2, "a")), (1, (3, "a"))),
        (frozenset([1]), frozenset([1]), frozenset([2])),
    ],
)
def test_what_cannot_change_is_compared_part_by_part(value: Any, equal: Any, other: Any) -> None:
    assert same(value, value)
    assert same(value, equal)
    assert not same(value, other)
    assert not same(value, None)


@pytest.mark.parametrize("make", [lambda: [1], lambda: {"a": 1}, lambda: (1, [2]), lambda: {1}])
def test_what_can_change_is_itself_alone(make: Any) -> None:
    one = make()
    assert same(one, one)
    assert not same(one, make())


def test_a_container_that_contains_itself() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    guards = passes(lambda t: t * endless[0], x())
    endless[0] = 2
    assert not guards.hold()


def test_large_things_are_refused() -> None:
    for large, what in (
        ([0] * 5000, "has 5000 parts"),
        (np.zeros(1000), "has 8000 bytes"),
        (bytearray(5000), "has 5000 bytes"),
        (np.array([None, []], dtype=object), "an array of Python objects"),
    ):
        (refusal,) = walked(lambda t, one=large: (t, one)[0], x())[1]  # type: ignore[misc]
        assert what in refusal.reason


def test_builtins_is_not_touched() -> None:
    before = {**vars(builtins)}
    passes(builtins_and_maths, x())
    assert before == vars(builtins)


def test_the_page_has_the_table_of_what_is_pure() -> None:
    assert gen_pure.PAGE.read_text() == gen_pure.page()
