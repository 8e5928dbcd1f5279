"""There is no GPU here: what scripts ask before they choose a device, answered.

What PyTorch answers without a GPU is answered alike (0 bytes, no states of generators); what needs
one raises. Read next: `_absent`.
"""

from __future__ import annotations

from typing import Any

from adjoint._missing import watch as _watch
from adjoint.cuda._absent import AbsentClass as _AbsentClass
from adjoint.cuda._absent import no_gpu as _no_gpu
from adjoint.cuda.memory import empty_cache as empty_cache
from adjoint.cuda.memory import max_memory_allocated as max_memory_allocated
from adjoint.cuda.memory import max_memory_cached as max_memory_cached
from adjoint.cuda.memory import max_memory_reserved as max_memory_reserved
from adjoint.cuda.memory import mem_get_info as mem_get_info
from adjoint.cuda.memory import memory_allocated as memory_allocated
from adjoint.cuda.memory import memory_cached as memory_cached
from adjoint.cuda.memory import memory_reserved as memory_reserved
from adjoint.cuda.memory import memory_stats as memory_stats
from adjoint.cuda.memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from adjoint.cuda.memory import memory_summary as memory_summary
from adjoint.cuda.memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from adjoint.cuda.memory import reset_max_memory_allocated as reset_max_memory_allocated
from adjoint.cuda.memory import reset_max_memory_cached as reset_max_memory_cached
from adjoint.cuda.memory import reset_peak_memory_stats as reset_peak_memory_stats
from adjoint.cuda.memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from adjoint.cuda.random import get_rng_state as get_rng_state
from adjoint.cuda.random import get_rng_state_all as get_rng_state_all
from adjoint.cuda.random import initial_seed as initial_seed
from adjoint.cuda.random import manual_seed as manual_seed
from adjoint.cuda.random import manual_seed_all as manual_seed_all
from adjoint.cuda.random import seed as seed
from adjoint.cuda.random import seed_all as seed_all
from adjoint.cuda.random import set_rng_state as set_rng_state
from adjoint.cuda.random import set_rng_state_all as set_rng_state_all
from adjoint.cuda.streams import Event as Event
from adjoint.cuda.streams import ExternalStream as ExternalStream
from adjoint.cuda.streams import Stream as Stream
from adjoint.cuda.streams import StreamContext as StreamContext
from adjoint.cuda.streams import device as device
from adjoint.cuda.streams import device_of as device_of
from adjoint.cuda.streams import stream as stream

__all__ = ["current_device", "device_count", "is_available", "manual_seed", "manual_seed_all"]

has_half, has_magma = True, False
default_generators: tuple[Any, ...] = ()


class CUDAGraph(_AbsentClass):
    """Work of a GPU that is replayed; `adjoint.compile` replays work of the CPU."""


class graph(_AbsentClass):
    """A ``with`` block whose work on a GPU is recorded."""


def is_available() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False: there is no GPU that could."""
    return False


def is_tf32_supported() -> bool:
    """Return False: there is no GPU that could."""
    return False


def is_current_stream_capturing() -> bool:
    """Return False: there are no streams."""
    return False


def _is_compiled() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def get_arch_list() -> list[str]:
    """Return an empty list: the kernels are those of CPUs."""
    return []


def get_gencode_flags() -> str:
    """Return an empty text."""
    return ""


def set_stream(stream: Stream | None) -> None:
    """Do nothing for None; other streams there are none."""
    if stream is not None:
        _no_gpu()


current_device = current_stream = default_stream = synchronize = init = _no_gpu
get_device_name = get_device_properties = get_device_capability = set_device = _no_gpu
can_device_access_peer = ipc_collect = cudart = current_blas_handle = make_graphed_callables = (
    _no_gpu
)
get_sync_debug_mode = set_sync_debug_mode = _no_gpu
_lazy_init = _no_gpu


def __getattr__(name: str) -> Any:
    if name in ("amp", "nvtx"):  # when it is asked for
        import importlib

        return importlib.import_module(f"adjoint.cuda.{name}")
    if name == "OutOfMemoryError":
        import adjoint

        return adjoint.OutOfMemoryError
    from adjoint.cuda._tensor_types import of_name

    if (found := of_name(name)) is not None:
        globals()[name] = found
        return found
    from adjoint._missing import missing

    raise missing(__name__, name)


_watch(__name__)
