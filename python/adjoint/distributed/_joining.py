"""Ranks that no launcher of MPI has started: `multiprocessing.spawn`, a shell, torchrun, bare srun.

They find each other as PyTorch's do, by a store at MASTER_ADDR and MASTER_PORT (those of srun by a
file). Then rank 0 starts mpiexec, whose processes are stand-ins (`_stand_in.py`): each hands its
place to the rank it stands for, which so is a process of MPI like any other, with its shared
memory. All on one machine.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from adjoint import _mpiexec, _srun
from adjoint.distributed._errors import DistBackendError, DistStoreError
from adjoint.distributed._stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["is_launched", "join", "store_for"]

# Which launcher a process has: those of Open MPI, of MPICH and its kin.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_OTHER_SIGNS = ("PMI_FD", "PMI_RANK", "PMIX_RANK")
_OF_LAUNCHERS = ("SLURM_", "PMI_", "PMIX_", "OMPI_COMM_WORLD_")  # begin their variables
_GRACE = 5.0  # seconds that whoever started the ranks has to end them when one was lost
_START = 60.0  # seconds for mpiexec to start
_LONGEST_PATH = 90  # of a socket's name, in bytes


def is_launched() -> bool:
    """Whether a launcher of MPI has started this process, with others."""
    if _srun.tasks() > 1 and not _can_use_srun():
        return False
    sizes = [os.environ[name] for name in _SIZES if os.environ.get(name)]
    if sizes:
        return any(size != "1" for size in sizes)
    return any(name in os.environ for name in _OTHER_SIGNS)


def _can_use_srun() -> bool:
    """Whether srun, or an mpiexec below it, has told this process what its MPI has to know."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ or not _srun.is_on_one_machine():
        return True  # on several machines nobody else can; `mpi` says what is missing
    from adjoint.distributed._library import is_open_mpi

    # Slurm's pmi2 means nothing to most builds of Open MPI, nor its pmix to MPICH's.
    return ("PMIX_RANK" if is_open_mpi() else "PMI_RANK") in os.environ


def store_for(init_method: str | None, rank: int, timeout: timedelta) -> Store:
    """Where the ranks find each other: ``env://``, ``tcp://host:port`` or ``file:///path``."""
    if init_method is None and _is_task_without_port():
        return FileStore(os.path.join(_srun.folder(), "store"))
    parts = urlsplit(init_method or "env://")
    if parts.scheme == "file":
        return FileStore(parts.path)
    if parts.scheme == "tcp" and parts.hostname and parts.port:
        host, port = parts.hostname, parts.port
    elif parts.scheme == "env":
        host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
        # torchrun's own store is at that port, and speaks PyTorch's language.
        port += os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    else:
        raise RuntimeError(
            f"No rendezvous handler for {init_method}; fix: env://, tcp://host:port or file:///path"
        )
    return TCPStore(host, port, is_master=rank == 0, timeout=timeout)


def _is_task_without_port() -> bool:
    """Whether srun has started this process, and nobody has said where ranks find each other."""
    is_rank_of_launch = os.environ.get("ADJOINT_SRUN_TASK") == str(os.getpid())
    return _srun.tasks() > 1 and (is_rank_of_launch or "MASTER_PORT" not in os.environ)


def _variable(name: str) -> str:
    if not os.environ.get(name):
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set\n  fix: start the script with "
            "`adjoint launch -n 2 script.py`, or set MASTER_ADDR and MASTER_PORT"
        )
    return os.environ[name]


def join(rank: int, size: int, store: Store, limit: timedelta) -> None:
    """Make this process a rank of MPI, as soon as all have come."""
    store = PrefixStore("adjoint", store)
    _await_all(store, rank, size, limit.total_seconds())
    if rank == 0:
        command = _mpiexec.find()
        store.set("mpiexec", command or "")
    if not store.get("mpiexec"):
        raise RuntimeError(_mpiexec.MISSING)
    with _Meeting(store, rank, size) as meeting:
        connection = meeting.take_place()
        _start_mpi()
        store.add("ready", 1)
        while rank == 0 and store.add("ready", 0) < size:  # the others still ask the store
            time.sleep(0.005)
    if rank == 0 and _is_task_without_port():
        _remove_step_store()
    _Stay(connection)


def _remove_step_store() -> None:
    folder = _srun.folder()
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "store"))
        os.rmdir(folder)  # unless the launcher's notes are there, too


