"""The outside world: files, the environment, contexts, threads, processes, settings."""

from __future__ import annotations

import contextvars
import datetime
import decimal
import functools
import gc
import getpass
import glob
import inspect
import linecache
import locale
import logging
import os
import pathlib
import platform
import queue
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
import warnings
from typing import Any

import numpy as np

import adjoint as ad

from .harness import Box, Compile, Table, calls, varies

table = Table("the outside world")


def in_folder(name: str, function: Any, change: Any) -> None:
    """A row: a function of a folder, which is changed."""

    def program(compile: Compile) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            with open(path, "w") as file:
                file.write("2.0")
            f = compile(lambda x: function(path, x))
            return calls(f, lambda: change(path))

    program.__name__ = name
    table.add(program)


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("33.0")


def read(path: str) -> float:
    with open(path) as file:
        return float(file.read())


in_folder("exists", lambda p, x: x * (2.0 if os.path.exists(p) else 3.0), os.remove)
in_folder("isfile", lambda p, x: x * (2.0 if os.path.isfile(p) else 3.0), os.remove)
in_folder("isdir", lambda p, x: x * (2.0 if os.path.isdir(os.path.dirname(p)) else 3.0), os.remove)
in_folder("access", lambda p, x: x * (1 + os.access(p, os.R_OK)), os.remove)
in_folder("size", lambda p, x: x * os.path.getsize(p), write)
in_folder("stat", lambda p, x: x * os.stat(p).st_size, write)
in_folder("reading", lambda p, x: x * read(p), write)
in_folder("path read_text", lambda p, x: x * float(pathlib.Path(p).read_text()), write)
in_folder("path exists", lambda p, x: x * (1 + pathlib.Path(p).exists()), os.remove)
in_folder("path iterdir", lambda p, x: x * len([*pathlib.Path(p).parent.iterdir()]), os.remove)
in_folder("path glob", lambda p, x: x * len([*pathlib.Path(p).parent.glob("*")]), os.remove)
in_folder("glob", lambda p, x: x * len(glob.glob(p + "*")), os.remove)
in_folder("listdir", lambda p, x: x * len(os.listdir(os.path.dirname(p))), os.remove)
in_folder("scandir", lambda p, x: x * len([*os.scandir(os.path.dirname(p))]), os.remove)
in_folder("walk", lambda p, x: x * len([*os.walk(os.path.dirname(p))][0][2]), os.remove)
in_folder("loadtxt", lambda p, x: x * float(np.loadtxt(p)), write)
in_folder("fromfile", lambda p, x: x * float(np.fromfile(p, "u1").sum()), write)
in_folder(
    "getline",
    lambda p, x: x * float(linecache.getline(p, 1) or 1.0),
    lambda p: linecache.clearcache() or write(p),
)
in_folder("which", lambda p, x: x * (1 + (shutil.which(p) is None)), lambda p: os.chmod(p, 0o755))
in_folder(
    "realpath",
    lambda p, x: x * (1 + os.path.islink(p)),
    lambda p: (os.remove(p), os.symlink("/", p)),
)
in_folder("a kept file", lambda p, x: x * kept(p), lambda p: None)
in_folder("a file by descriptor", lambda p, x: x * len(os.read(os.open(p, os.O_RDONLY), 9)), write)
in_folder("ad.load", lambda p, x: x * loaded(p), lambda p: None)

_kept: dict[str, Any] = {}


def kept(path: str) -> float:
    return len(_kept.setdefault(path, open(path)).read(1))


def loaded(path: str) -> Any:
    ad.save(ad.ones(1), path + ".st")
    return ad.load(path + ".st")


def environment(name: str, function: Any) -> None:
    def program(compile: Compile) -> Any:
        os.environ["ADJOINT_TEST_GAIN"] = "2.0"
        try:
            f = compile(lambda x: x * function())
            return calls(
                f,
                lambda: os.environ.update(ADJOINT_TEST_GAIN="3.0"),
                lambda: os.environ.pop("ADJOINT_TEST_GAIN"),
            )
        finally:
            os.environ.pop("ADJOINT_TEST_GAIN", None)

    program.__name__ = name
    table.add(program)


environment("os.environ.get", lambda: float(os.environ.get("ADJOINT_TEST_GAIN", "1.0")))
environment("os.getenv", lambda: float(os.getenv("ADJOINT_TEST_GAIN", "1.0")))
environment("in os.environ", lambda: 1.0 + ("ADJOINT_TEST_GAIN" in os.environ))
environment("expandvars", lambda: len(os.path.expandvars("$ADJOINT_TEST_GAIN")))
environment("items of environ", lambda: float(dict(os.environ).get("ADJOINT_TEST_GAIN", "1")))
environment("environb", lambda: float(os.environb.get(b"ADJOINT_TEST_GAIN", b"1")))


