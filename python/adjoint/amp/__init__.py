"""Mixed precision under the names of ``torch.amp``: `autocast`, `GradScaler`, custom functions.

Which precision an op takes is said in its block (`Autocast` in src/dispatch/facts.h); the guide on
mixed precision has the lists. Read next: autocast_mode.py.
"""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)


_watch(__name__)
