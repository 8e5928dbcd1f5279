"""Optimizers, and schedules for their learning rates.

Read next: `optimizer.py` for what they share; the update loops are in `src/kernels/isa/optim.cpp`.
"""

from adjoint.optim import lr_scheduler as lr_scheduler
from adjoint.optim.adam import Adam as Adam
from adjoint.optim.adamw import AdamW as AdamW
from adjoint.optim.optimizer import Optimizer as Optimizer
from adjoint.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
