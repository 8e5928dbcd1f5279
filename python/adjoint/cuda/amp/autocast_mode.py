"""`autocast` for GPUs, which are not there, by its older name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint._core import dtype, float16
from adjoint.amp import autocast_mode

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(autocast_mode.autocast):
    """``adjoint.autocast("cuda", ...)``, by its older name."""

    def __init__(
        self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Any:
    """``adjoint.amp.custom_fwd(..., device_type="cuda")``, by its older name."""
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """``adjoint.amp.custom_bwd(..., device_type="cuda")``, by its older name."""
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
