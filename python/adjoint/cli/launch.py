"""`adjoint launch -n 4 script.py [args...]`: run a program as several ranks of MPI.

``mpiexec`` (in an allocation of Slurm's, ``srun``) starts the processes, each a `_rank.py`; a
process that srun has started is a rank itself.
Read next: _ranks.py, which watches them; docs/guides/distributed.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from adjoint import _mpiexec, _srun
from adjoint.cli import _slurm

_USAGE = (
    "adjoint launch [-h] [-n RANKS] [--prefix | --no-prefix] [--mpiexec COMMAND] "
    "(script.py | -m module | -c code) [args ...]"
)


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "launch",
        help="run a program as several ranks of MPI",
        usage=_USAGE,
        description="Run a program in which `import torch` means adjoint as several processes that "
        "torch.distributed joins. If one fails, its error is shown and all are stopped. The status "
        "is that of the first rank to fail.",
    )
    parser.add_argument(
        "-n",
        "-np",
        "--nproc-per-node",
        "--nproc_per_node",
        dest="ranks",
        metavar="RANKS",
        help="how many processes (the number of cores)",
    )
    parser.add_argument(
        "--prefix",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="begin each line of output with the rank (if it goes to a terminal)",
    )
    parser.add_argument("--mpiexec", metavar="COMMAND", help="what starts them, with its options")
    for name in ("nnodes", "master-addr", "master-port", *_OF_TORCHRUN):
        options = {f"--{name}", f"--{name.replace('-', '_')}"}
        kind = "store_true" if f"--{name}" in _FLAGS else "store"
        parser.add_argument(*sorted(options), action=kind, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute, program=[])


_FLAGS = ("--prefix", "--no-prefix", "--standalone", "--use-env", "--use_env", "-h", "--help")
# Taken so that its command lines serve; there is nothing to set.
_OF_TORCHRUN = (
    *("standalone", "use-env", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"),
    *("node-rank", "max-restarts", "monitor-interval", "start-method", "role", "local-addr"),
    *("log-dir", "redirects", "tee", "local-ranks-filter"),
)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The launcher's arguments, and those of the program, which begin with its name."""
    i = 0
    while i < len(arguments) and arguments[i].startswith("-") and arguments[i] not in ("-m", "-c"):
        i += 1 if arguments[i] in _FLAGS or "=" in arguments[i] else 2
    return list(arguments[:i]), list(arguments[i:])


def execute(arguments: argparse.Namespace) -> int:
    """Start the ranks, watch them, and return the status."""
    try:
        count = _count(arguments.ranks)
        program = _program(arguments)
        if _slurm.is_task():
            _check_tasks(arguments.ranks, count)
            return _become_rank(program)
        _check_machines(arguments.nnodes)
        command = _starter(arguments.mpiexec, count)
    except ValueError as error:
        print(f"adjoint launch: {error}\nusage: {_USAGE}", file=sys.stderr)
        return 2
    from adjoint.cli._ranks import Ranks

    prefix = sys.stdout.isatty() and count > 1 if arguments.prefix is None else arguments.prefix
    with Ranks(count, prefix) as ranks:
        rank = [sys.executable, "-m", "adjoint.cli._rank", *program]
        return ranks.run([*command, *rank], _environment(ranks.folder, count, arguments))


def _program(arguments: argparse.Namespace) -> list[str]:
    program: list[str] = arguments.program
    if not program:
        raise ValueError("nothing to run")
    if program[0] in ("-m", "-c") and len(program) < 2:
        raise ValueError(f"argument expected for {program[0]}")
    if not program[0].startswith("-") and not os.path.exists(program[0]):
        raise ValueError(f"cannot read '{program[0]}': No such file or directory")
    return program


def _count(given: str | None) -> int:
    if given in (None, "auto", "cpu", "gpu"):
        return len(os.sched_getaffinity(0))
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"-n is '{given}': it must be a number of processes, 1 or more")
    return int(given)


def _check_tasks(given: str | None, count: int) -> None:
    """Refuse a number of ranks that is not srun's."""
    if given is not None and given.isdigit() and count != _srun.tasks():
        raise ValueError(
            f"-n is {count}, but srun has started {_srun.tasks()} processes, each of which is a "
            f"rank; fix: srun -n {count} adjoint launch, or in a job without srun: adjoint launch "
            f"-n {count}"
        )


def _become_rank(program: list[str]) -> int:
    from adjoint.cli import _rank

    return _rank.main(program)


def _check_machines(given: str | None) -> None:
    """Refuse what would run on this machine alone; ``1:4`` of torchrun's may be one, too."""
    if given is not None and given.partition(":")[0] != "1":
        raise ValueError(
            f"--nnodes is '{given}': each machine would run ranks of its own; fix: once, on one "
            "machine, --mpiexec 'mpiexec --hostfile hosts' -n with the number of all ranks"
        )


def _starter(given: str | None, count: int) -> list[str]:
    """The command that starts `count` processes of the command that follows it."""
    import shlex

    if given:
        return [*shlex.split(given), "-n", str(count)]
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun") and (command := _slurm.srun(count)):
        return command
    if found := _mpiexec.find():
        return [found, "-n", str(count)]
    raise ValueError(_mpiexec.MISSING)


def _environment(folder: str, count: int, arguments: argparse.Namespace) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0))
    defaults = _mpiexec.OPEN_MPI | {
        # As torchrun: the cores are divided among the ranks rather than used by each.
        "OMP_NUM_THREADS": str(max(1, cores // count)),
        "MASTER_ADDR": arguments.master_addr or "127.0.0.1",
        "MASTER_PORT": arguments.master_port or str(_free_port()),
    }
    return {
        **defaults,
        **os.environ,
        "ADJOINT_LAUNCH_FOLDER": folder,
        "ADJOINT_LAUNCH_HOST": socket.gethostname(),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start mpiexec, which ends with this process, and out of reach of the terminal's Ctrl-C."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_mpiexec.end_with_parent,
    )
