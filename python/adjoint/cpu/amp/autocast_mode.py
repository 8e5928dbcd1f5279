"""`autocast` for the CPU, by its older name."""

from __future__ import annotations

import warnings

from adjoint._core import bfloat16, dtype
from adjoint.amp import autocast_mode

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """``adjoint.autocast("cpu", ...)``, by its older name."""

    def __init__(
        self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
