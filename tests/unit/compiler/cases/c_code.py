"""What C code reads or calls: getters, maps, views, buffers, arrays, caches, scipy's objects."""

from __future__ import annotations

import array
import bisect
import collections
import copy
import ctypes
import decimal
import fractions
import functools
import heapq
import io
import itertools
import json
import operator
import pickle
import re
import statistics
import string
import struct
import threading
import time
import types
import weakref
from typing import Any

import numpy as np

import adjoint as ad

from .harness import Box, Compile, Table, calls, varies

table = Table("C code")
row = table.row


def scale(value: Any = 3.0) -> Any:
    return lambda s: setattr(s, "scale", value)


def boxed() -> Box:
    return Box(scale=2.0, inner=Box(scale=5.0))


def item(key: Any, value: Any = 3.0) -> Any:
    return lambda s: s.__setitem__(key, value)


row("attrgetter", boxed, lambda s, x: x * operator.attrgetter("scale")(s), scale())
row(
    "attrgetter of a path",
    boxed,
    lambda s, x: x * operator.attrgetter("inner.scale")(s),
    lambda s: scale()(s.inner),
)
row(
    "attrgetter of two",
    boxed,
    lambda s, x: x * sum(operator.attrgetter("scale", "inner.scale")(s)),
    lambda s: scale()(s.inner),
)
row(
    "attrgetter made before",
    lambda: (boxed(), operator.attrgetter("sca" + "le")),
    lambda s, x: x * s[1](s[0]),
    lambda s: scale()(s[0]),
)
row(
    "map of attrgetter",
    boxed,
    lambda s, x: x * sum(map(operator.attrgetter("scale"), [s, s.inner])),
    lambda s: scale()(s.inner),
)
row(
    "methodcaller",
    lambda: {"a": 2.0},
    lambda s, x: x * operator.methodcaller("get", "a")(s),
    item("a"),
)
row("itemgetter", lambda: {"a": 2.0}, lambda s, x: x * operator.itemgetter("a")(s), item("a"))
row(
    "itemgetter made before",
    lambda: ({"a": 2.0}, operator.itemgetter("a")),
    lambda s, x: x * s[1](s[0]),
    lambda s: s[0].update(a=3.0),
)
row(
    "reduce of getattr",
    boxed,
    lambda s, x: x * functools.reduce(getattr, ["inner", "scale"], s),
    lambda s: scale()(s.inner),
)
row("getattr in a dict", boxed, lambda s, x: x * {"g": getattr}["g"](s, "sc" + "ale"), scale())
row("map of getattr", boxed, lambda s, x: x * next(map(getattr, [s], ["scale"])), scale())
row(
    "partial of getattr",
    lambda: (boxed(), functools.partial(getattr)),
    lambda s, x: x * s[1](s[0], "scale"),
    lambda s: scale()(s[0]),
)
row("object's getattribute", boxed, lambda s, x: x * object.__getattribute__(s, "scale"), scale())
row(
    "a bound get",
    lambda: Box(get={"a": 2.0}.get),
    lambda s, x: x * s.get("a"),
    lambda s: s.get.__self__.update(a=3.0),
)
row(
    "a bound getitem",
    lambda: Box(at=[2.0].__getitem__),
    lambda s, x: x * s.at(0),
    lambda s: s.at.__self__.__setitem__(0, 3.0),
)
row(
    "a bound index",
    lambda: Box(at=[2.0, 5.0].index),
    lambda s, x: x * (1 + s.at(5.0)),
    lambda s: s.at.__self__.insert(0, 1.0),
)
row(
    "a bound count",
    lambda: Box(count=[2.0].count),
    lambda s, x: x * s.count(2.0),
    lambda s: s.count.__self__.append(2.0),
)
row("a bound pop", lambda: Box(pop=[2.0, 3.0, 4.0, 5.0, 6.0].pop), lambda s, x: x * s.pop())
row("a bound next", lambda: Box(step=iter(range(9)).__next__), lambda s, x: x * s.step())
row("values of a dict", lambda: {"a": 2.0}, lambda s, x: x * sum(s.values()), item("b"))
row(
    "a kept view of values",
    lambda: (lambda d: (d, d.values()))({"a": 2.0}),
    lambda s, x: x * sum(s[1]),
    lambda s: s[0].update(b=3.0),
)
row(
    "a kept view of keys",
    lambda: (lambda d: (d, d.keys()))({"a": 2.0}),
    lambda s, x: x * len(s[1]),
    lambda s: s[0].update(b=3.0),
)
row(
    "a kept view of items",
    lambda: (lambda d: (d, d.items()))({"a": 2.0}),
    lambda s, x: x * max(v for _, v in s[1]),
    lambda s: s[0].update(b=3.0),
)
row(
    "a mapping proxy",
    lambda: (lambda d: (d, types.MappingProxyType(d)))({"a": 2.0}),
    lambda s, x: x * s[1]["a"],
    lambda s: s[0].update(a=3.0),
)
row("array.array", lambda: array.array("d", [2.0]), lambda s, x: x * s[0], item(0))
row(
    "array.array grows",
    lambda: array.array("d", [2.0]),
    lambda s, x: x * len(s),
    lambda s: s.append(1.0),
)
row("a bytearray", lambda: bytearray(b"\x02"), lambda s, x: x * s[0], item(0, 3))
row("a memoryview", lambda: memoryview(bytearray(b"\x02")), lambda s, x: x * s[0], item(0, 3))
row(
    "a memoryview of an array",
    lambda: (lambda a: (a, memoryview(a)))(np.ones(2)),
    lambda s, x: x * s[1][0],
    lambda s: s[0].fill(3.0),
)
row("an array", lambda: np.full(2, 2.0), lambda s, x: x * float(s[0]), item(0))
row("the sum of an array", lambda: np.full(2, 2.0), lambda s, x: x * float(s.sum()), item(1))
row("flat", lambda: np.full(2, 2.0), lambda s, x: x * float(s.flat[0]), item(0))
row(
    "a kept flat",
    lambda: (lambda a: (a, a.flat))(np.full(2, 2.0)),
    lambda s, x: x * float(s[1][0]),
    lambda s: s[0].fill(3.0),
)
row("a flat that goes on", lambda: np.arange(9.0).flat, lambda s, x: x * float(next(s)))
row(
    "nditer", lambda: np.full(2, 2.0), lambda s, x: x * float(sum(v for v in np.nditer(s))), item(0)
)
row(
    "a view of an array",
    lambda: (lambda a: (a, a[1:]))(np.full(3, 2.0)),
    lambda s, x: x * float(s[1].sum()),
    lambda s: s[0].fill(3.0),
)
row(
    "an array of objects",
    lambda: np.array([Box(scale=2.0)], dtype=object),
    lambda s, x: x * s[0].scale,
    lambda s: scale()(s[0]),
)
row(
    "a structured array",
    lambda: np.zeros(1, dtype=[("p", "f8")]),
    lambda s, x: x * (1 + float(s["p"][0])),
    lambda s: s["p"].fill(3.0),
)
row(
    "a masked array",
    lambda: np.ma.masked_array([1.0, 2.0], mask=[False, True]),
    lambda s, x: x * float(s.sum()),
    lambda s: setattr(s, "mask", [False, False]),
)
row(
    "a scalar of NumPy",
    lambda: Box(scale=np.float64(2.0)),
    lambda s, x: x * float(s.scale),
    scale(np.float64(3.0)),
    recorded=True,
)
row(
    "the dtype of an array",
    lambda: Box(a=np.ones(2)),
    lambda s, x: x * s.a.itemsize,
    lambda s: setattr(s, "a", np.ones(2, "f4")),
)
row(
    "a ufunc",
    lambda: np.full(2, 2.0),
    lambda s, x: x * float(np.add.reduce(s)),
    item(0),
    recorded=True,
)
row(
    "np.vectorize",
    lambda: Box(scale=2.0),
    lambda s, x: x * float(np.vectorize(lambda v: v * s.scale)(np.ones(1))[0]),
    scale(),
)
row(
    "apply_along_axis",
    lambda: Box(scale=2.0),
    lambda s, x: x * float(np.apply_along_axis(lambda v: v * s.scale, 0, np.ones(1))[0]),
    scale(),
)
row(
    "sorted by a key",
    boxed,
    lambda s, x: x * sorted([3.0, 1.0], key=lambda v: v * s.scale)[0],
    scale(-1.0),
)
row("max by a key", boxed, lambda s, x: x * max(3.0, 1.0, key=lambda v: v * s.scale), scale(-1.0))
row("filter", boxed, lambda s, x: x * sum(filter(lambda v: v > s.scale, [1.0, 2.5, 4.0])), scale())
row(
    "accumulate",
    boxed,
    lambda s, x: x * [*itertools.accumulate([1.0, 2.0], lambda a, b: a * s.scale + b)][-1],
    scale(),
)
row(
    "groupby",
    boxed,
    lambda s, x: x * len([*itertools.groupby([1.0, 2.5, 4.0], lambda v: v > s.scale)]),
    scale(9.0),
)
row(
    "starmap",
    boxed,
    lambda s, x: x * sum(itertools.starmap(lambda a, b: a * b * s.scale, [(1.0, 2.0)])),
    scale(),
)
row("a kept iterator", lambda: iter([1.0, 2.0, 3.0, 4.0, 5.0]), lambda s, x: x * next(s))
row("a kept count", lambda: itertools.count(1), lambda s, x: x * next(s))
row("a kept cycle", lambda: itertools.cycle([1.0, 2.0]), lambda s, x: x * next(s))
row("a kept generator", lambda: (float(k) for k in range(9)), lambda s, x: x * next(s))
row("a kept map", lambda: map(float, range(9)), lambda s, x: x * next(s))
row("a kept zip", lambda: zip(range(9), range(9), strict=True), lambda s, x: x * sum(next(s)))
row("a kept enumerate", lambda: enumerate(range(9)), lambda s, x: x * sum(next(s)))
row("a kept tee", lambda: itertools.tee(range(9)), lambda s, x: x * next(s[0]))
row("a deque", lambda: collections.deque([2.0]), lambda s, x: x * s[0], lambda s: s.appendleft(3.0))
row(
    "a deque turns",
    lambda: collections.deque([1.0, 2.0]),
    lambda s, x: x * s[0],
    lambda s: s.rotate(),
)
row(
    "a heap",
    lambda: [2.0, 5.0],
    lambda s, x: x * heapq.nsmallest(1, s)[0],
    lambda s: heapq.heappush(s, 1.0),
)
row("bisect", lambda: [1.0, 2.0], lambda s, x: x * bisect.bisect(s, 5.0), lambda s: s.append(3.0))
row(
    "a counter",
    lambda: collections.Counter("aab"),
    lambda s, x: x * s["a"],
    lambda s: s.update("a"),
)
row(
    "an ordered dict",
    lambda: collections.OrderedDict(a=1.0, b=2.0),
    lambda s, x: x * next(iter(s.values())),
    lambda s: s.move_to_end("a"),
)
row(
    "the order of a dict",
    lambda: {"a": 1.0, "b": 2.0},
    lambda s, x: x * next(iter(s.values())),
    lambda s: s.update(a=s.pop("a")),
)
row("a user dict", lambda: collections.UserDict(a=2.0), lambda s, x: x * s["a"], item("a"))
row("a user list", lambda: collections.UserList([2.0]), lambda s, x: x * s[0], item(0))
row(
    "a named tuple",
    lambda: Box(t=collections.namedtuple("T", "a b")(1.0, [2.0])),
    lambda s, x: x * s.t.b[0],
    lambda s: s.t.b.__setitem__(0, 3.0),
)
row(
    "a simple namespace",
    lambda: types.SimpleNamespace(scale=2.0),
    lambda s, x: x * s.scale,
    scale(),
    recorded=True,
)
row("json", lambda: {"a": 2.0}, lambda s, x: x * json.loads(json.dumps(s))["a"], item("a"))
row(
    "json of a file",
    lambda: io.StringIO("[2.0, 3.0]"),
    lambda s, x: x * json.load(s)[0],
    lambda s: s.seek(0),
)
row("pickle", lambda: {"a": 2.0}, lambda s, x: x * pickle.loads(pickle.dumps(s))["a"], item("a"))
row("copy", boxed, lambda s, x: x * copy.copy(s).scale, scale(), recorded=True)
row("deepcopy", boxed, lambda s, x: x * copy.deepcopy(s).inner.scale, lambda s: scale()(s.inner))
row("format of an attribute", boxed, lambda s, x: x * float(f"{s.scale}"), scale())
row(
    "a formatter", boxed, lambda s, x: x * float(string.Formatter().format("{0.scale}", s)), scale()
)
row("format_map", lambda: {"a": 2.0}, lambda s, x: x * float("{a}".format_map(s)), item("a"))
row(
    "a template",
    lambda: {"a": 2.0},
    lambda s, x: x * float(string.Template("$a").substitute(s)),
    item("a"),
)
row("percent", lambda: {"a": 2.0}, lambda s, x: x * float("%(a)f" % s), item("a"))  # noqa: UP031
row(
    "struct",
    lambda: bytearray(struct.pack("d", 2.0)),
    lambda s, x: x * struct.unpack("d", s)[0],
    lambda s: struct.pack_into("d", s, 0, 3.0),
)
row(
    "a compiled struct",
    lambda: Box(s=struct.Struct("d"), b=struct.pack("d", 2.0)),
    lambda s, x: x * s.s.unpack(s.b)[0],
    lambda s: setattr(s, "b", struct.pack("d", 3.0)),
)
row(
    "a pattern",
    lambda: Box(text="2"),
    lambda s, x: x * len(re.findall(r"\d", s.text)),
    lambda s: setattr(s, "text", "22"),
)
row(
    "re.sub with a function",
    boxed,
    lambda s, x: x * float(re.sub("a", lambda m: str(s.scale), "a")),
    scale(),
)
row(
    "a fraction",
    lambda: Box(f=fractions.Fraction(1, 2)),
    lambda s, x: x * float(s.f),
    lambda s: setattr(s, "f", fractions.Fraction(1, 3)),
)
row(
    "a decimal",
    lambda: Box(d=decimal.Decimal(2)),
    lambda s, x: x * float(s.d),
    lambda s: setattr(s, "d", decimal.Decimal(3)),
)
row("statistics", lambda: [1.0, 2.0], lambda s, x: x * statistics.mean(s), lambda s: s.append(9.0))
row(
    "math.fsum",
    lambda: [1.0, 2.0],
    lambda s, x: x * __import__("math").fsum(s),
    lambda s: s.append(9.0),
)
row(
    "a weak reference",
    lambda: (lambda b: (b, weakref.ref(b)))(boxed()),
    lambda s, x: x * s[1]().scale,
    lambda s: scale()(s[0]),
)
row(
    "a weak proxy",
    lambda: (lambda b: (b, weakref.proxy(b)))(boxed()),
    lambda s, x: x * s[1].scale,
    lambda s: scale()(s[0]),
)
row(
    "a weak value",
    lambda: (lambda b: (b, weakref.WeakValueDictionary(a=b)))(boxed()),
    lambda s, x: x * s[1]["a"].scale,
    lambda s: scale()(s[0]),
)
row(
    "ctypes",
    lambda: ctypes.c_double(2.0),
    lambda s, x: x * s.value,
    lambda s: setattr(s, "value", 3.0),
)
row("a ctypes array", lambda: (ctypes.c_double * 2)(2.0, 1.0), lambda s, x: x * s[0], item(0))
row(
    "a partial",
    lambda: Box(f=functools.partial(operator.mul, 2.0)),
    lambda s, x: s.f(x),
    lambda s: setattr(s, "f", functools.partial(operator.mul, 3.0)),
)
row(
    "keywords of a partial",
    lambda: functools.partial(lambda x, a: x * a, a=2.0),
    lambda s, x: s(x),
    lambda s: s.keywords.update(a=3.0),
)
row(
    "arguments of a partial",
    lambda: functools.partial(lambda a, x: x * a[0], [2.0]),
    lambda s, x: s(x),
    lambda s: s.args[0].__setitem__(0, 3.0),
)
row("a bound method", lambda: Holder(2.0).apply, lambda s, x: s(x), lambda s: scale()(s.__self__))
row(
    "a context variable",
    lambda: __import__("contextvars").ContextVar("v", default=2.0),
    lambda s, x: x * s.get(),
    lambda s: s.set(3.0),
)
row("a thread's own", lambda: local(2.0), lambda s, x: x * s.scale, scale())
row("a cached function", lambda: cached(), lambda s, x: x * s[0](1), lambda s: s[1].update(v=3.0))
row(
    "a cached function is cleared",
    lambda: cached(),
    lambda s, x: x * s[0](1),
    lambda s: (s[1].update(v=3.0), s[0].cache_clear()),
)
row(
    "a cached property",
    lambda: Cached(),
    lambda s, x: x * s.value,
    lambda s: s.__dict__.pop("value", None) and s.table.__setitem__(0, 3.0),
)
row(
    "single dispatch",
    lambda: dispatching(),
    lambda s, x: x * s(1),
    lambda s: s.register(int, lambda v: 3.0),
)
row("a property", lambda: Holder(2.0), lambda s, x: x * s.doubled, scale())
row(
    "a descriptor",
    lambda: Described(),
    lambda s, x: x * s.value,
    lambda s: s.__class__.__dict__["value"].table.__setitem__(0, 3.0),
)
row("len of a subclass", lambda: Long([1.0]), lambda s, x: x * len(s), lambda s: s.append(1.0))
row("dunder contains", lambda: Within(2.0), lambda s, x: x * (2.0 if 5.0 in s else 3.0), scale(9.0))
row("dunder iter", lambda: Within(2.0), lambda s, x: x * sum(s), scale(9.0))
row("dunder float", lambda: Within(2.0), lambda s, x: x * float(s), scale(9.0))
row("dunder index", lambda: Within(1), lambda s, x: x * [2.0, 3.0, 4.0][s], scale(2))
row("dunder format", lambda: Within(2.0), lambda s, x: x * float(f"{s}"), scale(9.0))
row(
    "dunder hash and eq",
    lambda: (Within(2.0), {Within(2.0): 3.0, Within(9.0): 4.0}),
    lambda s, x: x * s[1][s[0]],
    lambda s: scale(9.0)(s[0]),
)
row("dunder call", lambda: Within(2.0), lambda s, x: s(x), scale(9.0))
row("dunder array", lambda: Within(2.0), lambda s, x: x * float(np.asarray(s)[0]), scale(9.0))
row(
    "dunder lt in sort",
    lambda: [Within(2.0), Within(1.0)],
    lambda s, x: x * sorted(s)[0].scale,
    lambda s: scale(0.0)(s[0]),
)
row(
    "sum of objects",
    lambda: [Within(2.0), Within(1.0)],
    lambda s, x: x * sum(s, 0.0),
    lambda s: scale(0.0)(s[0]),
)


