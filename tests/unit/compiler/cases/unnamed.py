"""State that no name in the code leads to: C code reads it whole, or an object in between holds it.

Also what surrounds a tensor rather than its numbers: its gradient, hooks, memory it shares.
"""

from __future__ import annotations

import logging
import operator
import os
import pathlib
import string
import struct
import sys
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import optim
from adjoint._tensor import printing as _printing

from .harness import Box, Compile, Table, calls, ones

table = Table("unnamed state")
row = table.row


def sets(name: str, value: Any) -> Callable[[Any], None]:
    return lambda s: setattr(s, name, value)


# -- all attributes at once ------------------------------------------------------------------------


def reads_all(name: str, read: Callable[[Any], Any]) -> None:
    """An object's attributes are read by C code that names none of them."""
    row(
        name,
        lambda: Box(a=1.0),
        lambda s, x: x * len(str(read(s))),
        sets("a", 1000.0),
        sets("more", 2.0),
        lambda s: delattr(s, "more"),
    )


reads_all("getstate", lambda s: s.__getstate__())
reads_all("getstate of object", lambda s: object.__getstate__(s))
reads_all("reduce_ex", lambda s: s.__reduce_ex__(2)[2])
reads_all("reduce_ex by a methodcaller", lambda s: operator.methodcaller("__reduce_ex__", 2)(s)[2])
reads_all("dir", lambda s: s.__dir__())
reads_all("dir of object", lambda s: [*map(object.__dir__, [s])])


class Space(types.SimpleNamespace):
    pass


def space(
    name: str, function: Callable[[Any, Any], Any], kind: Any = types.SimpleNamespace
) -> None:
    row(
        name,
        lambda: Box(one=kind(a=1), two=kind(a=1)),
        function,
        lambda s: setattr(s.one, "a", 1000),
        lambda s: setattr(s.one, "b", 2),
        lambda s: delattr(s.one, "a"),
    )


space("a namespace's repr", lambda s, x: x * len(repr(s.one)))
space("a namespace in an f-string", lambda s, x: x * len(f"{s.one}"))
space("a namespace formatted", lambda s, x: x * len("%s" % s.one))  # noqa: UP031
space("namespaces compared", lambda s, x: x * (2.0 if s.one == s.two else 3.0))
space("a namespace in a list", lambda s, x: x * (2.0 if s.one in [s.two] else 3.0))
space("a namespace of its own class", lambda s, x: x * len(str(s.one)), Space)


# -- objects that hold others ----------------------------------------------------------------------


class Place:
    def __init__(self, at: int) -> None:
        self.at = at

    def __index__(self) -> int:
        return self.at


def held(name: str, hold: Callable[[Any], Any], read: Callable[[Any, Any], Any]) -> None:
    """An object whose state is read is held by one of C alone."""

    def program(compile: Compile) -> Any:
        place, listed = Place(0), [1.0, 2.0, 3.0]
        holder = hold(place)
        f = compile(lambda x: x * read(holder, listed))
        return calls(f, lambda: setattr(place, "at", 2), lambda: setattr(place, "at", 1))

    program.__name__ = name
    table.add(program, recorded=True)


held("in an itemgetter", operator.itemgetter, lambda h, items: h(items))
held("in an itemgetter of two", lambda p: operator.itemgetter(0, p), lambda h, items: h(items)[1])
held("in a slice", lambda p: slice(p, None), lambda h, items: items[h][0])
held(
    "in a slice in a tuple",
    lambda p: (slice(None, None, 1), slice(p, 3)),
    lambda h, items: items[h[1]][0],
)
held("in an alias", lambda p: list[p], lambda h, items: items[h.__args__[0]])


class Judge(type):
    verdict = True

    def __instancecheck__(cls, thing: Any) -> bool:
        return cls.verdict


@table
def a_class_in_a_union(compile: Compile) -> Any:
    judge = Judge("judge", (), {})
    either = str | judge
    f = compile(lambda x: x * (2.0 if isinstance(x, either) else 3.0))
    return calls(f, lambda: setattr(judge, "verdict", False))


@table
def a_class_of_a_union_is_read(compile: Compile) -> Any:
    one = type("one", (), {"rate": 2.0})
    either = int | one
    f = compile(lambda x: x * either.__args__[1].rate)
    return calls(f, lambda: setattr(one, "rate", 3.0))


