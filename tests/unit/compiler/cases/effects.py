"""Effects: what a call leaves behind in Python, in files, in queues, on the screen."""

from __future__ import annotations

import array
import collections
import contextlib
import csv
import io
import itertools
import json
import logging
import os
import pickle
import pprint
import queue
import shelve
import sqlite3
import sys
import tempfile
import threading
import warnings
from typing import Any

import numpy as np

import adjoint as ad

from .harness import Box, Compile, Table

table = Table("effects")
row = table.row


def effect(name: str, make: Any, act: Any, left: Any = lambda s: s) -> None:
    """A row: a function that does something to its state, and what is left of it."""

    def function(s: Any, x: Any) -> Any:
        act(s)
        return x * 2

    row(name, make, function, left=left)


effect("append", list, lambda s: s.append(1))
effect("extend", list, lambda s: s.extend([1, 2]))
effect("insert", list, lambda s: s.insert(0, 1))
effect("list.append", list, lambda s: list.append(s, 1))
effect(
    "a bound append",
    lambda: (lambda L: Box(L=L, add=L.append))([]),
    lambda s: s.add(1),
    lambda s: s.L,
)
effect("map of append", list, lambda s: [*map(s.append, [1, 2])])
effect("pop", lambda: [1, 2, 3, 4, 5, 6], lambda s: s.pop())
effect("del", lambda: [1, 2, 3, 4, 5, 6], lambda s: s.__delitem__(0))
effect("a slice", lambda: [1, 2, 3], lambda s: s.__setitem__(slice(0, 0), [1]))
effect("sort", lambda: [3, 1, 2], lambda s: s.sort())
effect("reverse", lambda: [3, 1, 2], lambda s: s.reverse())
effect("iadd", lambda: Box(v=0), lambda s: setattr(s, "v", s.v + 1), lambda s: s.v)
effect("setattr", lambda: Box(v=0), lambda s: setattr(s, "w", 1), lambda s: vars(s))
effect("delattr", lambda: Box(v=0), lambda s: s.__dict__.pop("v", None), lambda s: vars(s))
effect("dict update", dict, lambda s: s.update(a=s.get("a", 0) + 1))
effect("setdefault", dict, lambda s: s.setdefault("a", []).append(1))
effect("popitem", lambda: dict.fromkeys(range(9)), lambda s: s.popitem())
effect("set add", lambda: (set(), itertools.count()), lambda s: s[0].add(len(s[0])), lambda s: s[0])
effect("deque", lambda: collections.deque(maxlen=3), lambda s: s.append(len(s)), list)
effect("rotate", lambda: collections.deque([1, 2, 3]), lambda s: s.rotate(), list)
effect("counter", collections.Counter, lambda s: s.update("ab"), dict)
effect("defaultdict", lambda: collections.defaultdict(int), lambda s: s["a"], dict)
effect(
    "defaultdict of lists", lambda: collections.defaultdict(list), lambda s: s["a"].append(1), dict
)
effect("move_to_end", lambda: collections.OrderedDict(a=1, b=2), lambda s: s.move_to_end("a"), list)
effect("array append", lambda: array.array("d"), lambda s: s.append(1.0), list)
effect("array item", lambda: array.array("d", [0.0]), lambda s: s.__setitem__(0, s[0] + 1), list)
effect("bytearray", bytearray, lambda s: s.append(1), bytes)
effect("memoryview", lambda: memoryview(bytearray(1)), lambda s: s.__setitem__(0, s[0] + 1), bytes)
effect("an array of NumPy", lambda: np.zeros(2), lambda s: s.__iadd__(1))
effect("an array's fill", lambda: np.zeros(2), lambda s: s.fill(s[0] + 1))
effect("np.add with out", lambda: np.zeros(2), lambda s: np.add(s, 1, out=s))
effect("np.copyto", lambda: np.zeros(2), lambda s: np.copyto(s, s + 1))
effect("np.put", lambda: np.zeros(2), lambda s: np.put(s, [0], s[0] + 1))
effect("a large array", lambda: np.zeros(100_000), lambda s: s.__iadd__(1), lambda s: s[:2])
effect("an array's flat", lambda: np.zeros(2), lambda s: s.flat.__setitem__(0, s[0] + 1))
effect("resize of an array", lambda: np.zeros(2), lambda s: s.resize(len(s) + 1, refcheck=False))
effect("a queue", queue.Queue, lambda s: s.put(1), lambda s: s.qsize())
effect("a simple queue", queue.SimpleQueue, lambda s: s.put(1), lambda s: s.qsize())
effect("get of a queue", lambda: filled(), lambda s: s.get(), lambda s: s.qsize())
effect(
    "an event",
    lambda: (threading.Event(), []),
    lambda s: s[0].clear() if s[0].is_set() else s[0].set(),
    lambda s: s[0].is_set(),
)
effect("a semaphore", lambda: threading.Semaphore(9), lambda s: s.acquire(), lambda s: s._value)
effect("a string buffer", io.StringIO, lambda s: s.write("a"), lambda s: s.getvalue())
effect("a bytes buffer", io.BytesIO, lambda s: s.write(b"a"), lambda s: s.getvalue())
effect(
    "csv",
    lambda: (lambda b: (b, csv.writer(b)))(io.StringIO()),
    lambda s: s[1].writerow([1]),
    lambda s: s[0].getvalue(),
)
effect(
    "a dict writer",
    lambda: (lambda b: (b, csv.DictWriter(b, ["a"])))(io.StringIO()),
    lambda s: s[1].writerow({"a": 1}),
    lambda s: s[0].getvalue(),
)
effect("print to a buffer", io.StringIO, lambda s: print("a", file=s), lambda s: s.getvalue())
effect(
    "pprint to a buffer",
    io.StringIO,
    lambda s: pprint.pprint([1], stream=s),
    lambda s: s.getvalue(),
)
effect("json to a buffer", io.StringIO, lambda s: json.dump([1], s), lambda s: s.getvalue())
effect("pickle to a buffer", io.BytesIO, lambda s: pickle.dump([1], s), lambda s: len(s.getvalue()))
effect(
    "np.save to a buffer", io.BytesIO, lambda s: np.save(s, np.ones(1)), lambda s: len(s.getvalue())
)
effect(
    "np.savetxt to a buffer", io.StringIO, lambda s: np.savetxt(s, [1.0]), lambda s: s.getvalue()
)
effect("print", capture := list, lambda s: printed(s))
effect("sys.stdout.write", list, lambda s: written(s))
effect(
    "sqlite",
    lambda: database(),
    lambda s: s.execute("insert into t values (1)"),
    lambda s: s.execute("select count(*) from t").fetchone(),
)
effect("a log", lambda: logger(), lambda s: s[0].warning("a"), lambda s: s[1].getvalue())
effect(
    "a kept log method",
    lambda: (lambda s: (s[0].warning, s[1]))(logger()),
    lambda s: s[0]("a"),
    lambda s: s[1].getvalue(),
)
effect("next of an iterator", lambda: iter(range(99)), lambda s: next(s), lambda s: next(s))
effect("a counter of itertools", lambda: itertools.count(), lambda s: next(s), lambda s: next(s))
effect("send of a generator", lambda: running(), lambda s: s.send(1), lambda s: s.send(0))
effect(
    "a class attribute",
    lambda: type("K", (), {"n": 0}),
    lambda s: setattr(s, "n", s.n + 1),
    lambda s: s.n,
)
effect(
    "a function attribute",
    lambda: function_with(),
    lambda s: setattr(s, "n", s.n + 1),
    lambda s: s.n,
)
effect("a default that grows", lambda: defaulted(), lambda s: s(), lambda s: s.__defaults__)
effect("a property that counts", lambda: Counting(), lambda s: s.value, lambda s: s.n)
effect("eq that counts", lambda: Counting(), lambda s: s in [1, 2], lambda s: s.n)
effect("len that counts", lambda: Counting(), lambda s: len(s), lambda s: s.n)
effect("bool that counts", lambda: Counting(), lambda s: 1 if s else 0, lambda s: s.n)
effect("iter that counts", lambda: Counting(), lambda s: [*s], lambda s: s.n)
effect("hash that counts", lambda: Counting(), lambda s: {s}, lambda s: s.n)
effect("getattr that counts", lambda: Counting(), lambda s: s.missing, lambda s: s.n)
effect("a context that counts", lambda: Counting(), lambda s: entered(s), lambda s: s.n)
effect("del that counts", list, lambda s: Dying(s), len)
effect("a finalizer", list, lambda s: finalized(s), len)
effect("a slot", lambda: Slotted(), lambda s: setattr(s, "n", s.n + 1), lambda s: s.n)
effect(
    "a nested list",
    lambda: Box(a=[{"q": (Box(v=[0]),)}]),
    lambda s: s.a[0]["q"][0].v.append(1),
    lambda s: s.a[0]["q"][0].v,
)
effect(
    "an environment variable",
    lambda: os.environ.pop("ADJOINT_TEST_EFFECT", None),
    lambda s: os.environ.update(
        ADJOINT_TEST_EFFECT=os.environ.get("ADJOINT_TEST_EFFECT", "") + "a"
    ),
    lambda s: os.environ["ADJOINT_TEST_EFFECT"],
)
effect(
    "sys.modules",
    lambda: sys.modules.pop("a_module_of_tests", None),
    lambda s: sys.modules.update(a_module_of_tests=sys.modules.get("a_module_of_tests", 0) + 1),
    lambda s: sys.modules.pop("a_module_of_tests"),
)
effect(
    "a registry of a class",
    lambda: type("Base", (), {"all": []}),
    lambda s: s.all.append(len(s.all)),
    lambda s: s.all,
)
effect("a cache that fills", dict, lambda s: s.setdefault(len(s), 1))
effect("a thread's own", lambda: owned(), lambda s: setattr(s, "n", s.n + 1), lambda s: s.n)
effect("a thread that works", list, lambda s: worked(s))
effect("a tensor in a list", list, lambda s: s.append(ad.ones(1)), len)
effect(
    "an attribute of a tensor",
    lambda: ad.ones(2),
    lambda s: setattr(s, "n", getattr(s, "n", 0) + 1),
    lambda s: s.n,
)
effect("a fresh object", list, lambda s: Box(v=1).__dict__.update(w=2))
effect("a warning", list, lambda s: warned(s))
effect("shelve", list, lambda s: shelved(s))
effect("os.write", list, lambda s: piped(s))
effect("a temporary file", list, lambda s: filed(s))
effect("setitem of a weak dict", list, lambda s: s.append(len(s)))
effect("exec", dict, lambda s: exec("n = globals().get('n', 0) + 1", s), lambda s: s["n"])
effect(
    "a walrus of a comprehension",
    lambda: Box(L=[]),
    lambda s: [s.L.append(k) for k in range(2)],
    lambda s: s.L,
)
effect("sort by a key that counts", list, lambda s: sorted([2, 1], key=lambda v: s.append(v) or v))
effect(
    "a chain of setattr",
    lambda: Box(a=Box(n=0)),
    lambda s: setattr(s.a, "n", s.a.n + 1),
    lambda s: s.a.n,
)
effect(
    "object's setattr",
    lambda: Box(n=0),
    lambda s: object.__setattr__(s, "n", s.n + 1),
    lambda s: s.n,
)
effect(
    "the dict of an object", lambda: Box(n=0), lambda s: s.__dict__.update(n=s.n + 1), lambda s: s.n
)
effect(
    "the class of an object",
    lambda: Box(n=0),
    lambda s: setattr(s, "__class__", Slotless),
    lambda s: type(s).__name__,
)
effect(
    "the defaults of a function",
    lambda: defaulted(),
    lambda s: setattr(s, "__defaults__", ([len(s.__defaults__[0])],)),
    lambda s: len(s.__defaults__),
)


