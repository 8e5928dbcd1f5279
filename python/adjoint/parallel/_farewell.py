"""Calls that a finalizer asks for, made by a thread of their own.

The garbage collector may run a finalizer anywhere, also inside of `submit` of the very executor
that it wants to tell something: the executor's lock is taken, and the thread would wait for itself.
Read `_map.py` first.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable

__all__ = ["call_soon", "prepare"]

# Of all queues only this one can be filled by a finalizer that interrupts its filling.
_calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
_process = 0  # in which the thread runs: a fork does not have it


def prepare() -> None:
    """Start the thread, if it does not run: not in a finalizer, where a thread cannot begin."""
    global _process
    if _process != os.getpid():
        _process = os.getpid()
        threading.Thread(target=_make_calls, name="adjoint-farewell", daemon=True).start()


def call_soon(call: Callable[[], object]) -> None:
    """Let the thread make this call; what it raises is of no interest any more."""
    _calls.put(call)


def _make_calls() -> None:
    while True:
        with contextlib.suppress(Exception):
            _calls.get()()