@table
def an_argument_is_a_slice_of_objects(compile: Compile) -> Any:
    place, listed = Place(0), [1.0, 2.0, 3.0]
    given = slice(place, None)
    f = compile(lambda x, at: x * listed[at][0])
    found = [f(ad.ones(2), given), f(ad.ones(2), given)]
    place.at = 2
    return [*found, f(ad.ones(2), given), f(ad.ones(2), given)]


# -- values ----------------------------------------------------------------------------------------

NAN = float("nan")

row("the sign of a NaN", lambda: Box(k=NAN), lambda s, x: x * s.k, sets("k", -NAN))
row("of one in a tuple", lambda: Box(k=(NAN,)), lambda s, x: x * s.k[0], sets("k", (-NAN,)))
row("of one in a list", lambda: [NAN], lambda s, x: x * s[0], lambda s: s.__setitem__(0, -NAN))
row(
    "of a complex one",
    lambda: Box(k=complex(NAN, 0)),
    lambda s, x: x * s.k.real,
    sets("k", complex(-NAN, 0)),
)
row(
    "of one in a class",
    lambda: type("C", (), {"k": NAN}),
    lambda s, x: x * s.k,
    sets("k", -NAN),
)
row(
    "the payload of a NaN",
    lambda: Box(k=NAN),
    lambda s, x: x.double() * s.k,
    sets("k", struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]),
)
row(
    "the order of a frozenset",
    lambda: Box(k=frozenset([0, 8])),
    lambda s, x: x * (1.0 + next(iter(s.k))),
    sets("k", frozenset([8, 0])),
)
row(
    "the order of a frozenset in a tuple",
    lambda: Box(k=(1, frozenset([0, 8]))),
    lambda s, x: x * (1.0 + next(iter(s.k[1]))),
    sets("k", (1, frozenset([8, 0]))),
)


@table
def the_sign_of_a_nan_as_an_argument(compile: Compile) -> Any:
    f = compile(lambda x, k: x * k)
    return [f(ad.ones(2), k) for k in (NAN, NAN, -NAN, -NAN, NAN)]


@table
def the_sign_of_a_complex_nan_as_an_argument(compile: Compile) -> Any:
    f = compile(lambda x, k: x * k.imag)
    return [f(ad.ones(2), complex(0.0, k)) for k in (NAN, NAN, -NAN, -NAN)]


# -- modules and libraries -------------------------------------------------------------------------


ASKS_A_MODULE = """
def f(x):
    try:
        rate = module.rate
    except AttributeError:
        rate = 1.0
    return x * rate
"""


@table
def a_getattr_that_a_module_gets_later(compile: Compile) -> Any:
    module = types.ModuleType("module")
    table = {"module": module}
    exec(ASKS_A_MODULE, table)
    f: Any = table["f"]
    return calls(
        compile(f),
        lambda: setattr(module, "__getattr__", lambda name: 3.0),
        lambda: setattr(module, "__getattr__", lambda name: 4.0),
        lambda: delattr(module, "__getattr__"),
    )


def disabled(level: int) -> Callable[[Any], None]:
    return lambda s: logging.disable(level)


row(
    "an object in a class of a library",
    lambda: None,
    lambda s, x: x * (2.0 if logging.root.manager.disable else 3.0),
    disabled(10),
    disabled(0),
)
row(
    "a text in a class of a library",
    lambda: string.Template("$a %a"),
    lambda s, x: x * len(s.substitute(a="long")),
    lambda s: setattr(string.Template, "idpattern", "[b-z]+"),
    lambda s: setattr(string.Template, "idpattern", r"(?a:[_a-z][_a-z0-9]*)"),
)


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


def logger(level: int) -> Callable[[], logging.Logger]:
    def make() -> logging.Logger:
        made = logging.Logger("cases", level)
        made.addHandler(Kept())
        return made

    return make


def logs(s: Any, x: Any) -> Any:
    s.debug("called with %s", 1)
    return x * 2


def messages(s: Any) -> Any:
    return list(s.handlers[0].seen)


row("a log that is off", logger(logging.ERROR), logs, recorded=True, left=messages)
row("a log that is on", logger(logging.DEBUG), logs, left=messages)
row(
    "a log that is switched on",
    logger(logging.ERROR),
    logs,
    lambda s: s.setLevel(logging.DEBUG),
    lambda s: s.setLevel(logging.ERROR),
    left=messages,
)


def child() -> logging.Logger:
    made = logger(logging.NOTSET)()
    made.parent = logging.Logger("parent", logging.ERROR)
    return made


row(
    "a log whose parent is switched on",
    child,
    logs,
    lambda s: (s.parent.setLevel(logging.DEBUG), s._cache.clear()),
    left=messages,
)