def setting(name: str, function: Any, change: Any, back: Any) -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x: x * function())
        try:
            return calls(f, change)
        finally:
            back()

    program.__name__ = name
    table.add(program)


_event, _queue, _semaphore = threading.Event(), queue.Queue(), threading.Semaphore(3)  # type: ignore[var-annotated]
_lock, _condition = threading.Lock(), threading.Condition()
_context = contextvars.ContextVar("context", default=2.0)
_log = logging.getLogger("adjoint.tests.cases")
_here = os.getcwd()
setting(
    "a decimal context",
    lambda: float(decimal.Decimal(1) / decimal.Decimal(3)),
    lambda: setattr(decimal.getcontext(), "prec", 3),
    lambda: setattr(decimal.getcontext(), "prec", 28),
)
setting(
    "the precision",
    lambda: decimal.getcontext().prec,
    lambda: setattr(decimal.getcontext(), "prec", 3),
    lambda: setattr(decimal.getcontext(), "prec", 28),
)
setting("an event", lambda: 1.0 + _event.is_set(), _event.set, _event.clear)
setting("a queue", lambda: 1.0 + _queue.qsize(), lambda: _queue.put(1), lambda: _queue.get())
setting("an empty queue", lambda: 1.0 + _queue.empty(), lambda: _queue.put(1), lambda: _queue.get())
setting("a lock", lambda: 1.0 + _lock.locked(), _lock.acquire, _lock.release)
setting("a try of a lock", lambda: tried(_lock), _lock.acquire, _lock.release)
setting("a semaphore", lambda: _semaphore._value, _semaphore.acquire, _semaphore.release)
setting(
    "a context variable",
    lambda: _context.get(),
    lambda: _context.set(3.0),
    lambda: _context.set(2.0),
)
setting(
    "a copied context",
    lambda: contextvars.copy_context().get(_context, 1.0),
    lambda: _context.set(3.0),
    lambda: _context.set(2.0),
)
setting(
    "a log level",
    lambda: 1.0 + _log.isEnabledFor(logging.DEBUG),
    lambda: _log.setLevel(logging.DEBUG),
    lambda: _log.setLevel(logging.NOTSET),
)
setting(
    "the level itself",
    lambda: 1.0 + _log.level,
    lambda: _log.setLevel(logging.DEBUG),
    lambda: _log.setLevel(logging.NOTSET),
)
setting("the folder", lambda: len(os.getcwd()), lambda: os.chdir("/"), lambda: os.chdir(_here))
setting(
    "abspath", lambda: len(os.path.abspath("a")), lambda: os.chdir("/"), lambda: os.chdir(_here)
)
setting(
    "path cwd", lambda: len(str(pathlib.Path.cwd())), lambda: os.chdir("/"), lambda: os.chdir(_here)
)
setting("sys.argv", lambda: len(sys.argv), lambda: sys.argv.append("a"), lambda: sys.argv.pop())
setting(
    "sys.path",
    lambda: len(sys.path),
    lambda: sys.path.append("/nowhere"),
    lambda: sys.path.remove("/nowhere"),
)
setting(
    "the recursion limit",
    sys.getrecursionlimit,
    lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
    lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 7),
)
setting("gc.isenabled", lambda: 1.0 + gc.isenabled(), gc.disable, gc.enable)
setting(
    "gc.get_threshold",
    lambda: gc.get_threshold()[0] % 97,
    lambda: gc.set_threshold(701),
    functools.partial(gc.set_threshold, *gc.get_threshold()),
)
setting(
    "printoptions of NumPy",
    lambda: len(str(np.array([1 / 3]))),
    lambda: np.set_printoptions(precision=3),
    lambda: np.set_printoptions(precision=8),
)
setting(
    "the switch interval",
    sys.getswitchinterval,
    lambda: sys.setswitchinterval(0.01),
    lambda: sys.setswitchinterval(0.005),
)
setting("threads", threading.active_count, lambda: thread.start(), lambda: thread.end())
setting(
    "warning filters",
    lambda: len(warnings.filters),
    lambda: warnings.simplefilter("ignore", BytesWarning),
    lambda: None,
)
setting(
    "a signal handler",
    lambda: 1.0 + (signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN),
    lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
)
setting("umask", lambda: umask(), lambda: os.umask(0o77), lambda: os.umask(0o22))
setting(
    "python's random state",
    lambda: random.getstate()[1][0] % 97,
    lambda: random.seed(3),
    lambda: random.seed(0),
)
setting(
    "a thread's name",
    lambda: len(threading.current_thread().name),
    lambda: setattr(threading.current_thread(), "name", "MainThreadX"),
    lambda: setattr(threading.current_thread(), "name", "MainThread"),
)
setting(
    "the number of threads",
    lambda: ad.get_num_threads(),
    lambda: ad.set_num_threads(1),
    lambda: ad.set_num_threads(2),
)
setting(
    "deterministic algorithms",
    lambda: 1.0 + ad.are_deterministic_algorithms_enabled(),
    lambda: ad.use_deterministic_algorithms(True),
    lambda: ad.use_deterministic_algorithms(False),
)
setting("is_grad_enabled", lambda: 1.0 + ad.is_grad_enabled(), lambda: None, lambda: None)
setting(
    "the default dtype",
    lambda: 1.0 + (ad.get_default_dtype() == ad.float64),
    lambda: ad.set_default_dtype(ad.float64),
    lambda: ad.set_default_dtype(ad.float32),
)
setting(
    "the seed", lambda: ad.initial_seed() % 97, lambda: ad.manual_seed(5), lambda: ad.manual_seed(0)
)
setting("the locale", lambda: len(locale.localeconv()["decimal_point"]), lambda: None, lambda: None)

