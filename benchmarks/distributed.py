"""Collective operations and data parallel steps on two processes, beside PyTorch's gloo.

`python -m benchmarks.distributed [--rounds N] [--smoke]` writes `benchmarks/DISTRIBUTED.md`. The
same program, `distributed_rank.py`, is run by `adjoint launch` and by torchrun, which take turns,
with two processes of one thread each. Figures are of the best round. `--smoke` measures adjoint
alone, shortly, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import adjoint
from benchmarks.harness import ROOT
from benchmarks.report import duration, machine, met_text

PROGRAM = ROOT / "benchmarks" / "distributed_rank.py"
HEADER = ("workload", "adjoint", "PyTorch", "sooner", "mark", "met")

Times = dict[str, float]


def run(command: list[str], *options: str) -> Times:
    """Run the program; what it printed."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ADJOINT_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(Path(adjoint.__file__).parent.parent),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command, str(PROGRAM), *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def ours(*options: str) -> Times:
    return run(["adjoint", "launch", "-n", "2"], *options)


def theirs() -> Times:
    port = 29500 + os.getpid() % 1000
    options = ["--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}"]
    return run(["torch.distributed.run", *options])


def best(rounds: list[Times]) -> Times:
    return {name: min(times[name] for times in rounds) for name in rounds[0]}


def rows(mine: Times, peer: Times) -> list[tuple[str, ...]]:
    """One line per workload."""
    return [
        (
            name,
            duration(seconds),
            duration(peer[name]),
            f"{peer[name] / seconds:.1f}×",
            "≥ 1×",
            met_text(seconds <= peer[name]),
        )
        for name, seconds in mine.items()
    ]


def markdown(lines: list[tuple[str, ...]], rounds: int, load: float) -> str:
    """The page."""
    from mpi4py import MPI

    library = MPI.Get_library_version().partition(",")[0].splitlines()[0]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    table = [HEADER, tuple("---" for _ in HEADER), *lines]
    return "\n".join(
        [
            "# Two processes\n",
            f"{about}\n",
            *(f"- {line}" for line in machine()),
            f"- MPI: {library}",
            f"- {date.today()}; best of {rounds} rounds; load of the machine at the start "
            f"{load:.1f}: other work ran beside it if this is above 1\n",
            *("| " + " | ".join(line) + " |" for line in table),
            "",
        ]
    )


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description="Two processes, beside PyTorch's gloo.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        print(ours("--smoke"))
        return
    load = os.getloadavg()[0]
    rounds = [(ours(), theirs()) for _ in range(arguments.rounds)]
    lines = rows(best([mine for mine, _ in rounds]), best([peer for _, peer in rounds]))
    page = markdown(lines, arguments.rounds, load)
    (ROOT / "benchmarks" / "DISTRIBUTED.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
