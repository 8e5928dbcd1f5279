"""Schedules: the learning rate as a function of the number of steps taken.

Read next: `_base.py`, then any of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint.optim.lr_scheduler._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from adjoint.optim.lr_scheduler._base import LRScheduler as LRScheduler
from adjoint.optim.lr_scheduler._base import _enable_get_lr_call as _enable_get_lr_call
from adjoint.optim.lr_scheduler._base import _format_param as _format_param
from adjoint.optim.lr_scheduler._base import _initial_mode as _initial_mode
from adjoint.optim.lr_scheduler._base import _LRScheduler as _LRScheduler
from adjoint.optim.lr_scheduler._base import _update_param_group_val as _update_param_group_val
from adjoint.optim.lr_scheduler._base import (
    _warn_get_lr_called_within_step as _warn_get_lr_called_within_step,
)
from adjoint.optim.lr_scheduler._cosines import CosineAnnealingLR as CosineAnnealingLR
from adjoint.optim.lr_scheduler._cosines import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from adjoint.optim.lr_scheduler._cyclic import CyclicLR as CyclicLR
from adjoint.optim.lr_scheduler._factors import ConstantLR as ConstantLR
from adjoint.optim.lr_scheduler._factors import ExponentialLR as ExponentialLR
from adjoint.optim.lr_scheduler._factors import LambdaLR as LambdaLR
from adjoint.optim.lr_scheduler._factors import LinearLR as LinearLR
from adjoint.optim.lr_scheduler._factors import MultiplicativeLR as MultiplicativeLR
from adjoint.optim.lr_scheduler._factors import MultiStepLR as MultiStepLR
from adjoint.optim.lr_scheduler._factors import PolynomialLR as PolynomialLR
from adjoint.optim.lr_scheduler._factors import StepLR as StepLR
from adjoint.optim.lr_scheduler._joined import ChainedScheduler as ChainedScheduler
from adjoint.optim.lr_scheduler._joined import SequentialLR as SequentialLR
from adjoint.optim.lr_scheduler._one_cycle import OneCycleLR as OneCycleLR
from adjoint.optim.lr_scheduler._plateau import ReduceLROnPlateau as ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
