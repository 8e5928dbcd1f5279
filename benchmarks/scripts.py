"""Whole programs, import included: how long they take, and how much memory, beside PyTorch.

`python -m benchmarks.scripts [--only NAME] [--rounds N] [--write]`. Each script of
`tests/programs/scripts` is run, unmodified, as a process of its own: by `adjoint run` and by Python
with PyTorch, which take turns, with one thread. What they print is compared by the tests. Figures
are wall seconds and the peak of the resident memory, of the best round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

import adjoint
from benchmarks.harness import ROOT
from benchmarks.report import duration, machine, met_text

FOLDER = ROOT / "tests" / "programs" / "scripts"
HEADER = ("script", "adjoint", "PyTorch", "sooner", "peak", "PyTorch's", "mark", "met")
SMALL_MARK, MARK = 3.0, 1.0


# A process is charged with the memory of the one that starts it: a small one does, and measures.
STARTER = """
import os, sys, time
start = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.executable, sys.argv[1:], os.environ), 0)
print(time.perf_counter() - start, used.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Run:
    """One process: wall seconds, and bytes at its peak."""

    seconds: float
    peak: float


def run(command: Sequence[str], folder: str) -> Run:
    """Run Python with these arguments; raise if it fails."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ADJOINT_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(adjoint.__file__).parent.parent),  # the same from any folder
        # As an installed package has it: modules are compiled once, not by every process.
        "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "adjoint-benchmarks-bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", STARTER, sys.executable, *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=environment,
    )
    seconds, peak, status = map(float, done.stdout.splitlines()[-1].split())
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status:g}: {done.stderr}")
    return Run(seconds, peak * (1 if sys.platform == "darwin" else 1024))


def compare(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> tuple[Run, Run]:
    """The best round of each; the two take turns."""
    found: tuple[list[Run], list[Run]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        for command in (ours, theirs):
            run(command, folder)  # compiles bytecode, and reads what is on the disk
        for _ in range(rounds):
            for command, runs in zip((ours, theirs), found, strict=True):
                runs.append(run(command, folder))
    a, b = (Run(min(r.seconds for r in runs), min(r.peak for r in runs)) for runs in found)
    return a, b


def row(name: str, ours: Run, theirs: Run, mark: float) -> tuple[str, ...]:
    sooner = theirs.seconds / ours.seconds
    met = sooner >= mark and ours.peak <= theirs.peak
    return (
        name,
        duration(ours.seconds),
        duration(theirs.seconds),
        f"{sooner:.1f}×",
        f"{ours.peak / 1e6:.0f} MB",
        f"{theirs.peak / 1e6:.0f} MB",
        f"≥ {mark:g}×, peak ≤",
        met_text(met),
    )


def measured(scripts: Sequence[Path], rounds: int, console: Console) -> list[tuple[str, ...]]:
    """A row for the imports alone, one for each script, one for the middle of them."""
    with console.status("import"):
        ours, base = compare(["-c", "import adjoint"], ["-c", "import torch"], rounds)
    rows = [row("import alone", ours, base, SMALL_MARK)]
    ratios = []
    for path in scripts:
        with console.status(path.stem):
            ours, theirs = compare(["-m", "adjoint", "run", str(path)], [str(path)], rounds)
        # A small one takes PyTorch less time than its own import.
        small = theirs.seconds < 2 * base.seconds
        rows.append(row(path.stem, ours, theirs, SMALL_MARK if small else MARK))
        ratios.append(theirs.seconds / ours.seconds)
    if ratios:
        middle = f"{statistics.median(ratios):.1f}×"
        rows.append((f"median of {len(ratios)}", "", "", middle, "", "", "–", "–"))
    return rows


def write_markdown(rows: Sequence[tuple[str, ...]], load: float, path: Path) -> None:
    assert __doc__ is not None
    small = (
        "A script is small if PyTorch takes less than twice as long for it as for its own import: "
        f"it should\nbe done {SMALL_MARK:g} times sooner, none later, and none with more memory."
    )
    lines = ["# Whole programs", "", __doc__.split("\n\n", 1)[1], small, ""]
    lines += [f"- {fact}" for fact in machine()[:2]]
    lines += [f"- {machine()[2].split(', JAX')[0]}"]
    lines += [f"- {date.today().isoformat()}; load of the machine at the start {load:.1f}", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scripts", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="scripts whose name has NAME")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write benchmarks/SCRIPTS.md")
    args = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console.width = 140
    load = os.getloadavg()[0]
    scripts = [path for path in sorted(FOLDER.glob("*.py")) if args.only in path.stem]
    rows = measured(scripts, args.rounds, console)
    table = Table(*HEADER)
    for cells in rows:
        table.add_row(*cells, style={"NO": "red"}.get(cells[-1]))
    console.print(table)
    if args.write:
        write_markdown(rows, load, Path(__file__).parent / "SCRIPTS.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
