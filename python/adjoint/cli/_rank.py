"""One process of `adjoint launch`: its number becomes torchrun's variables, then the program runs.

Read next: _ranks.py, the launcher's side; _peers.py, where there is none.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from adjoint import _srun
from adjoint.cli._folders import identity, note

if TYPE_CHECKING:
    from adjoint.cli._peers import Peers

# How mpiexec and srun tell a process its number: of Open MPI, of MPICH and Intel's, of Slurm.
_VARIABLES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
    "GROUP_RANK": ("OMPI_COMM_WORLD_NODE_RANK", "SLURM_NODEID"),
}


def main(program: Sequence[str]) -> int:
    """Run the program as this rank; the status."""
    _set_variables()
    rank = int(os.environ["RANK"])
    folder = _folder()
    if folder is not None:
        from adjoint._mpiexec import end_with_parent

        _begin_session()
        end_with_parent()
        _print_through_pipes(folder, rank)
        note(folder, f"started-{rank}", identity())
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    peers = _join_peers(rank) if folder is None else None
    folder = peers.folder if peers is not None else folder
    sys.excepthook = _FirstFailure(folder, rank, sys.excepthook)
    status = _run(program)
    if folder is not None:
        if status and claim(folder, rank, status):
            note(folder, "said", {})
        note(folder, f"ended-{rank}", {"status": status})
    if peers is not None:
        peers.leave()
    if status:
        _end_others(status)
    return status


def _run(program: Sequence[str]) -> int:
    from adjoint.cli import run

    try:
        return run.main(program) or 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1


def _set_variables() -> None:
    for name, places in _VARIABLES.items():
        found = next((os.environ[place] for place in places if os.environ.get(place)), None)
        default = {"LOCAL_RANK": "RANK", "LOCAL_WORLD_SIZE": "WORLD_SIZE"}.get(name)
        if found is None:
            found = os.environ[default] if default else "1" if name == "WORLD_SIZE" else "0"
        os.environ[name] = found
    is_task = _srun.tasks() > 1
    if is_task and "MASTER_PORT" not in os.environ:
        os.environ["ADJOINT_SRUN_TASK"] = str(os.getpid())  # the port is ours, not the user's
    os.environ.setdefault("MASTER_ADDR", _srun.first_machine() if is_task else "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(_srun.port()) if is_task else "29500")
    os.environ.setdefault("TORCHELASTIC_RUN_ID", "none")
    os.environ.setdefault("TORCHELASTIC_RESTART_COUNT", "0")
    os.environ.setdefault("TORCHELASTIC_MAX_RESTARTS", "0")
    for part in ("RANK", "WORLD_SIZE"):
        os.environ.setdefault(f"ROLE_{part}", os.environ[part])


def _folder() -> str | None:
    """Where this machine's launcher is met; None on another machine."""
    folder = os.environ.get("ADJOINT_LAUNCH_FOLDER")
    here = os.environ.get("ADJOINT_LAUNCH_HOST") == socket.gethostname()
    return folder if folder and here and os.path.isdir(folder) else None


def _join_peers(rank: int) -> Peers | None:
    """The other ranks of a step of srun's, to watch; None for those of mpiexec on many machines."""
    if _srun.tasks() == 1 or os.environ.get("SLURM_PROCID") != str(rank):
        return None
    from adjoint.cli._peers import Peers

    return Peers(rank)


def _begin_session() -> None:
    """Leave mpiexec's session: the kernel divides cores among sessions, and ranks are equals."""
    try:
        os.setpgid(0, os.getpgid(os.getppid()))  # who leads a group cannot begin a session
        os.setsid()
    except OSError:
        return


def _print_through_pipes(folder: str, rank: int) -> None:
    for name, number in (("out", 1), ("err", 2)):
        pipe = os.open(os.path.join(folder, f"{name}-{rank}"), os.O_WRONLY)
        os.dup2(pipe, number)
        os.close(pipe)


def claim(folder: str | None, rank: int, status: int, wait: bool = True) -> bool:
    """Whether this rank is the first to fail; the others keep quiet about what followed from it.

    They also let the first have its say before they go on, and end all ranks.
    """
    if folder is None:
        return True
    note(folder, f"failing-{rank}", {"rank": rank, "status": status})
    try:
        os.link(os.path.join(folder, f"failing-{rank}"), os.path.join(folder, "failed"))
    except OSError:
        if wait:
            wait_for(os.path.join(folder, "said"))
        return False
    return True


def wait_for(path: str, seconds: float = 5) -> None:
    """Wait until another rank has written it."""
    end = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.005)


class _FirstFailure:
    """An excepthook that shows the traceback of the first rank to fail."""

    def __init__(self, folder: str | None, rank: int, show: object) -> None:
        self._folder = folder
        self._rank = rank
        self._show = show

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        status = 130 if issubclass(kind, KeyboardInterrupt) else 1
        if claim(self._folder, self._rank, status):
            self._show(kind, error, trace)  # type: ignore[operator]
            sys.stderr.flush()
            if self._folder is not None:
                note(self._folder, "said", {})


def _end_others(status: int) -> None:
    """End the ranks that wait for this one, if it has joined them."""
    if "adjoint.distributed._library" in sys.modules and "mpi4py.MPI" in sys.modules:
        from adjoint.distributed import _library

        _library.abort(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
