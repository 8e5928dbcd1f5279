"""Running a statement often enough for the clock."""

from __future__ import annotations

import enum
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import adjoint as ad
from adjoint.utils.benchmark._measurement import Measurement, TaskSpec

# A block of runs takes so long at least that the clock adds a thousandth of it.
_OVERHEAD_SHARE = 1e-3


def timer() -> float:
    """The clock: what a call returns is done, so that there is nothing to wait for."""
    return time.perf_counter()


class Language(enum.Enum):
    """Of the statement; only Python runs here."""

    PYTHON = 0
    CPP = 1


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A ``with`` block in which kernels run on so many threads."""
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(n)
        yield
    finally:
        ad.set_num_threads(before)


class Timer:
    """Measure how long a statement takes, with as few threads as are asked for.

    Parameters
    ----------
    stmt, setup, global_setup
        Code: what is measured, and what runs before it.
    timer
        A clock, in seconds.
    globals
        The names that the code knows.
    label, sub_label, description, env
        What tables call it.
    num_threads
        Threads of adjoint's kernels.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import benchmark
    >>> m = benchmark.Timer("x.exp()", globals={"x": ad.ones(10)}).timeit(100)
    >>> m.number_per_run, len(m.raw_times), m.median > 0
    (100, 1, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(
                "Timer(language=...): adjoint has no C++ interface to measure.\n"
                "  fix: measure the Python call"
            )
        if global_setup:
            raise ValueError(
                "global_setup is C++, most likely #include statements; for Python use setup"
            )
        self._globals = dict(globals or {})
        self._globals.setdefault("torch", ad)
        stmt, setup = _unindented(stmt), _unindented(setup)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )
        self._clock = timer
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=self._globals)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One time, of so many runs, after a few to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuse, as PyTorch does: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> NoReturn:
        """Refuse, as PyTorch does: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How many runs make the cost of the clock small."""
        overhead = sorted(timeit.Timer("pass", timer=self._clock).timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead / taken <= _OVERHEAD_SHARE and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def _times(
        self,
        number: int,
        least: float,
        most: float,
        is_enough: Callable[[list[float]], bool],
        callback: Callable[[int, float], Any] | None,
    ) -> list[float]:
        times: list[float] = []
        total = 0.0
        while total < least or not is_enough(times):
            if total >= most:
                break
            taken = self._timeit(number)
            if callback is not None:
                callback(number, taken)
            times.append(taken)
            total += taken
        return times

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Several times, of as many runs each as the clock needs, `min_run_time` seconds in all."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._times(number, min_run_time, float("inf"), lambda t: len(t) > 0, callback)
            return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """The same until the quartiles are within `threshold` of the median, or time is up."""

        def is_enough(times: list[float]) -> bool:
            if len(times) < 4:
                return False
            return Measurement(1, times, self._task_spec).meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._times(number, min_run_time, max_run_time, is_enough, callback)
            return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, number: int = 100, **options: Any) -> NoReturn:
        """Refuse: instructions are counted by valgrind itself."""
        raise NotImplementedError(
            "Timer.collect_callgrind: adjoint does not drive valgrind.\n"
            "  fix: valgrind --tool=callgrind python script.py, or blocked_autorange() for times"
        )


def _unindented(code: str) -> str:
    return textwrap.dedent(code).strip("\n").rstrip() or "pass"
