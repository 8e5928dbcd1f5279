"""Optimizers, and schedules for their learning rates.

Read next: `optimizer.py` for what they share; the formulas are in `src/kernels/optim/formulas.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch
from adjoint.optim import lr_scheduler as lr_scheduler
from adjoint.optim._adafactor import Adafactor as Adafactor
from adjoint.optim._muon import Muon as Muon
from adjoint.optim._stateless import (
    swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state,
)
from adjoint.optim.adadelta import Adadelta as Adadelta
from adjoint.optim.adagrad import Adagrad as Adagrad
from adjoint.optim.adam import Adam as Adam
from adjoint.optim.adamax import Adamax as Adamax
from adjoint.optim.adamw import AdamW as AdamW
from adjoint.optim.asgd import ASGD as ASGD
from adjoint.optim.lbfgs import LBFGS as LBFGS
from adjoint.optim.nadam import NAdam as NAdam
from adjoint.optim.optimizer import Optimizer as Optimizer
from adjoint.optim.radam import RAdam as RAdam
from adjoint.optim.rmsprop import RMSprop as RMSprop
from adjoint.optim.rprop import Rprop as Rprop
from adjoint.optim.sgd import SGD as SGD
from adjoint.optim.sparse_adam import SparseAdam as SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


if _TYPE_CHECKING:
    from adjoint.optim import swa_utils as swa_utils
else:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _Any:
        if name == "swa_utils":  # with all of nn: loaded at first use
            from importlib import import_module

            return import_module("adjoint.optim.swa_utils")
        raise _missing(__name__, name)


_watch(__name__)
