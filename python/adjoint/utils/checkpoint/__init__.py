"""Checkpointing: memory for time.

A checkpointed call keeps its inputs and nothing of what it computes on the way; backward runs it
once more for the values it needs.

- ``_call.py`` - `checkpoint` and `checkpoint_sequential`
- ``_frame.py`` - the default way: saved values become promises that a recomputation keeps
- ``_reentrant.py`` - the old way: a backward pass within the backward pass
- ``_selective.py`` - results that a policy chooses are kept after all
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing

from ._call import checkpoint as checkpoint
from ._call import checkpoint_sequential as checkpoint_sequential
from ._frame import CheckpointError as CheckpointError
from ._frame import set_checkpoint_debug_enabled as set_checkpoint_debug_enabled
from ._frame import set_checkpoint_early_stop as set_checkpoint_early_stop
from ._reentrant import check_backward_validity as check_backward_validity
from ._reentrant import detach_variable as detach_variable
from ._selective import CheckpointPolicy as CheckpointPolicy
from ._selective import SelectiveCheckpointContext as SelectiveCheckpointContext
from ._selective import (
    create_selective_checkpoint_contexts as create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
