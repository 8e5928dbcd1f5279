"""What Slurm's srun tells the processes of a step: how many there are, and where they can meet.

Whether it also tells them what MPI has to know depends on ``srun --mpi=``. Read next:
cli/_peers.py and distributed/_joining.py, which use this.
"""

from __future__ import annotations

import os
import stat
import tempfile
import zlib

__all__ = ["first_machine", "folder", "is_on_one_machine", "machines", "port", "tasks"]


def tasks() -> int:
    """How many processes the step of this one has; 1 if srun has not started it."""
    number = os.environ.get("SLURM_STEP_NUM_TASKS", "")
    return int(number) if "SLURM_PROCID" in os.environ and number.isdigit() else 1


def machines() -> str:
    """On how many machines they are, as text; empty if srun does not say."""
    return os.environ.get("SLURM_STEP_NUM_NODES", "")


def is_on_one_machine() -> bool:
    """Whether all of them are on this one."""
    return machines() == "1"


def first_machine() -> str:
    """The name of the machine of rank 0."""
    names = os.environ.get("SLURM_STEP_NODELIST", "")  # node1,node4, or node[01-04,9]-x
    if is_on_one_machine() or not names:
        return "127.0.0.1"
    start, bracket, rest = names.partition("[")
    if not bracket or "," in start:
        return start.partition(",")[0]
    numbers, _, after = rest.partition("]")
    return start + numbers.partition(",")[0].partition("-")[0] + after.partition(",")[0]


def port() -> int:
    """A port for rank 0 that another step on its machine will hardly have."""
    return 20000 + zlib.crc32(_identity().encode()) % 10000


def folder() -> str:
    """Where the processes of this step that are on this machine meet; made by the first."""
    path = os.path.join(tempfile.gettempdir(), f"{prefix()}{_identity()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise RuntimeError(
                f"{path}, where the processes of this step would meet, belongs to somebody else; "
                "fix: set TMPDIR to a folder of your own"
            ) from None
    return path


def prefix() -> str:
    """How the names of all folders begin that steps of this user have here."""
    return f"adjoint-step-{os.geteuid()}-"


def _identity() -> str:
    # Numbers of jobs begin again when a cluster is set up anew: the port of srun is another then.
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_PORT")
    return ".".join(os.environ.get(name, "0") for name in names)