class Holder:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def apply(self, x: Any) -> Any:
        return x * self.scale

    @property
    def doubled(self) -> float:
        return 2 * self.scale


class Cached:
    def __init__(self) -> None:
        self.table = [2.0]

    @functools.cached_property
    def value(self) -> float:
        return self.table[0]


class Descriptor:
    def __init__(self) -> None:
        self.table = [2.0]

    def __get__(self, one: Any, owner: Any = None) -> Any:
        return self.table[0] if one is not None else self


def Described() -> Any:
    return type("Described", (), {"value": Descriptor()})()


class Long(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 10 * list.__len__(self)


@functools.total_ordering
class Within:
    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __contains__(self, v: Any) -> bool:
        return bool(v > self.scale)

    def __iter__(self) -> Any:
        yield self.scale

    def __float__(self) -> float:
        return float(self.scale)

    def __index__(self) -> int:
        return int(self.scale)

    def __format__(self, spec: str) -> str:
        return str(self.scale)

    def __hash__(self) -> int:
        return hash(self.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Within) and other.scale == self.scale

    def __lt__(self, other: Any) -> bool:
        return bool(self.scale < other.scale)

    def __radd__(self, other: Any) -> Any:
        return other + self.scale

    def __call__(self, x: Any) -> Any:
        return x * self.scale

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([self.scale])


def local(scale: float) -> Any:
    own = threading.local()
    own.scale = scale
    return own


def cached() -> Any:
    values = {"v": 2.0}

    @functools.lru_cache
    def f(_: int) -> float:
        return values["v"]

    return f, values


def dispatching() -> Any:
    @functools.singledispatch
    def f(_: Any) -> float:
        return 2.0

    return f


CLOCKS = {
    "a clock in a map": lambda: next(map(operator.call, [time.perf_counter])),
    "a clock in a partial": functools.partial(functools.partial(time.perf_counter)),
    "a clock in starmap": lambda: next(itertools.starmap(time.perf_counter, [()])),
    "a clock by getattr": lambda: getattr(time, "perf_" + "counter")(),
    "a clock by an attrgetter": lambda: operator.attrgetter("perf_counter")(time)(),
    "a clock by vars": lambda: vars(time)["perf_counter"](),
    "a clock in iter": lambda: next(iter(time.perf_counter, None)),
    "a clock in a key": lambda: (
        sorted([[1], [2]], key=lambda _: time.perf_counter()) and time.perf_counter()
    ),
    "a clock in reduce": lambda: functools.reduce(lambda a, b: b(), [0, time.perf_counter]),
    "a clock in a default dict": lambda: collections.defaultdict(time.perf_counter)["a"],
    "a clock in an object": Box(now=time.perf_counter).now,
    "a clock by methodcaller": lambda: operator.methodcaller("perf_counter")(time),
    "monotonic": time.monotonic_ns,
    "process time": lambda: time.process_time_ns() + time.perf_counter_ns(),
    "numpy's clock": lambda: (
        float(np.datetime64("now", "ns").astype("int64")) + time.perf_counter_ns()
    ),
}
for _name, _clock in CLOCKS.items():

    def _program(compile: Compile, clock: Any = _clock) -> Any:
        return varies(compile(lambda x: x * 0 + clock()))

    _program.__name__ = _name
    table.add(_program)


@table
def scipy_objects(compile: Compile) -> Any:
    from scipy import interpolate

    spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    f = compile(lambda x: x * float(spline(1.5)))

    def change() -> None:
        spline.c[:] = 0.0

    return calls(f, change)


@table
def scipy_sparse(compile: Compile) -> Any:
    from scipy import sparse

    matrix = sparse.csr_matrix(np.eye(2))
    f = compile(lambda x: x * float(matrix[0, 0]))

    def change() -> None:
        matrix.data[:] = 5.0

    return calls(f, change)


@table
def scipy_rotation(compile: Compile) -> Any:
    from scipy.spatial.transform import Rotation

    box = Box(r=Rotation.from_euler("z", 90, degrees=True))
    f = compile(lambda x: x * float(box.r.as_matrix()[1, 0]))
    return calls(f, lambda: setattr(box, "r", Rotation.from_euler("z", 0)))


@table
def scipy_solves(compile: Compile) -> Any:
    from scipy import linalg

    matrix = np.eye(2) * 2
    f = compile(lambda x: x * float(linalg.solve(matrix, np.ones(2))[0]))
    return calls(f, lambda: matrix.fill(0) or np.fill_diagonal(matrix, 4.0))


@table
def numpy_solves(compile: Compile) -> Any:
    matrix = np.eye(2) * 2
    f = compile(lambda x: x * float(np.linalg.solve(matrix, np.ones(2))[0]))
    return calls(f, lambda: np.fill_diagonal(matrix, 4.0))


@table
def numpy_error_state(compile: Compile) -> Any:
    with np.errstate(all="ignore"):
        f = compile(lambda x: x * float(np.float64(1.0) / np.float64(2.0)))
        return calls(f)


@table
def a_numpy_generator(compile: Compile) -> Any:
    rng = np.random.default_rng(0)
    f = compile(lambda x: x * rng.standard_normal())
    return calls(f)


@table
def tensors_made_of_arrays(compile: Compile) -> Any:
    a = np.ones(2, dtype=np.float32)
    f = compile(lambda x: x * ad.tensor(a))
    return calls(f, lambda: a.fill(3.0))


@table
def tensors_that_share_arrays(compile: Compile) -> Any:
    a = np.ones(2, dtype=np.float32)
    f = compile(lambda x: x * ad.from_numpy(a))
    return calls(f, lambda: a.fill(3.0))


@table
def large_arrays(compile: Compile) -> Any:
    a = np.ones(100_000)
    f = compile(lambda x: x * float(a[-1]))
    return calls(f, lambda: a.fill(3.0))


@table
def keyword_defaults_in_place(compile: Compile) -> Any:
    def h(x: Any, *, by: float = 2.0) -> Any:
        return x * by

    f = compile(lambda x: h(x))
    return calls(f, lambda: (h.__kwdefaults__ or {}).update(by=3.0))
