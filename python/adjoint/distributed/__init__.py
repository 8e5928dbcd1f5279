"""`torch.distributed` on MPI: several processes compute together.

``adjoint launch -n 4 script.py`` starts them. Without mpi4py ``is_available()`` is False, and
calls say what to install. Read next: _world.py, who is there; _group.py, how calls are made;
docs/guides/distributed.md.
"""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

from ._collectives import (
    all_reduce,
    all_reduce_coalesced,
    barrier,
    broadcast,
    monitored_barrier,
    reduce,
)
from ._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from ._gathering import (
    all_gather,
    all_gather_into_tensor,
    all_to_all,
    all_to_all_single,
    gather,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from ._grad_bucket import GradBucket
from ._group import ProcessGroup
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._reduce_op import ReduceOp
from ._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from ._work import Work
from ._world import (
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "split_group",
]

reduce_op = ReduceOp


class Backend(str):
    """The name of a backend, in lower case."""

    GLOO = "gloo"
    MPI = "mpi"
    NCCL = "nccl"
    UNDEFINED = "undefined"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return is_available()


def is_gloo_available() -> bool:
    """Whether mpi4py is installed: the backend ``gloo`` is MPI, too."""
    return is_available()


def is_nccl_available() -> bool:
    """False: it is for GPUs."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether a backend of this name can be used."""
    return backend.lower() in ("mpi", "gloo") and is_available()


def is_torchelastic_launched() -> bool:
    """Whether a launcher has started this process, ``adjoint launch`` or torchrun."""
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """``"gloo"``."""
    return "gloo"


_PARTS = ("algorithms", "checkpoint", "distributed_c10d", "elastic", "nn", "optim")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        import importlib

        return importlib.import_module(f"adjoint.distributed.{name}")
    raise _missing(__name__, name)


_watch(__name__)
