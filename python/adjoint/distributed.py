"""`torch.distributed`: not available, and it says so as PyTorch without it does."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["init_process_group", "is_available", "is_initialized"]

_WHY = "adjoint computes in one machine's processes, without collective operations"
_FIX = (
    "guard the call by torch.distributed.is_available(); torch.multiprocessing.spawn with "
    "share_memory_() uses several processes, torch.set_num_threads several threads"
)


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


init_process_group = refused("distributed.init_process_group", _WHY, _FIX)
destroy_process_group = refused("distributed.destroy_process_group", _WHY, _FIX)
get_rank = refused("distributed.get_rank", _WHY, _FIX)
get_world_size = refused("distributed.get_world_size", _WHY, _FIX)
barrier = refused("distributed.barrier", _WHY, _FIX)
all_reduce = refused("distributed.all_reduce", _WHY, _FIX)
all_gather = refused("distributed.all_gather", _WHY, _FIX)
broadcast = refused("distributed.broadcast", _WHY, _FIX)
reduce = refused("distributed.reduce", _WHY, _FIX)


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