class Slotless(Box):
    pass


class Counting:
    n = 0

    def _count(self) -> int:
        self.n += 1
        return self.n

    @property
    def value(self) -> int:
        return self._count()

    def __eq__(self, other: object) -> bool:
        return self._count() < 0

    def __hash__(self) -> int:
        return self._count() * 0

    def __len__(self) -> int:
        return self._count()

    def __bool__(self) -> bool:
        return self._count() > 0

    def __iter__(self) -> Any:
        return iter([self._count()])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._count()

    def __enter__(self) -> Any:
        return self._count()

    def __exit__(self, *error: Any) -> None:
        self._count()


class Dying:
    def __init__(self, log: list[int]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append(1)


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


def finalized(log: list[int]) -> None:
    import weakref

    weakref.finalize(Box(), log.append, 1)


def entered(s: Any) -> None:
    with s:
        pass


def filled() -> Any:
    q: Any = queue.Queue()
    for k in range(9):
        q.put(k)
    return q


def printed(s: list[Any]) -> None:
    s.append(0)
    print(end="")


def written(s: list[Any]) -> None:
    s.append(sys.stdout.write(""))


def database() -> Any:
    found = sqlite3.connect(":memory:")
    found.execute("create table t (v)")
    return found


def logger() -> Any:
    text = io.StringIO()
    log = logging.Logger("of a case")
    log.addHandler(logging.StreamHandler(text))
    return log, text


def running() -> Any:
    def count() -> Any:
        n = 0
        while True:
            n += yield n

    g = count()
    next(g)
    return g


def function_with() -> Any:
    def f() -> None: ...

    f.n = 0  # type: ignore[attr-defined]
    return f


def defaulted() -> Any:
    def f(log: list[int] = []) -> None:  # noqa: B006
        log.append(1)

    f.__defaults__ = ([],)
    return f


def owned() -> Any:
    own = threading.local()
    own.n = 0
    return own


def worked(s: list[int]) -> None:
    t = threading.Thread(target=s.append, args=(1,))
    t.start()
    t.join()


def warned(s: list[Any]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.warn("a", stacklevel=1)
    s.append(len(told))


def shelved(s: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, shelve.open(os.path.join(folder, "a")) as store:
        store["a"] = 1
        s.append(len(store))


def piped(s: list[Any]) -> None:
    read, write = os.pipe()
    s.append(os.write(write, b"a"))
    os.close(read)
    os.close(write)


def filed(s: list[Any]) -> None:
    with tempfile.TemporaryFile() as file:
        s.append(file.write(b"a"))


@table
def a_global(compile: Compile) -> Any:
    globals()["COUNT"] = 0

    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1  # type: ignore[name-defined]
        return x * 2

    g = compile(f)
    for _ in range(3):
        g(ad.ones(2))
    return COUNT  # type: ignore[name-defined]


@table
def a_cell(compile: Compile) -> Any:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * 2

    g = compile(f)
    for _ in range(3):
        g(ad.ones(2))
    return count


@table
def an_argument_list(compile: Compile) -> Any:
    def f(x: Any, log: list[Any]) -> Any:
        log.append(1)
        return x * 2

    g, log = compile(f), []
    for _ in range(3):
        g(ad.ones(2), log)
    return log


@table
def an_argument_dict(compile: Compile) -> Any:
    def f(d: dict[str, Any]) -> Any:
        d["y"] = d["x"] * 2
        return d["y"] + 1

    g, d = compile(f), {"x": ad.ones(2)}
    for _ in range(3):
        g(d)
    return list(d)


@table
def an_argument_object(compile: Compile) -> Any:
    def f(x: Any, box: Any) -> Any:
        box.n += 1
        return x * 2

    g, box = compile(f), Box(n=0)
    for _ in range(3):
        g(ad.ones(2), box)
    return box.n


@table
def kept_results(compile: Compile) -> Any:
    box = Box(last=None)

    def f(x: Any) -> Any:
        box.last = x * 2
        return x * 3

    g = compile(f)
    found = []
    for k in range(4):
        g(ad.full((2,), float(k)))
        found.append(box.last)
    return found


@table
def a_first_call_sets_up(compile: Compile) -> Any:
    box = Box(mask=None)

    def f(x: Any) -> Any:
        if box.mask is None:
            box.mask = ad.ones(2) * 2
        return x * box.mask

    g = compile(f)
    found = [g(ad.ones(2)) for _ in range(4)]
    box.mask = None
    return [*found, g(ad.ones(2)), box.mask, g(ad.ones(2))]


@table
def a_redirected_print(compile: Compile) -> Any:
    text = io.StringIO()

    def f(x: Any) -> Any:
        print("called")
        return x * 2

    g = compile(f)
    with contextlib.redirect_stdout(text):
        for _ in range(3):
            g(ad.ones(2))
    return text.getvalue()


@table
def a_redirect_inside(compile: Compile) -> Any:
    text = io.StringIO()

    def f(x: Any) -> Any:
        with contextlib.redirect_stdout(text):
            print("called")
        return x * 2

    g = compile(f)
    for _ in range(3):
        g(ad.ones(2))
    return text.getvalue()


@table
def pprint_prints(compile: Compile) -> Any:
    text = io.StringIO()

    def f(x: Any) -> Any:
        pprint.pprint([1, 2])
        return x * 2

    g = compile(f)
    with contextlib.redirect_stdout(text):
        for _ in range(3):
            g(ad.ones(2))
    return text.getvalue()


@table
def a_list_that_holds_itself(compile: Compile) -> Any:
    loop: list[Any] = [0]
    loop.append(loop)

    def f(x: Any) -> Any:
        loop[1][1][0] += 1
        return x * loop[0]

    g = compile(f)
    return [g(ad.ones(2)) for _ in range(4)]


@table
def an_effect_in_a_branch(compile: Compile) -> Any:
    box, log = Box(on=False), []

    def f(x: Any) -> Any:
        if box.on:
            log.append(1)
        return x * 2

    g = compile(f)
    found = [g(ad.ones(2)) for _ in range(2)]
    box.on = True
    return [*found, *(g(ad.ones(2)) for _ in range(3)), log]


@table
def an_effect_that_is_undone(compile: Compile) -> Any:
    log: list[int] = []
    peak = [0]

    def f(x: Any) -> Any:
        log.append(1)
        peak[0] = max(peak[0], len(log))
        log.pop()
        return x * 2

    g = compile(f)
    found = [g(ad.ones(2)) for _ in range(3)]
    return [*found, log, peak]
