"""The state of autocast in this thread, and its meaning for functions that are written with ops.

Ops are asked by C++ (src/dispatch/autocast.h); a function of Python that PyTorch treats as one op
says here what its operands become. The context managers are in amp/autocast_mode.py.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint import _core
from adjoint._core import Tensor, bfloat16, dtype, float16, float32, float64
from adjoint._tensor.arguments import require_flag

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "cast",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "in_float32",
    "in_lower_precision",
    "in_modes",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

# The bits of _core._autocast_modes().
ON, HALF, UNCACHED = 1, 2, 4
LOWER = (bfloat16, float16)

#: Device types that autocast knows. Besides the CPU there are none here: what is set for them is
#: kept and changes nothing.
DEVICE_TYPES = ("cpu", "cuda", "hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "xla", "xpu")
OTHER_TYPES = ("fpga", "hip", "ideep", "lazy", "meta", "mkldnn", "opencl", "opengl", "ve", "vulkan")


class _Elsewhere(threading.local):
    """What is set for devices other than the CPU."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, dtype] = {}


_elsewhere = _Elsewhere()


def device_type_of(device_type: str) -> str:
    """The device type itself, if it is the name of one."""
    if device_type not in DEVICE_TYPES and device_type not in OTHER_TYPES:
        known = "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy"
        raise RuntimeError(
            f"Expected one of {known}, vulkan, mps, meta, hpu, mtia, privateuseone device type at "
            f"start of device string: {device_type}"
        )
    return device_type


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether autocast is on for a type of device; without one, for CUDA, as in PyTorch."""
    kind = "cuda" if device_type is None else device_type_of(device_type)
    if kind == "cpu":
        return bool(_core._autocast_modes() & ON)
    return _elsewhere.enabled.get(kind, False)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turn autocast on or off for a type of device; one argument is the setting for CUDA."""
    if enabled is None:
        require_flag("set_autocast_enabled", "enabled", 1, device_type)
        device_type, enabled = "cuda", bool(device_type)
    if not isinstance(device_type, str):
        raise TypeError(
            f"set_autocast_enabled(): argument 'device_type' must be str, not {device_type!r}"
        )
    require_flag("set_autocast_enabled", "enabled", 2, enabled)
    if device_type_of(device_type) == "cpu":
        _set_mode(ON, enabled)
    else:
        _elsewhere.enabled[device_type] = enabled


def get_autocast_dtype(device_type: str) -> dtype:
    """Return the lower precision of a type of device."""
    if device_type_of(device_type) == "cpu":
        return float16 if _core._autocast_modes() & HALF else bfloat16
    if device_type in OTHER_TYPES:
        raise RuntimeError(f"autocast has no lower precision for the device type {device_type!r}")
    return _elsewhere.dtypes.get(device_type, float16)


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the lower precision of a type of device: bfloat16 or float16 on the CPU."""
    if not isinstance(dtype, _core.dtype):
        raise TypeError(f"dtype must be a torch.dtype (got {type(dtype).__name__})")
    if device_type_of(device_type) != "cpu":
        _elsewhere.dtypes[device_type] = dtype
        return
    if dtype not in LOWER:
        raise RuntimeError(
            f"CPU autocast only supports dtypes of torch.bfloat16, torch.float16, not {dtype}"
        )
    _set_mode(HALF, dtype == float16)


def is_autocast_cache_enabled() -> bool:
    """Return whether casts of weights are kept until the outermost context ends."""
    return not _core._autocast_modes() & UNCACHED


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of weights are kept until the outermost context ends."""
    require_flag("set_autocast_cache_enabled", "enabled", 1, enabled)
    _set_mode(UNCACHED, not enabled)


def _set_mode(bit: int, on: bool) -> None:
    modes = _core._autocast_modes()
    _core._set_autocast_modes(modes | bit if on else modes & ~bit)


def autocast_increment_nesting() -> int:
    """Count one more context; return how many there are."""
    return _core._add_autocast_nesting(1)


def autocast_decrement_nesting() -> int:
    """Count one context less; return how many are left."""
    return _core._add_autocast_nesting(-1)


@contextmanager
def in_modes(modes: int) -> Iterator[None]:
    """Run with the state that `_core._autocast_modes` returned earlier, and put it back."""
    before = _core._set_autocast_modes(modes)
    _core._add_autocast_nesting(1)
    try:
        yield
    finally:
        if _core._add_autocast_nesting(-1) == 0:
            _core.clear_autocast_cache()
        _core._set_autocast_modes(before)


# -- PyTorch's older names -------------------------------------------------------------------------


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.",
        DeprecationWarning,
        stacklevel=3,
    )


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on for the CPU."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turn autocast on or off for the CPU."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    require_flag("set_autocast_cpu_enabled", "enabled", 1, enabled)
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """Return the lower precision of the CPU."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Set the lower precision of the CPU."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """Return the lower precision that is set for CUDA."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Set the lower precision of CUDA."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


# -- functions that are written with ops -----------------------------------------------------------


def cast(value: Any, dtype: dtype) -> Any:
    """A tensor in a precision, if autocast may change its own; anything else as it is."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype == float64:
        return value
    return value.to(dtype)


def in_float32(*tensors: Any) -> tuple[Any, ...]:
    """Under autocast, the tensors in float32: for functions that PyTorch treats as one op."""
    if not _core._autocast_modes() & ON:
        return tensors
    return tuple(cast(one, float32) for one in tensors)


def in_lower_precision(*tensors: Any) -> tuple[Any, ...]:
    """Under autocast, the tensors in the lower precision."""
    modes = _core._autocast_modes()
    if not modes & ON:
        return tensors
    return tuple(cast(one, float16 if modes & HALF else bfloat16) for one in tensors)
