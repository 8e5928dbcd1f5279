"""`adjoint launch` in an allocation of Slurm's: srun starts the ranks if it can speak to MPI."""

from __future__ import annotations

import os
import subprocess

from adjoint import _srun

__all__ = ["is_task", "srun"]


def is_task() -> bool:
    """Whether ``srun -n 4 adjoint launch script.py`` has started this process as one of several."""
    return _srun.tasks() > 1


def srun(count: int) -> list[str] | None:
    """The command that starts `count` processes of the command that follows it.

    None if it could not tell them what their MPI has to know; mpiexec can, in a job too.
    """
    command = ["srun", "--ntasks", str(count), "--kill-on-bad-exit=1", "--unbuffered"]
    if "SLURM_MPI_TYPE" in os.environ:
        return command
    plugin = _plugin()
    return [*command, f"--mpi={plugin}"] if _works(plugin) else None


def _plugin() -> str:
    """How srun has to speak to the MPI that mpi4py loads."""
    from adjoint.distributed import _library

    return "pmix" if _library.is_open_mpi() else "pmi2"


def _works(plugin: str) -> bool:
    """Whether this Slurm has it: one that is listed may lack its library (Debian's pmix does)."""
    try:
        said = subprocess.run(
            ["srun", "--mpi=list"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if plugin not in (said.stdout + said.stderr).replace(",", " ").split():
            return False
        tried = subprocess.run(
            ["srun", f"--mpi={plugin}", "--ntasks=1", "--test-only", "true"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "Invalid MPI type" not in tried.stderr
