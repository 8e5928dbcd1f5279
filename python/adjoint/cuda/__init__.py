"""There is no GPU here: what scripts ask before they choose a device, answered."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint._missing import watch as _watch

__all__ = ["current_device", "device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_device() -> NoReturn:
    """Raise: there is no CUDA device."""
    raise AssertionError("adjoint computes on the CPU only; torch.cuda.is_available() is False")


def manual_seed(seed: int) -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def manual_seed_all(seed: int) -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def synchronize(device: object = None) -> None:
    """Raise: there is no CUDA device."""
    current_device()


def empty_cache() -> None:
    """Do nothing: there is no GPU memory."""


def __getattr__(name: str) -> Any:
    if name == "amp":  # when it is asked for
        import importlib

        return importlib.import_module("adjoint.cuda.amp")
    from adjoint._missing import missing

    raise missing(__name__, name)


_watch(__name__)
