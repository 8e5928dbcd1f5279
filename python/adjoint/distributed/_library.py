"""MPI in this process: its start and its end, and its functions by their addresses.

mpi4py finds and loads the library, and has the communicators. The calls that move data are made by
address (``src/bindings/interop/foreign_calls.cpp``), so that a thread can make them without the
GIL. Blocking ``MPI_X(..., comm)`` and ``MPI_Ix(..., comm, request)`` take the same arguments.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from types import ModuleType, TracebackType
from typing import Any

from adjoint import _srun

__all__ = [
    "FEW",
    "abort",
    "address",
    "before_end",
    "end_with_others",
    "give_up_finalizing",
    "is_installed",
    "is_open_mpi",
    "is_started",
    "mpi",
]

_FIX = "fix: pip install 'adjoint[mpi]', or mpi4py for an MPI that this machine has"

FEW = 8  # ranks that exchange with each other directly
_may_finalize = True
_last_calls: list[Callable[[], None]] = []


@cache
def is_installed() -> bool:
    """Whether there is an mpi4py; the library behind it is loaded when a group is made."""
    return importlib.util.find_spec("mpi4py") is not None


def is_started() -> bool:
    """Whether this process is one of MPI's already."""
    return "mpi4py.MPI" in sys.modules and bool(sys.modules["mpi4py.MPI"].Is_initialized())


@cache
def _load() -> Any:
    """``mpi4py.MPI``, not started if nobody has."""
    if not is_installed():
        raise RuntimeError(f"torch.distributed needs mpi4py, which is not installed.\n  {_FIX}")
    if "mpi4py.MPI" not in sys.modules:
        settings = importlib.import_module("mpi4py").rc
        settings.initialize = False
        # The end is ours: an MPI_Finalize after a failure would wait for ranks that never come.
        settings.finalize = False
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"mpi4py finds no MPI library: {error}\n  {_FIX}") from error


def is_open_mpi() -> bool:
    """Whether the MPI that mpi4py loads is Open MPI; False if there is none."""
    try:
        return bool(_load().Get_library_version().startswith("Open MPI"))
    except RuntimeError:  # whoever needs it will say so
        return False


@cache
def mpi() -> Any:
    """``mpi4py.MPI``, started."""
    found = _load()
    before = _shared_files()
    if not found.Is_initialized():
        _refuse_silent_srun()
        _prepare_settings()
        found.Init_thread(found.THREAD_MULTIPLE)
    _note_shared_files(_shared_files() - before)
    atexit.register(_end)
    _watch_failures(found)
    return found


def _refuse_silent_srun() -> None:
    """Raise where srun tells the ranks nothing of each other: MPI would end with a long text."""
    if _srun.tasks() > 1 and not any(name.startswith("PMI") for name in os.environ):
        raise RuntimeError(
            f"srun has started {_srun.tasks()} processes on {_srun.machines() or 'some'} machines "
            "without an MPI.\n  fix: srun --mpi=pmix (for Open MPI) or --mpi=pmi2 (for MPICH), or "
            "`adjoint launch` in the job, which asks for it"
        )


def _prepare_settings() -> None:
    """What Open MPI reads when it starts, where the user has not said otherwise."""
    # A rank that waits lets others compute, among them the threads of its own process.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    # Of few ranks, all exchange with all: one round for two, where the default makes two.
    if (size := os.environ.get("OMPI_COMM_WORLD_SIZE", "")).isdigit() and int(size) <= FEW:
        os.environ.setdefault("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3")


def _shared_files() -> set[str]:
    """Shared memory of this process that has a name (on Linux)."""
    try:
        with open("/proc/self/maps") as maps:
            return {line.split()[5] for line in maps if " /dev/shm/" in line}
    except OSError:
        return set()


def _note_shared_files(files: set[str]) -> None:
    """Tell the launcher what MPI has made: of ranks that are killed, MPICH's would stay forever."""
    folder = os.environ.get("ADJOINT_LAUNCH_FOLDER", "")
    if files and os.path.isdir(folder):
        # Where a rank has failed meanwhile, the folder is being removed.
        with (
            contextlib.suppress(OSError),
            open(os.path.join(folder, f"shared-{os.getpid()}"), "w") as file,
        ):
            file.write("\n".join(files))


def before_end(call: Callable[[], None]) -> None:
    """Let a call be made before this rank waits for the end of the others."""
    _last_calls.append(call)


def _end() -> None:
    library = mpi()
    for call in _last_calls:
        call()
    if library.Is_initialized() and not library.Is_finalized() and _may_finalize:
        library.Finalize()


def end_with_others() -> bool:
    """Let all ranks end at once, however long that takes, without a core; whether this is over."""
    library = mpi()
    if not library.Is_finalized():
        if not _may_finalize:
            return False
        meeting = library.COMM_WORLD.Ibarrier()
        while not meeting.Test():
            time.sleep(0.002)
        library.Finalize()
    return True


def give_up_finalizing() -> None:
    """Leave without MPI_Finalize: some call will never be over."""
    global _may_finalize
    _may_finalize = False


def _watch_failures(library: ModuleType) -> None:
    """Let an exception that nobody catches end all ranks: the others would wait for this one."""
    show = sys.excepthook

    def show_and_abort(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        show(kind, error, traceback)
        abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = show_and_abort


def abort(status: int) -> None:
    """End all ranks with this one; alone, do nothing."""
    library = mpi()
    if library.Is_initialized() and not library.Is_finalized():
        if library.COMM_WORLD.Get_size() > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            if "ADJOINT_LAUNCH_FOLDER" in os.environ:
                # The launcher says what happened; MPICH would say that there was an abort.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            library.COMM_WORLD.Abort(status)
        give_up_finalizing()


@cache
def address(name: str) -> int:
    """Where a function of the library is."""
    library = ctypes.CDLL(str(mpi().__file__))  # looks in what that is linked with, too
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found
