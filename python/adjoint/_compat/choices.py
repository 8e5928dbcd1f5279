"""Choices that PyTorch offers and adjoint has made: determinism, matmul precision, the device.

Results here depend neither on the number of threads nor on the run, products of float32 matrices
are computed in float32, and the device is the CPU. So the functions here keep what a program
has chosen, for those that ask, and change no result.
"""

from __future__ import annotations

from typing import Literal

from adjoint._tensor.arguments import require_flag
from adjoint._tensor.device import device as _device
from adjoint._tensor.device import require_cpu

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")

_mode = 0  # an index into _MODES
_precision = "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms, which adjoint always uses.

    Parameters
    ----------
    mode : bool
        What `are_deterministic_algorithms_enabled` answers from now on.
    warn_only : bool, optional
        What `is_deterministic_algorithms_warn_only_enabled` answers, if `mode` is True.

    Notes
    -----
    Nothing is refused and nothing warned about: every op gives the same result in every run, on any
    number of threads. Memory of `empty` is not filled, as PyTorch does in this mode.
    """
    global _mode
    require_flag("use_deterministic_algorithms", "mode", 1, mode)
    _mode = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether deterministic algorithms were asked for; adjoint uses them in any case."""
    return _mode != 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether they were asked for with ``warn_only=True``."""
    return _mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Ask for deterministic algorithms by number or name: 0 "default", 1 "warn", 2 "error"."""
    global _mode
    if not isinstance(debug_mode, int | str):
        raise TypeError(
            f"debug_mode must be str or int, but got {type(debug_mode).__name__}: {debug_mode!r}"
        )
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    _mode = debug_mode


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2: see `set_deterministic_debug_mode`."""
    return _mode


def set_float32_matmul_precision(precision: Literal["highest", "high", "medium"]) -> None:
    """Allow less than float32 inside float32 products; adjoint does not make use of it.

    Raises
    ------
    RuntimeError
        The name is none of the three.
    """
    global _precision
    if precision not in _PRECISIONS:
        raise RuntimeError(
            f"'{precision}' is not a valid precision for float32 matmul: use one of "
            + ", ".join(map(repr, _PRECISIONS))
        )
    _precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was last given, "highest" at first."""
    return _precision


def set_default_device(device: str | _device | None) -> None:
    """Choose where tensors are made: "cpu", or None for the same.

    Raises
    ------
    RuntimeError
        It is another device.
    """
    require_cpu(device)


def get_default_device() -> _device:
    """Return ``device("cpu")``."""
    return _device("cpu")
