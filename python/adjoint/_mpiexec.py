"""The command that starts processes of MPI, and what it has to be told."""

from __future__ import annotations

import os
import shutil
import signal
import sys

__all__ = ["MISSING", "OPEN_MPI", "end_with_parent", "find"]

MISSING = (
    "there is no mpiexec; fix: pip install 'adjoint[mpi]', or install an MPI (Debian's openmpi-bin)"
)

# What Open MPI 4 and 5 need to know: root is allowed (containers), there may be more ranks than
# cores, threads of a rank may run on any core, and who waits lets others compute.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def find() -> str | None:
    """Its path, if there is one."""
    # An MPI that pip installed stands beside Python, and is the one mpi4py loads.
    beside = os.path.dirname(sys.executable)
    return shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Let the kernel end this process when the one that started it is gone (on Linux)."""
    import ctypes

    set_parent_death_signal = 1
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(set_parent_death_signal, number)