@typing.runtime_checkable
class Rated(typing.Protocol):
    rate: float


row(
    "a protocol",
    lambda: Box(a=1.0),
    lambda s, x: x * (2.0 if isinstance(s, Rated) else 3.0),
    sets("rate", 3.0),
    lambda s: delattr(s, "rate"),
    recorded=sys.version_info < (3, 12),  # Later ones keep what they found in a cache, unseen.
)


row(
    "a path is joined",
    lambda: Box(folder="a"),
    lambda s, x: x * len(os.path.join(s.folder, "b")),
    sets("folder", "abc"),
    recorded=True,
)
row(
    "a path object",
    lambda: Box(folder=pathlib.PurePosixPath("a")),
    lambda s, x: x * len(str(s.folder / "b")),
    sets("folder", pathlib.PurePosixPath("abc")),
    recorded=True,
)


# -- settings of adjoint ---------------------------------------------------------------------------


def setting(name: str, read: Callable[[], Any], change: Callable[[], Any], back: Any) -> None:
    """What a function of adjoint tells of its own state."""

    def program(compile: Compile) -> Any:
        f = compile(lambda x: x * len(str(read())))
        try:
            return calls(f, change, back, change)
        finally:
            back()

    program.__name__ = name
    table.add(program)


setting(
    "the precision of products",
    lambda: ad.get_float32_matmul_precision(),
    lambda: ad.set_float32_matmul_precision("medium"),
    lambda: ad.set_float32_matmul_precision("highest"),
)
setting(
    "how tensors are printed",
    lambda: _printing.get_printoptions(),
    lambda: ad.set_printoptions(precision=12),
    lambda: ad.set_printoptions(profile="default"),
)
setting(
    "threads of a pass",
    lambda: ad.autograd.is_multithreading_enabled(),
    lambda: ad.autograd.set_multithreading_enabled(False),
    lambda: ad.autograd.set_multithreading_enabled(True),
)


def sets_a_setting(name: str, change: Any, back: Any, read: Callable[[], Any]) -> None:
    """A function of adjoint sets a state of its own in the call."""

    def program(compile: Compile) -> Any:
        f = compile(lambda x: (change(), x * 2)[1])
        found = []
        for _ in range(4):
            back()
            found += [f(ad.ones(2)), read()]
        back()
        return found

    program.__name__ = name
    table.add(program)


sets_a_setting(
    "the precision of products is set",
    lambda: ad.set_float32_matmul_precision("medium"),
    lambda: ad.set_float32_matmul_precision("highest"),
    lambda: ad.get_float32_matmul_precision(),
)
sets_a_setting(
    "threads of a pass are set",
    lambda: ad.autograd.set_multithreading_enabled(False),
    lambda: ad.autograd.set_multithreading_enabled(True),
    lambda: ad.autograd.is_multithreading_enabled(),
)


# -- locks and errors ------------------------------------------------------------------------------


def takes(s: Any, x: Any) -> Any:
    s.lock.acquire()
    try:
        return x * s.rate
    finally:
        s.lock.release()


for kind in (threading.Lock, threading.RLock):
    row(
        f"{kind.__name__} is taken and given back",
        lambda kind=kind: Box(lock=kind(), rate=2.0),
        takes,
        sets("rate", 3.0),
        recorded=True,
    )
row(
    "a lock is asked",
    threading.Lock,
    lambda s, x: x * (2.0 if s.locked() else 3.0),
    lambda s: s.acquire(),
    lambda s: s.release(),
    recorded=True,
)
row(
    "a lock is kept",
    threading.Lock,
    lambda s, x: x * (2.0 if s.acquire(blocking=False) else 3.0),
    left=lambda s: s.locked(),
)


def raise_it(s: Any) -> None:
    try:
        raise s.error
    except ValueError:
        pass


row(
    "the traceback of an error",
    lambda: Box(error=ValueError(2.0)),
    lambda s, x: x * (2.0 if s.error.__traceback__ is None else 3.0),
    raise_it,
    lambda s: s.error.with_traceback(None),
)


# -- optimisers ------------------------------------------------------------------------------------


def schedule(name: str, read: Callable[[Any, Any], Any], recorded: bool = False) -> None:
    """What a schedule or an optimiser tells is read, and not repeated by a replay."""

    def program(compile: Compile) -> Any:
        p = ones()
        optimizer = optim.SGD([p], lr=0.1)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        f = compile(lambda x: x * read(optimizer, scheduler))
        found = []
        for _ in range(4):
            found += [f(ad.ones(2)), f(ad.ones(2))]
            scheduler.step()
        return found

    program.__name__ = name
    table.add(program, recorded)


