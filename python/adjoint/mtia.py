"""`torch.mtia`: there is no such device."""

from __future__ import annotations

from typing import Any

from adjoint._compat.absent_device import *  # noqa: F403
from adjoint._compat.absent_device import __all__ as __all__
from adjoint._missing import missing as _missing


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
