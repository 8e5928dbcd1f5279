"""What a recording run changes outside of itself is refused, with its place and its reason."""

from __future__ import annotations

import collections
import contextvars
import copy
import datetime
import functools
import gc
import heapq
import itertools
import logging
import operator
import os
import pathlib
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler._snapshots import MOST_PARTS
from tests.unit.watching import Settings, passes, refused, watched, x

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
namespace = types.SimpleNamespace(lr=0.1, deep=types.SimpleNamespace(k=[1.0]))
settings = Settings()

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


variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=1.0)


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