schedule("get_last_lr", lambda o, s: s.get_last_lr()[0], recorded=True)
schedule("the rate of a group", lambda o, s: o.param_groups[0]["lr"], recorded=True)
schedule("the state of a schedule", lambda o, s: s.state_dict()["last_epoch"])
schedule("the state of an optimiser", lambda o, s: o.state_dict()["param_groups"][0]["lr"])
schedule("an optimiser's repr", lambda o, s: len(repr(o)))


# -- what surrounds a tensor -----------------------------------------------------------------------


def gradient(
    name: str, read: Callable[[Any, Any], Any], *changes: Callable[[Any, Any], Any]
) -> None:
    """What is asked of a gradient that was there before the call, besides its numbers."""

    def program(compile: Compile) -> Any:
        p, buffer = ones(), ad.ones(2)
        p.grad = ad.ones(2)
        f = compile(lambda x: x * read(p, buffer))
        return calls(f, *(lambda change=change: change(p, buffer) for change in changes))

    program.__name__ = name
    table.add(program)


def set_to_buffer(p: Any, buffer: Any) -> None:
    p.grad = buffer


def set_to_ones(p: Any, buffer: Any) -> None:
    p.grad = ad.ones(2)


def set_to_history(p: Any, buffer: Any) -> None:
    p.grad = ones() * 3


gradient(
    "whether it is a buffer",
    lambda p, b: 2.0 if p.grad is b else 3.0,
    set_to_buffer,
    set_to_ones,
    set_to_buffer,
    lambda p, b: setattr(p, "grad", None),
)
gradient(
    "an attribute of it",
    lambda p, b: getattr(p.grad, "tag", 1.0),
    lambda p, b: setattr(p.grad, "tag", 4.0),
    set_to_ones,
)
gradient(
    "whether it requires grad",
    lambda p, b: 2.0 if p.grad.requires_grad else 3.0,
    lambda p, b: p.grad.requires_grad_(),
)
gradient("whether it is a leaf", lambda p, b: 2.0 if p.grad.is_leaf else 3.0, set_to_history)
gradient("its history", lambda p, b: p.grad, set_to_history, set_to_ones)
gradient("a buffer beside it", lambda p, b: p.grad.add_(1) * 0 + b, set_to_buffer)


@table
def two_gradients_become_one(compile: Compile) -> Any:
    p, q = ones(), ones()

    def function(x: Any) -> Any:
        (p * x + q * x * 2).sum().backward()
        return x * 1

    f = compile(function)
    found = []
    for _ in range(2):
        found += [[f(ad.ones(2)), p.grad.clone(), q.grad.clone()] for _ in range(3)]
        p.grad = q.grad = ad.zeros(2)
    return found


@table
def the_number_of_hooks(compile: Compile) -> Any:
    x = ones()
    f = compile(lambda x: x * (1.0 + len(x._backward_hooks or ())))
    found = [f(x), f(x)]
    for factor in (2, 3):
        x.register_hook(lambda g, factor=factor: g * factor)
        found += [f(x), f(x)]
    return found


def memory(name: str, make: Callable[[], Any], read: Callable[[Any], float]) -> None:
    """A tensor that the function changes is the memory of what it reads in another way."""

    def program(compile: Compile) -> Any:
        held = make()

        def function(x: Any) -> Any:
            x.add_(1)
            return x * read(held)

        f = compile(function)
        found = [f(ad.ones(2)), f(ad.ones(2))]
        return [*found, f(ad.from_numpy(np.frombuffer(held, dtype=np.float32)))]

    program.__name__ = name
    table.add(program, raises=True)


memory("of an array", lambda: np.ones(2, dtype=np.float32), lambda held: float(held[0]))
memory(
    "of a bytearray",
    lambda: bytearray(struct.pack("2f", 1.0, 1.0)),
    lambda held: struct.unpack("2f", held)[0],
)
memory("of a view", lambda: memoryview(bytearray(8)), lambda held: 1.0 + sum(held))


@table
def a_derivative_runs_what_a_program_leaves_out(compile: Compile) -> Any:
    log: list[int] = []

    def function(x: Any) -> Any:
        if not ad.compiler.is_compiling():
            log.append(1)
        return (x * x).sum()

    f = compile(function)
    x = ones()
    f(x)
    y = f(x)
    before = len(log)
    return ad.autograd.grad(y, x, create_graph=True)[0], len(log) - before
