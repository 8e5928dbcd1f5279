"""Where evaluations run: here, in threads, in processes, or on somebody's Executor.

A pool of ours is started at its first use and ends with the external that owns it. Whatever goes
wrong (an evaluation raises, a worker dies, one hangs, Ctrl-C), evaluations that have not started
are cancelled and a pool of processes is taken down with its processes. Read next: _journal.py.
"""

from __future__ import annotations

import collections
import concurrent.futures as cf
import contextlib
import importlib
import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint._apart import call_apart
from adjoint.numeric._errors import EvaluationError

from ._journal import clean_up, end_all, keep_journal

__all__ = ["Workers", "call", "check_workers"]

_IN_FLIGHT = 1024  # at most so many evaluations are submitted at once, to bound their memory
_TELLING = (cf.ThreadPoolExecutor, cf.ProcessPoolExecutor)
_PIECE = 0.2  # seconds after which a wait looks whether Ctrl-C was pressed
_function: Any = None  # in a worker process: the function that its pool was made for


def _install(function: Any, journal: str) -> None:
    global _function
    _function = function
    keep_journal(journal)
    # Ctrl-C reaches the whole group; only the parent acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(journal,), daemon=True).start()


def _end_with_parent(journal: str) -> None:
    """End this worker, and what the pool runs, once the process that made the pool is gone.

    A parent that was killed takes nothing down, and its workers would wait for work forever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    while os.getppid() == parent.pid:
        # Other workers may hold the other end of the sentinel: it alone is not enough.
        if multiprocessing.connection.wait([parent.sentinel], timeout=2.0):
            time.sleep(0.05)
    end_all()
    clean_up(journal)  # of workers that were killed
    os._exit(1)


def call(function: Any, args: list[Any], kwargs: dict[str, Any], mode: str) -> Any:
    """Call the function; the same in this process and in a worker.

    ``mode`` holds "t" if it takes tensors, "w" if it may write into its arguments, "c" if losing
    an imaginary part is an error.
    """
    if "t" in mode or "w" in mode:
        args, kwargs = _map(args, kwargs, mode)
    if "c" not in mode:
        return call_apart(function, args, kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        return call_apart(function, args, kwargs)


def _map(args: list[Any], kwargs: dict[str, Any], mode: str) -> tuple[Any, Any]:
    import adjoint

    leaves, spec = _tree.flatten((tuple(args), kwargs))
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, (np.ndarray, np.generic)) and "t" in mode:
            leaves[k] = adjoint.tensor(np.asarray(leaf))
        elif isinstance(leaf, np.ndarray):
            leaves[k] = leaf.copy()
    mapped: tuple[Any, Any] = _tree.unflatten(spec, leaves)
    return mapped


def _run(function: Any, args: list[Any], kwargs: dict[str, Any], mode: str, retries: int) -> Any:
    """What a worker runs; ``function`` is None in the processes of our own pool."""
    target = _function if function is None else function
    for left in range(retries, -1, -1):
        try:
            return call(target, args, kwargs, mode)
        except Exception:
            if not left:
                raise
    raise AssertionError("unreachable")


class _Task:
    """An evaluation that was submitted; with what, if it may have to be submitted again."""

    __slots__ = ("future", "given", "left", "where")

    def __init__(self, given: tuple[Any, ...], where: Callable[[], str], left: int) -> None:
        self.given, self.where, self.left = given, where, left
        self.future: Any = None

    def submit(self, executor: Any) -> None:
        with warnings.catch_warnings():
            # Since 3.12 a fork beside threads warns; the thread pool here is made for it.
            warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            self.future = executor.submit(_run, *self.given)
        if not self.left:
            self.given = ()

    def arrived(self) -> bool:
        future = self.future
        return bool(future.done() and not future.cancelled() and future.exception() is None)


class _Named:
    """A function that was decorated with `external`, whose name in its module is the external."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        external: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            external = getattr(external, part)
        return external.function(*args, **kwargs)


