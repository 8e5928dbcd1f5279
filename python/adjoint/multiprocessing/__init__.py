"""Processes that share tensors: the names of Python's own ``multiprocessing``, and `spawn`.

A tensor in the arguments of a process, or sent through a queue, a pipe or a pool, arrives on the
same memory (`Tensor.share_memory_`), with the names from here as with those of Python's module.
"""

from __future__ import annotations

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403
from typing import Any

from adjoint._missing import watch as _watch
from adjoint.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_standard.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGIES = ("file_descriptor", "file_system")
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """What `set_sharing_strategy` was given last."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Keep the name of a strategy. Memory is shared through file descriptors in any case."""
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise ValueError(
            f"unknown sharing strategy {new_strategy!r}; there are {', '.join(_STRATEGIES)}"
        )
    _strategy = new_strategy


def __getattr__(name: str) -> Any:
    if name == "reductions":  # when it is asked for
        import importlib

        return importlib.import_module("adjoint.multiprocessing.reductions")
    if name.startswith("__") or not hasattr(_standard, name):
        from adjoint._missing import missing

        raise missing(__name__, name)
    return getattr(_standard, name)


_watch(__name__)
