"""Run the benchmarks: `python -m benchmarks [--smoke] [--only NAME] [--threads 1,2] [--write]`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks import lines, report, startup
from benchmarks.harness import Comparison, compare
from benchmarks.workloads import WORKLOADS


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one short round each, not judged")
    parser.add_argument("--only", default="", metavar="NAME", help="workloads whose name has NAME")
    parser.add_argument("--threads", default="1,2", help="thread counts (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a round")
    parser.add_argument("--write", action="store_true", help="write benchmarks/RESULTS.md")
    parser.add_argument("--subject", default="adjoint", help="the library that is measured")
    parser.add_argument("--peer", default="torch", help='what it is compared with; "" for nothing')
    args = parser.parse_args()
    if args.smoke:
        args.threads, args.rounds, args.seconds = "1", 1, 0.005
    if args.peer and importlib.util.find_spec(args.peer) is None:
        print(f"{args.peer} is not installed: measuring {args.subject} alone", file=sys.stderr)
        args.peer = ""
    return args


def main() -> int:
    args = arguments()
    console = Console()
    if not console.is_terminal:
        console.width = 190  # a log has no edge
    threads = [int(n) for n in args.threads.split(",")]
    peer = args.peer or None
    rows: list[tuple[str, ...]] = []
    results: list[Comparison] = []
    for workload in WORKLOADS:
        if args.only.lower() not in workload.name.lower():
            continue
        if args.smoke and workload.slow_start:
            continue
        if workload.peer and peer and importlib.util.find_spec(workload.peer) is None:
            console.print(f"{workload.peer} is not installed: left out {workload.name}")
            continue
        for n in sorted(set(threads) & set(workload.threads)):
            with console.status(f"{workload.name}, {n} threads"):
                # Short rounds are for agreement: they start no further processes.
                asked = replace(workload, first_call=workload.first_call and not args.smoke)
                result = compare(asked, n, args.subject, peer, args.rounds, args.seconds)
            results.append(result)
            rows.append(report.row(result))
    if args.subject == "adjoint" and args.only.lower() in "the source line of one op":
        rows.append(report.lines_row(lines.seconds(args.rounds)))
    if args.only.lower() in "import and installed size":
        libraries = [startup.measure(lib, args.rounds) for lib in (args.subject, peer) if lib]
        rows += report.startup_rows(libraries[0], libraries[1] if peer else None)
    if args.smoke:  # that everything runs and agrees; rounds this short say nothing of speed
        rows = [(*row[:-1], report.met_text(None)) for row in rows]
    report.print_table(rows, console)
    if args.write:
        report.write_markdown(rows, Path(__file__).parent / "RESULTS.md")
    missed = [row for row in rows if row[-1] == report.met_text(False)]
    judged = "marks not judged" if args.smoke else f"{len(missed)} below their mark"
    console.print(f"{len(rows)} measured, {judged}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