def _by_name(function: Any) -> Any:
    """What is sent in the place of a function: itself, or its name if pickle would not find it."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    found = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is function or getattr(found, "function", None) is not function:
        return function
    return _Named(str(module), name)


def check_workers(choice: Any, timeout: float | None) -> None:
    """Refuse what is not a choice of workers."""
    if isinstance(choice, bool) or not (
        choice is None
        or choice == "threads"
        or (isinstance(choice, int) and choice > 0)
        or hasattr(choice, "submit")
    ):
        raise ValueError(
            "workers= takes None (here, one after the other), a positive number of processes, "
            f"'threads', or a concurrent.futures.Executor; got {choice!r}"
        )
    if timeout is not None and choice is None:
        raise ValueError(
            f"timeout={timeout} needs workers: an evaluation in this process cannot be "
            "stopped. fix: workers=1 for one process"
        )


class Workers:
    """The choice made with ``workers=``."""

    def __init__(self, choice: Any, timeout: float | None) -> None:
        self.choice = choice
        self.timeout = timeout
        self.serial = choice is None
        self._pool: Any = None
        self._pid = 0
        self._lock = threading.Lock()
        self._finalizer: Any = None

    @property
    def count(self) -> int:
        """How many evaluations run at once, as far as it is known."""
        if self.choice is None:
            return 1
        if self.choice == "threads":
            return min(32, (os.cpu_count() or 1) + 4)
        if isinstance(self.choice, int):
            return self.choice
        return int(getattr(self.choice, "_max_workers", 0) or 1)

    def __reduce__(self) -> tuple[type, tuple[Any, float | None]]:
        return type(self), (self.choice, self.timeout)  # a copy has a pool of its own

    def _executor(self, function: Any) -> Any:
        if hasattr(self.choice, "submit"):
            return self.choice
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._start(function)
            return self._pool

    def _start(self, function: Any) -> None:
        journal = ""
        if self.choice == "threads":
            self._pool = cf.ThreadPoolExecutor(self.count, "adjoint-external")
        else:
            # Forked, so that lambdas, closures and loaded libraries are there without pickling.
            context = multiprocessing.get_context("fork")
            journal = tempfile.mkdtemp(prefix="adjoint-pool-")
            arguments = (function, journal)
            self._pool = cf.ProcessPoolExecutor(self.choice, context, _install, arguments)
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _take_down, self._pool, self._pid, journal)

    def close(self) -> None:
        """End the pool and its processes; the next evaluation starts another."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self._pool = None

    def stream(
        self,
        function: Any,
        points: Iterable[Any],
        mode: str,
        retries: int,
        name: str,
        meanwhile: Callable[[], None] | None = None,
    ) -> Generator[Any, None, None]:
        """Submit all points; yield the results in order.

        ``meanwhile`` is called here while the first evaluations run.
        """
        executor = self._executor(function)
        ours = executor is self._pool and isinstance(self.choice, int)
        sent = None if ours else _by_name(function)
        waiting: collections.deque[_Task] = collections.deque()
        source = iter(points)
        if isinstance(executor, cf.ProcessPoolExecutor):
            source = _sendable(sent, source, name)
        finished = False
        try:
            self._submit(executor, sent, source, waiting, mode, retries)
            if meanwhile is not None:
                meanwhile()
            while waiting:
                task = waiting[0]
                if task.left and self._lost(task.future, ours):
                    task.left -= 1
                    executor = self._once_more(function, executor, waiting)
                    continue
                yield self._result(task.future, task.where, name)
                waiting.popleft()
                self._submit(executor, sent, source, waiting, mode, retries)
            finished = True
        finally:
            if not finished:
                for task in waiting:
                    task.future.cancel()
                if executor is self._pool:
                    self.close()

    def _submit(
        self, executor: Any, sent: Any, source: Any, waiting: Any, mode: str, retries: int
    ) -> None:
        while len(waiting) < _IN_FLIGHT:
            point = next(source, None)
            if point is None:
                return
            args, kwargs, where = point
            task = _Task((sent, args, kwargs, mode, retries), where, retries)
            task.submit(executor)
            waiting.append(task)

    def _lost(self, future: Any, ours: bool) -> bool:
        """Wait; whether the evaluation hangs, or its worker has died (of a pool that can be)."""
        try:
            self._wait(future)
        except cf.TimeoutError:
            return not future.done()
        except cf.BrokenExecutor:
            return ours
        except Exception:
            return False  # the function's own error, which is raised where the result is taken
        return False

    def _once_more(self, function: Any, executor: Any, waiting: Iterable[_Task]) -> Any:
        """Submit again what is not there; to a new pool, if that one is ours to end."""
        stuck = next(iter(waiting))
        if executor is not self._pool or not isinstance(self.choice, int):
            stuck.submit(executor)
            return executor
        self.close()
        executor = self._executor(function)
        for task in waiting:
            if task is stuck or not task.arrived():
                task.submit(executor)
        return executor

    def _result(self, future: Any, where: Any, name: str) -> Any:
        try:
            return self._wait(future)
        except cf.TimeoutError as error:
            if future.done() and future.exception() is error:
                raise EvaluationError(f"{name} failed at {where()}: {error!r}", where()) from error
            stuck = self.choice == "threads" or hasattr(self.choice, "submit")
            note = "; it may still run: only the processes of workers=<int> are ended"
            hung = EvaluationError(
                f"{name} did not return within timeout={self.timeout} s at {where()}"
                f"{note if stuck else ' and was ended'}",
                where(),
            )
            hung.timed_out = True
            raise hung from None
        except cf.BrokenExecutor as error:
            raise EvaluationError(
                f"a worker process died while {name} was evaluated at {where()}, or at a point "
                "submitted with it (killed, out of memory, or a crash in native code)",
                where(),
            ) from error
        except cf.CancelledError as error:
            raise EvaluationError(f"the evaluation of {name} at {where()} was cancelled") from error
        except Exception as error:
            if _cannot_pickle(error):
                raise _unsendable(name, error, where) from error
            raise EvaluationError(
                f"{name} failed at {where()}: {type(error).__name__}: {error}", where()
            ) from error

    def _wait(self, future: Any) -> Any:
        """The result, or TimeoutError after the time limit of an evaluation."""
        limit = self._patience(future)
        end = float("inf") if limit is None else time.monotonic() + limit
        while True:
            # In pieces: a signal that comes just before a lock is waited for does not end the wait.
            left = end - time.monotonic()
            try:
                return future.result(min(_PIECE, max(left, 0.0)))
            except cf.TimeoutError:
                if future.done():
                    return future.result()  # perhaps that of the function itself
                if left <= _PIECE:
                    raise

    def _patience(self, future: Any) -> float | None:
        """The time limit of an evaluation runs from its start, not from its submission."""
        if self.timeout is None:
            return None
        # Not all executors tell that it has started (Dask's does not): there it has to start in as
        # much time again, since all that were submitted before it are done.
        tells = self._pool is not None or isinstance(self.choice, _TELLING)
        end = float("inf") if tells else time.monotonic() + self.timeout
        while not future.running() and not future.done() and time.monotonic() < end:
            time.sleep(0.002)
        return self.timeout


