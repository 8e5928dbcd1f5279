"""What a recording run changes outside itself is refused, with its place and its reason."""

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
from adjoint.compiler._visits import MOST_PARTS
from tests.unit.compiler.walking import Settings, passes, refused, walked, x

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


THIS_MODULE = sys.modules[__name__]


def stored_in_a_module(t: Any) -> None:
    THIS_MODULE.counter = counter + 1  # type: ignore[attr-defined]


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
    vocabulary.add("three")


def popped(t: Any) -> None:
    queue.rotate(1)


def heap(t: Any) -> None:
    heapq.heappush(sizes, 4)


def by_operator(t: Any) -> None:
    operator.setitem(sizes, 0, 7)


def default_list(t: Any, seen: list[Any] = []) -> None:  # noqa: B006
    seen.append(t)


def array_store(t: Any) -> None:
    weights[0] = 5.0


def array_view_store(t: Any) -> None:
    part = weights[1:]
    part[0] = 5.0


def array_in_place(t: Any) -> None:
    part = weights
    part *= 2.0


def array_out(t: Any) -> None:
    np.add(1.0, 1.0, out=weights[:1])


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
    logging.getLogger(__name__).error("x")


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
    global_store: "`counter` is changed",
    attribute_store: "`settings.count` is changed",
    item_store: "the content of `table` is changed",
    item_store_of_a_number: "the content of `table` is changed",
    class_store: "`Settings.kind` is changed",
    deep_store: "the content of `namespace.deep.k` is changed",
    nested_store: "the content of `nested[...][...]` is changed",
    stored_through_dict: "`settings.count` is changed",
    stored_through_vars: "`settings.count` is changed",
    stored_by_setattr: "`settings.count` is changed",
    stored_by_object: "`settings.count` is changed",
    stored_in_call_result: "`settings.count` is changed",
    stored_in_globals: "`globals()` is not known to be free of state and effects",
    stored_in_a_module: "`counter` is changed",
    appended: "the content of `log` is changed",
    appended_by_a_bound_method: "the content of `log` is changed",
    appended_by_a_class: "the content of `log` is changed",
    appended_in_place: "the content of `log` is changed",
    appended_in_a_comprehension: "the content of `log` is changed",
    appended_by_map: "the content of `log` is changed",
    appended_in_a_callback: "the content of `log` is changed",
    appended_to_an_attribute: "the content of `settings.layers` is changed",
    cached: "the content of `settings.cache` is changed",
    updated: "the content of `table` is changed",
    set_default: "the content of `table` is changed",
    added_to_a_set: "the content of `vocabulary` is changed",
    popped: "the content of `queue` is changed",
    heap: "the content of `sizes` is changed",
    by_operator: "the content of `sizes` is changed",
    default_list: "the content of `seen` is changed",
    array_store: "the content of `weights` is changed",
    array_view_store: "the content of `weights` is changed",
    array_in_place: "the content of `weights` is changed",
    array_out: "the content of `weights` is changed",
    advanced: "`stream` is of the type range_iterator, whose state cannot be seen",
    iterated: "`stream` is of the type range_iterator, whose state cannot be seen",
    iterated_inside: "`stream` is of the type range_iterator, whose state cannot be seen",
    spread: "`stream` is of the type range_iterator, whose state cannot be seen",
    unpacked: "`stream_of_two` is of the type list_iterator, whose state cannot be seen",
    looked_up: "`stream` is of the type range_iterator, whose state cannot be seen",
    passed_with_a_star: "`stream_of_two` is of the type list_iterator, whose state cannot be seen",
    computed_once: "`Lazy.one.value` is changed",
    random_number: "`Random.random()` is not known to be free of state and effects",
    random_choice: "`random.choice` is of the type Random, whose state cannot be seen",
    random_own: "`generator` is of the type Random, whose state cannot be seen",
    random_array: "`np.random.rand` is of the type RandomState, whose state cannot be seen",
    random_array_own: "`array_generator` is of the type Generator, whose state cannot be seen",
    random_unseeded: "`np.random.default_rng` is of the type",
    clock: "`time.time()` is not known to be free of state and effects",
    counter_clock: "`time.perf_counter()` is not known to be free of state and effects",
    date: "`datetime.datetime` is the type datetime, which is not known",
    printed: "`print()` is not known to be free of state and effects",
    written: "`sys.stdout` is of the type",
    opened: "`io.open()` is not known to be free of state and effects",
    read_path: "`io.text_encoding()` is not known to be free of state and effects",
    listed: "`posix.listdir()` is not known to be free of state and effects",
    # RLock.acquire(), or what logging calls before it in a later Python.
    logged: "()` is not known to be free of state and effects",
    thread: "`_sys.stderr` is of the type",
    seeded: "`adjoint.manual_seed()` reads or sets a state of the process",
    collected: "`gc.collect()` is not known to be free of state and effects",
    executed: "`globals()` is not known to be free of state and effects",
    context_variable: "`variable` is changed",
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

    assert "`n` of an enclosing function is changed" in refused(f, x()).reason
    assert n == 1


def test_stores_of_modules_are_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, t: Any) -> Any:
            self.calls += 1
            return t

    assert "calls` is changed" in refused(Counting(), x()).reason

    model = nn.Linear(3, 3)
    _, refusals = walked(lambda t: model.eval()(t), x())
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

    assert "`thing.kept` is changed" in refused(f, x()).reason

    def g(t: Any) -> None:
        Thing().value = 3

    passes(g, x())


def test_an_object_too_large_to_compare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "sizes", [0.0] * (MOST_PARTS + 1))
    refusal = refused(lambda t: t * sizes[0], x())
    assert "`sizes` has 4097 parts" in refusal.reason
    assert "or a tuple" in refusal.reason
    monkeypatch.setattr(module, "sizes", tuple([0.0] * (MOST_PARTS + 1)))
    passes(lambda t: t * sizes[0], x())
    monkeypatch.setattr(module, "weights", np.zeros(10_000))
    assert "has 80000 bytes" in refused(lambda t: t * weights[0], x()).reason


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
    _, refusals = walked(f, x())
    assert len(refusals) <= 1
