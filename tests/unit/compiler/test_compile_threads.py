"""What other threads do to a recorded run: nothing is missed, whatever they run meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler._walk import Walk
from tests.unit.compiler.walking import walked, x

scale = 2.0
go, done = threading.Lock(), threading.Lock()  # held but where a thread is to go on
LONG = 60.0


@ad.compiler.pure
def pause() -> None:
    """Let the other thread do what it has to do."""
    go.release()
    assert done.acquire(timeout=LONG)


def reads_after(t: Any, wait: bool) -> Any:
    if wait:
        pause()
    return t * scale


def recurs_after(t: Any, wait: bool, n: int = 1) -> Any:
    if wait and n:
        pause()
        factor = scale
        recurs_after(t, False, n - 1)
        return t * factor
    return t


def raises_after(t: Any, wait: bool) -> Any:
    def inner() -> Any:
        if wait:
            pause()
        raise ValueError(scale)

    try:
        inner()
    except ValueError as error:
        return t * error.args[0]


def yields_after(t: Any, wait: bool) -> Any:
    def numbers() -> Iterator[float]:
        if wait:
            pause()
        yield scale

    return t * next(numbers())


def loops_after(t: Any, wait: bool) -> Any:
    for k in range(3):
        if wait and k == 1:
            pause()
        if k == 2:
            t = t * scale
    return t


FUNCTIONS = [reads_after, recurs_after, raises_after, yields_after, loops_after]


@contextmanager
def meanwhile(f: Callable[[], Any]) -> Iterator[None]:
    """Run `f` in another thread where the block calls `pause`."""

    def serve() -> None:
        assert go.acquire(timeout=LONG)
        try:
            f()
        finally:
            done.release()

    go.acquire()
    done.acquire()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        go.release()
        done.release()


def others(f: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    return {
        "runs it": lambda: f(x(), False),
        "walks it": lambda: walked(f, x(), False),
        "walks and runs it": lambda: (walked(f, x(), False), f(x(), False)),
        "sets a trace function": lambda: sys.settrace(lambda *_: None),
        "ends a trace function": lambda: sys.settrace(None),
        "sets a profile function": lambda: sys.setprofile(lambda *_: None),
        "ends a profile function": lambda: sys.setprofile(None),
    }


@pytest.mark.parametrize("what", others(reads_after))
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_is_read_after_another_thread(
    f: Callable[..., Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is noticed whatever other threads do."""
    with meanwhile(others(f)[what]), Walk(f, ((x(), True), {})) as walk:
        f(x(), True)
    guards = walk.guards()
    monkeypatch.setattr(sys.modules[__name__], "scale", 3.0)
    assert not guards.hold()


def test_a_disturbed_recording_is_made_at_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(t: Any) -> Any:
        return reads_after(t, waiting[0])

    waiting = [True]
    g = ad.compile(f)
    with meanwhile(lambda: reads_after(x(), False)):
        assert ad.equal(g(x()), x() * 2)
    waiting[0] = False
    monkeypatch.setattr(sys.modules[__name__], "scale", 3.0)
    for _ in range(2):
        assert ad.equal(g(x()), x() * 3)
    assert len(g.programs) in (1, 2)
    monkeypatch.setattr(sys.modules[__name__], "scale", 4.0)
    assert ad.equal(g(x()), x() * 4)


def test_many_threads_call_a_function_for_the_first_time() -> None:
    g = ad.compile(lambda t: sum(((t * k).sin() for k in range(10)), start=t * scale))
    start = threading.Barrier(4)
    right: list[bool] = []

    def work() -> None:
        start.wait(LONG)
        right.extend(ad.equal(g(x()), g.function(x())) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right)
    assert len(right) == 4 * 20
