"""The memory of a GPU: there is none, so nothing of it is in use."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from adjoint.cuda._absent import no_gpu

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def empty_cache() -> None:
    """Do nothing: there is no GPU memory."""


def memory_allocated(device: Any = None) -> int:
    """Return 0."""
    return 0


max_memory_allocated = max_memory_cached = max_memory_reserved = memory_allocated
memory_cached = memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return no figures."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return no figures."""
    return {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Say that there is nothing to tell of."""
    return "no CUDA device: adjoint computes on the CPU"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: there are no figures."""


reset_accumulated_memory_stats = reset_peak_memory_stats
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
mem_get_info = set_per_process_memory_fraction = no_gpu
