"""Optimizers, and schedules for their learning rates.

Read next: `optimizer.py` for what they share; the update loops are in `src/kernels/isa/optim.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint.optim import lr_scheduler as lr_scheduler
from adjoint.optim.adam import Adam as Adam
from adjoint.optim.adamw import AdamW as AdamW
from adjoint.optim.optimizer import Optimizer as Optimizer
from adjoint.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
