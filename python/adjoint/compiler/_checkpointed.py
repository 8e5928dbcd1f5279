"""Compiled functions inside checkpoints.

A replay inside a checkpoint hands what it keeps for its backward part to the checkpoint, as
operations do, and is replayed once more when the checkpoint recomputes. Both runs have to save the
same, so the way of each call is noted, and taken again: a program that is made in between is not
used before the next call. Read next: _compile.py.
"""

from __future__ import annotations

import functools
from typing import Any

from adjoint import _core
from adjoint._recording import CheckpointedCalls

from ._recorded import Recorded

__all__ = ["call_checkpointed", "is_innermost"]

_EAGER, _APART = "eager", "apart"


def is_innermost(calls: CheckpointedCalls) -> bool:
    """Whether a checkpoint is all that is unusual here, and no other hooks are inside it."""
    return not _core._is_unusual_beside_saved_hooks() and _core._innermost_pack_hook() is calls.pack


def call_checkpointed(
    compiled: Any, calls: CheckpointedCalls, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a compiled function inside a checkpoint, or its recomputation.

    Parameters
    ----------
    compiled : Compiled
        The function.
    calls : CheckpointedCalls
        The ways that calls take.
    args, kwargs
        Its arguments.

    Returns
    -------
    object
        What the function returns.
    """
    kind, tensors, containers = compiled._sort(args, kwargs)
    if calls.again is None:
        way = _way(compiled, kind, tensors, containers)
        calls.ways.append(way)
    else:
        way = next(calls.again, _APART)
    if isinstance(way, Recorded):
        if not (way.accepts(tensors) and way.hold(tensors) and way.knows(containers)):
            raise RuntimeError(
                "a checkpoint runs a compiled function again, and what it depends on has changed "
                f"since the call: {way.mismatch(tensors) or 'a value that it reads'}.\n"
                "  fix: change it after the backward pass, or pass it as an argument"
            )
        return way(tensors)
    if way is _EAGER:
        return compiled.function(*args, **kwargs)
    # The first call is recorded, apart from the checkpoint: it keeps what it saves.
    return _core._without_saved_hooks(functools.partial(compiled, *args, **kwargs))


def _way(compiled: Any, kind: Any, tensors: list[Any], containers: list[Any]) -> Any:
    if kind in compiled._eager or compiled.verify:
        return _EAGER if kind in compiled._eager and not compiled.fullgraph else _APART
    return compiled._fitting(kind, tensors, containers) or _APART