def _await_all(store: Store, rank: int, size: int, seconds: float) -> None:
    host = socket.gethostname()
    if rank == 0:
        store.set("host", host)
    end = time.monotonic() + seconds
    store.add("came", 1)
    while (came := store.add("came", 0)) < size:
        if time.monotonic() > end:
            raise DistStoreError(
                f"Timed out after {seconds:g} seconds waiting for clients. {came}/{size} clients "
                "joined."
            )
        time.sleep(0.005)
    first = store.get("host").decode()
    if first != host:
        raise RuntimeError(
            f"rank 0 is on {first}, rank {rank} on {host}.\n  fix: on several machines start the "
            "ranks with `adjoint launch --mpiexec 'mpiexec --hostfile hosts'`, or by srun"
        )


def _start_mpi() -> None:
    from adjoint.distributed._library import mpi

    mpi()


class _Meeting:
    """Where stand-ins meet their ranks; a context, whose folder is gone after it."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._rank, self._size, self._store = rank, size, store
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Meeting:
        if self._rank == 0:
            short = len(tempfile.gettempdir()) < _LONGEST_PATH - 40
            folder = tempfile.mkdtemp(prefix="adjoint-join-", dir=None if short else "/tmp")
            self._store.set("folder", folder)
        self._folder = self._store.get("folder").decode()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(os.path.join(self._folder, str(self._rank)))
        self._door.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        if self._rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)

    def take_place(self) -> socket.socket:
        """Let mpiexec start when all doors are open; the connection to this rank's stand-in."""
        self._store.add("doors", 1)
        end = time.monotonic() + _START
        if self._rank == 0:
            while self._store.add("doors", 0) < self._size and time.monotonic() < end:
                time.sleep(0.002)
            self._process = self._start_stand_ins()
        self._door.settimeout(0.1)
        while time.monotonic() < end and (self._process is None or self._process.poll() is None):
            with contextlib.suppress(TimeoutError):
                connection, _ = self._door.accept()
                _enter(connection)
                return connection
        raise DistBackendError(f"mpiexec has not started the ranks.{self._complaint()}")

    def _start_stand_ins(self) -> subprocess.Popen[bytes]:
        program = str(Path(__file__).with_name("_stand_in.py"))
        python = [sys.executable, "-S", "-E", program, self._folder]
        # All ranks are here: neither a job's machines nor another launcher's places count.
        own = {k: v for k, v in os.environ.items() if not k.startswith(_OF_LAUNCHERS)}
        environment = _mpiexec.OPEN_MPI | own
        with open(os.path.join(self._folder, "said"), "wb") as said:
            return subprocess.Popen(
                [str(_mpiexec.find()), "-n", str(self._size), *python],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for the ranks
            )

    def _complaint(self) -> str:
        try:
            text = Path(self._folder, "said").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f" It says:\n{text}" if text else ""


def _enter(connection: socket.socket) -> None:
    """Take the variables and the open file that mpiexec has given to the stand-in."""
    connection.settimeout(_START)
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, 1)
    while not text.endswith(b"\n"):
        more = connection.recv(1 << 20)
        if not more:
            raise DistBackendError("mpiexec has ended before the ranks began")
        text += more
    place = json.loads(text)
    if files:
        place["PMI_FD"] = str(files[0])
    for name in [name for name in os.environ if name.startswith(_OF_LAUNCHERS[1:])]:
        del os.environ[name]
    os.environ.update(place)
    connection.settimeout(None)


class _Stay:
    """The connection to the stand-in, as long as this process is a rank."""

    def __init__(self, connection: socket.socket) -> None:
        # Open until the process is gone: MPICH speaks to mpiexec after Python's end, too.
        self._file = os.dup(connection.fileno())
        connection.close()
        # Of a process that multiprocessing has started, this runs before its exception is caught.
        multiprocessing.util.Finalize(None, self._leave, exitpriority=0)
        threading.Thread(target=self._watch, daemon=True).start()

    def _leave(self) -> None:
        """End well if this process does: the stand-in of one that is gone without a word fails."""
        from adjoint.distributed import _library

        error = sys.exc_info()[1]
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            _library.give_up_finalizing()
        elif _library.end_with_others():
            with contextlib.suppress(OSError):
                os.write(self._file, b".")

    def _watch(self) -> None:
        """End this process if the stand-in does: another rank was lost, and will be waited for."""
        with contextlib.suppress(OSError):
            os.read(self._file, 1)
        time.sleep(_GRACE)
        sys.stderr.write("torch.distributed: another rank has failed; this one ends, too\n")
        sys.stderr.flush()
        os._exit(1)
