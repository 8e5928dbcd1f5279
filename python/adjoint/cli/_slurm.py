"""`adjoint launch` in an allocation of Slurm's: srun starts the ranks."""

from __future__ import annotations

import importlib
import os
import subprocess

__all__ = ["is_task", "srun"]


def is_task() -> bool:
    """Whether ``srun -n 4 adjoint launch script.py`` has started this process as one of several."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "")
    return "SLURM_PROCID" in os.environ and tasks.isdigit() and int(tasks) > 1


def srun(count: int) -> list[str]:
    """The command that starts `count` processes of the command that follows it."""
    command = ["srun", "--ntasks", str(count), "--kill-on-bad-exit=1", "--unbuffered"]
    if "SLURM_MPI_TYPE" not in os.environ and (plugin := _plugin()):
        command.append(f"--mpi={plugin}")
    return command


def _plugin() -> str | None:
    """How srun has to speak to the MPI that mpi4py loads; None leaves it to Slurm's default."""
    try:
        importlib.import_module("mpi4py").rc.initialize = False
        library = importlib.import_module("mpi4py.MPI").Get_library_version()
    except (ImportError, RuntimeError):  # the ranks will say so
        return None
    wanted = "pmix" if library.startswith("Open MPI") else "pmi2"
    return wanted if wanted in _plugins() else None


def _plugins() -> list[str]:
    """Those that this Slurm was built with."""
    said = subprocess.run(
        ["srun", "--mpi=list"], capture_output=True, text=True, timeout=30, check=False
    )
    return (said.stdout + said.stderr).replace(",", " ").split()
