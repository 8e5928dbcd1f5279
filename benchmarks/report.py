"""The table on the terminal, and the same table in RESULTS.md with the facts of the machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Comparison, Mark, Timing
from benchmarks.lines import LINE_MARK
from benchmarks.startup import EXTENSION_MARK, IMPORT_MARK, Startup

HEADER = (
    *("work", "threads", "adjoint", "median", "peer", "median", "faster"),
    *("first call", "peer's", "peak MB", "peer's", "mark", "met"),
)

NOT_ASKED = ("",) * 4  # of first calls and memory


def duration(seconds: float) -> str:
    """Return seconds in the unit that leaves one to three digits before the point."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def mark_text(mark: Mark) -> str:
    parts = []
    if mark.seconds is not None:
        parts.append(f"≤ {duration(mark.seconds)}")
    if mark.speedup is not None:
        parts.append(f"≥ {mark.speedup:g}×")
    return ", ".join(parts) or "–"


def row(result: Comparison) -> tuple[str, ...]:
    n = result.threads
    peer = result.peer
    return (
        result.workload.name,
        str(n),
        duration(result.seconds),
        duration(result.subject.median(n)),
        duration(peer.best(n)) if peer else "–",
        duration(peer.median(n)) if peer else "–",
        f"{result.speedup:.2f}×" if result.speedup else "–",
        *first_cells(result.subject, peer),
        mark_text(result.workload.mark),
        met_text(result.met),
    )


def first_cells(subject: Timing, peer: Timing | None) -> tuple[str, str, str, str]:
    """First calls and memory, of the subject and its peer; empty where nobody asked."""

    def cells(timing: Timing | None) -> tuple[str, str]:
        first, peak = (timing.first_call(), timing.peak) if timing else (None, None)
        return (
            "" if first is None else duration(first),
            "" if peak is None else f"{peak / 1e6:.1f}",
        )

    (ours, our_peak), (theirs, their_peak) = cells(subject), cells(peer)
    return ours, theirs, our_peak, their_peak


def met_text(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: "–"}[met]


def startup_rows(subject: Startup, peer: Startup | None) -> list[tuple[str, ...]]:
    def line(name: str, ours: str, theirs: str, ratio: float | None, mark: str, met: str) -> tuple:
        faster = f"{ratio:.1f}×" if ratio else "–"
        return (name, "", ours, "", theirs, "", faster, *NOT_ASKED, mark, met)

    rows = [
        line(
            "import, beyond numpy",
            duration(subject.seconds),
            duration(peer.seconds) if peer else "–",
            peer.seconds / subject.seconds if peer else None,
            f"≤ {duration(IMPORT_MARK)}",
            met_text(subject.seconds <= IMPORT_MARK),
        ),
        line(
            "installed size",
            f"{subject.megabytes:.1f} MB",
            f"{peer.megabytes:.1f} MB" if peer else "–",
            peer.megabytes / subject.megabytes if peer else None,
            "–",
            "–",
        ),
    ]
    if subject.extension is not None:
        size = f"{subject.extension / 1e6:.2f} MB"
        met = met_text(subject.extension <= EXTENSION_MARK)
        rows.append(line("extension module", size, "–", None, "≤ 12 MB", met))
    return rows


def lines_row(seconds: float) -> tuple[str, ...]:
    met = met_text(seconds <= LINE_MARK)
    mark = f"≤ {duration(LINE_MARK)}"
    name = "the source line of one op"
    return (name, "", duration(seconds), "", "–", "", "–", *NOT_ASKED, mark, met)


def print_table(rows: Iterable[tuple[str, ...]], console: Console) -> None:
    table = Table(*HEADER)
    for cells in rows:
        style = {"NO": "red", "yes": "green"}.get(cells[-1])
        table.add_row(*cells, style=style)
    console.print(table)


def machine() -> list[str]:
    """Facts that figures depend on, one line each."""
    return [
        f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, NumPy {version('numpy')}",
        f"adjoint {package('adjoint')}, PyTorch {package('torch')}, JAX {package('jax')}",
    ]


def package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(development build)" if name == "adjoint" else "(not installed)"


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for text in info.read_text().splitlines():
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


EXPLANATION = """\
Each library runs in a process of its own; the two take turns, round by round, because two thread
pools in one process disturb each other. Results and gradients are compared before anything is
timed. Figures are seconds per call of the best round (and the median of the rounds): CPU time of
the process with one thread, wall time with more. The peer is PyTorch, doing the same, unless the
line names another; "faster" is the peer's best over adjoint's best.

Where something is compiled or scanned, "first call" is the time on the wall of the first call after
the inputs were made, in the best of a few new processes with empty caches; "peak" is what these
processes took at most, inputs and the first calls, beyond what they had after the import, in MB.
"""


def write_markdown(rows: Iterable[tuple[str, ...]], path: Path) -> None:
    command = "python -m benchmarks " + " ".join(sys.argv[1:])
    lines = ["# Results", "", EXPLANATION]
    lines += [f"- {fact}" for fact in machine()]
    lines += [f"- {date.today().isoformat()}, `{command.strip()}`", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