def _sendable(function: Any, points: Iterator[Any], name: str) -> Iterator[Any]:
    """The points. The first is pickled here: a process pool may hang on what it cannot pickle."""
    first = next(points, None)
    if first is None:
        return
    args, kwargs, where = first
    try:
        # Not `dumps`, which would wait for somebody to receive what it hands over.
        ForkingPickler(io.BytesIO()).dump((function, args, kwargs))
    except Exception as error:
        raise _unsendable(name, error, where) from error
    yield first
    yield from points


def _unsendable(name: str, error: BaseException, where: Callable[[], Any]) -> EvaluationError:
    return EvaluationError(
        f"{name} cannot be sent to the workers: {error}\n  fix: define it at the top "
        "level of a module, or use workers=<int> (which sends arguments only) or 'threads'",
        where(),
    )


def _cannot_pickle(error: BaseException) -> bool:
    import pickle

    text = str(error)
    return isinstance(error, pickle.PicklingError) or "pickle" in text


def _take_down(pool: Any, pid: int, journal: str) -> None:
    """End a pool: cancel what waits, kill the processes and what they run, wait for them."""
    if os.getpid() != pid:
        return  # a forked child owns none of this
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with contextlib.suppress(Exception):
            process.kill()
    for process in processes:
        with contextlib.suppress(Exception):
            process.join(5)
    if journal:
        clean_up(journal)  # Note [The journal of a pool]
