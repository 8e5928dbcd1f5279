"""Torch's operator database replayed: `python -m tools.opinfo_report --only 'linalg*'`.

Every sample of every entry that is here, in six dtypes: value, dtype, shape, gradients, second
gradients, forward mode, method, in-place form, `out=`; and what must be refused. Prints what
differs, what is absent, and counts. The parts are in tests/conformance: `aspects.py`, `replay.py`,
`refusals.py`, and `known_differences.py` with the reasons. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import adjoint as ad
from tests.conformance.absent_entries import ABSENT
from tests.conformance.known_differences import KNOWN, known
from tests.conformance.opinfo import database, entries, torch
from tests.conformance.refusals import replay_refusals
from tests.conformance.replay import DTYPES, Difference, Result, replay


@dataclass
class Count:
    """What the table shows of a dtype."""

    entries: int = 0
    agreeing: int = 0
    samples: int = 0
    checks: int = 0
    listed: int = 0
    differing: int = 0


@dataclass
class Report:
    """Everything that was found."""

    counts: dict[str, Count] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    needed: set[Any] = field(default_factory=set)

    def add(self, kind: str, result: Result) -> list[Difference]:
        """Count a result, and return what in it differs without a reason."""
        count = self.counts.setdefault(kind, Count())
        if not result.samples:
            return []
        reasons = [known(d) for d in result.differences]
        self.needed |= {r for r in reasons if r is not None}
        new = [d for d, r in zip(result.differences, reasons, strict=True) if r is None]
        count.entries += 1
        count.agreeing += not new
        count.samples += result.samples
        count.checks += result.checks
        count.listed += len(result.differences) - len(new)
        count.differing += len(new)
        self.differences += new
        return new


def run(work: tuple[str, str, argparse.Namespace]) -> tuple[str, Result]:
    entry, kind, options = work
    if kind == "refusals":
        return kind, replay_refusals(entry)
    return kind, replay(
        entry, kind, options.samples, options.seed, options.aspect, options.reference
    )


def alone() -> None:
    """Keep a process of several to one thread."""
    torch.set_num_threads(1)
    ad.set_num_threads(1)


def show(differences: list[Difference], every: bool) -> None:
    """Print what differs of an entry, that of one dtype and aspect as one line unless `every`."""
    groups = Counter((d.entry, d.dtype, d.aspect) for d in differences)
    seen = set()
    for d in differences:
        key = (d.entry, d.dtype, d.aspect)
        if every or key not in seen:
            more = f"  (and {groups[key] - 1} more)" if groups[key] > 1 and not every else ""
            print(f"{d}{more}", flush=True)
        seen.add(key)


def table(report: Report, chosen: list[str], every: int) -> None:
    present = [name for name in chosen if name in database()]
    kept = {d.entry for d in report.differences}
    print(f"\n{len(present)} of {every} entries are here, {len(present) - len(kept)} agree", end="")
    print(f" ({len(present) / max(every, 1):.1%} present)")
    titles = ("", "entries", "agreeing", "samples", "checks", "listed", "differing")
    print("".join(f"{t:>11}" for t in titles))
    for kind, c in report.counts.items():
        row = (kind, c.entries, c.agreeing, c.samples, c.checks, c.listed, c.differing)
        print("".join(f"{cell:>11}" for cell in row))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", help="entries, as patterns: 'linalg* fft.*'")
    parser.add_argument("--dtype", default=" ".join(DTYPES), help="dtypes, separated by spaces")
    parser.add_argument("--aspect", default="", help="one aspect, such as 'out' or 'value'")
    parser.add_argument("--samples", type=int, help="about so many samples of each, not all")
    parser.add_argument("--seed", type=int, default=0, help="of torch's samples")
    parser.add_argument("--reference", action="store_true", help="torch's reference_inputs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--every", action="store_true", help="print every difference")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the replay and print the report."""
    options = parse(arguments)
    patterns = options.only.split()
    chosen = [n for n in entries() if any(fnmatchcase(n, p) for p in patterns)]
    absent = [n for n in chosen if n not in database()]
    kinds = [*options.dtype.split(), *([] if options.aspect else ["refusals"])]
    work = [(name, kind, options) for name in chosen for kind in kinds if name not in absent]
    report = Report()
    with multiprocessing.get_context("fork").Pool(options.jobs, alone) as pool:
        for kind, result in pool.imap(run, work, chunksize=4):
            show(report.add(kind, result), options.every)
    if absent:
        print(f"\nabsent ({len(absent)}):", *(f"{n} ({ABSENT.get(n, '?')})" for n in absent))
    if options.only == "*" and options.samples is None and not options.aspect:
        print(*(f"not needed any more: {k}" for k in KNOWN if k not in report.needed), sep="\n")
    table(report, chosen, len(chosen))
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