_done = threading.Event()


class _Threads:
    def start(self) -> None:
        _done.clear()
        self.one = threading.Thread(target=_done.wait, daemon=True)
        self.one.start()

    def end(self) -> None:
        _done.set()
        self.one.join()


thread = _Threads()


def tried(lock: Any) -> float:
    if lock.acquire(blocking=False):
        lock.release()
        return 2.0
    return 3.0


def umask() -> int:
    was = os.umask(0)
    os.umask(was)
    return was


FRESH = {
    "time": time.time_ns,
    "datetime": lambda: datetime.datetime.now().timestamp() + time.perf_counter(),
    "uuid": lambda: float(uuid.uuid4().int % 10**9),
    "secrets": lambda: float(secrets.randbits(30)),
    "urandom": lambda: float(int.from_bytes(os.urandom(4), "big")),
    "random.random": random.random,
    "random.uniform": lambda: random.uniform(0, 1),
    "map of random.uniform": lambda: next(map(random.uniform, [0.0], [1.0])),
    "random.gauss": lambda: random.gauss(0, 1),
    "random.choice": lambda: random.choice(range(10**6)),
    "a Random of one's own": random.Random(3).random,
    "SystemRandom": lambda: random.SystemRandom().random(),
    "np.random.rand": lambda: float(np.random.rand()),
    "np.random.default_rng": lambda: float(np.random.default_rng().random()),
    "a new object's address": lambda: float(id(object()) % 1009) + time.perf_counter(),
    "the number of a frame's line": lambda: inspect.currentframe().f_lineno + time.perf_counter(),  # type: ignore[union-attr]
}
for _name, _what in FRESH.items():

    def _program(compile: Compile, what: Any = _what) -> Any:
        return varies(compile(lambda x: x * 0 + what()))

    _program.__name__ = _name
    table.add(_program)


@table
def facts_of_the_machine(compile: Compile) -> Any:
    f = compile(lambda x: x * len(platform.python_version()) + len(socket.AF_INET.name))
    return calls(f)


@table
def who_is_there(compile: Compile) -> Any:
    f = compile(lambda x: x * len(getpass.getuser()) + os.getpid() % 7)
    return calls(f)


@table
def a_file_that_is_kept_open(compile: Compile) -> Any:
    with tempfile.TemporaryFile("w+") as file:
        file.write("123456789")
        file.seek(0)
        f = compile(lambda x: x * float(file.read(1)))
        return calls(f)


@table
def objects_found_by_the_collector(compile: Compile) -> Any:
    box = Box(a_marker_of_mine=2.0)
    f = compile(
        lambda x: (
            x
            * next(o for o in gc.get_objects() if type(o) is dict and "a_marker_of_mine" in o)[
                "a_marker_of_mine"
            ]
        )
    )
    return calls(f, lambda: setattr(box, "a_marker_of_mine", 3.0))


@table
def subclasses(compile: Compile) -> Any:
    class Base:
        pass

    kept = []
    f = compile(lambda x: x * (1 + len(Base.__subclasses__())))
    return calls(f, lambda: kept.append(type("Sub", (Base,), {})))


@table
def reference_counts(compile: Compile) -> Any:
    box, kept = Box(), []
    f = compile(lambda x: x * sys.getrefcount(box))
    found = [f(ad.ones(1)), f(ad.ones(1))]
    kept += [box] * 5
    return [bool((f(ad.ones(1)) >= found[1] + 4).all())]
