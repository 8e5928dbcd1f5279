"""The benchmark harness: what it calls met, how it prints, and that names are unique."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Comparison, Mark, Timing, Workload
from benchmarks.report import HEADER, duration, row
from benchmarks.workloads import WORKLOADS, find

ROOT = Path(__file__).parents[3]
WORK = Workload("w", lambda lib: lambda: None, Mark(speedup=2))


def test_every_workload_can_be_found_by_its_name() -> None:
    assert len({w.name for w in WORKLOADS}) == len(WORKLOADS)
    assert all(find(w.name) is w for w in WORKLOADS)


@pytest.mark.parametrize(
    ("mark", "seconds", "speedup", "met"),
    [
        (Mark(), 1.0, 2.0, None),
        (Mark(seconds=1.0), 1.0, None, True),
        (Mark(seconds=1.0), 1.1, 50.0, False),
        (Mark(speedup=2.0), 1.0, 2.0, True),
        (Mark(speedup=2.0), 1.0, 1.9, False),
        (Mark(speedup=2.0), 1.0, None, None),
        (Mark(seconds=1.0, speedup=2.0), 2.0, 3.0, False),
    ],
)
def test_mark_is_met_only_when_everything_it_asks_for_is(
    mark: Mark, seconds: float, speedup: float | None, met: bool | None
) -> None:
    assert mark.met(seconds, speedup) is met


def test_cpu_time_counts_with_one_thread_and_wall_time_with_more() -> None:
    ours, theirs = Timing(wall=[9.0, 8.0], cpu=[2.0, 1.0]), Timing(wall=[16.0, 17.0], cpu=[3.0])
    assert Comparison(WORK, 1, ours, theirs).speedup == 3.0
    assert Comparison(WORK, 2, ours, theirs).speedup == 2.0


def test_row_without_a_peer_claims_nothing() -> None:
    cells = row(Comparison(WORK, 1, Timing(wall=[1.0], cpu=[1.0]), None))
    assert cells == ("w", "1", "1 s", "1 s", "–", "–", "–", "", "", "", "", "≥ 2×", "–")
    assert len(cells) == len(HEADER)


def test_row_reports_the_best_first_call_and_the_memory_of_both() -> None:
    ours = Timing(wall=[1.0], cpu=[1.0], first=[0.5, 0.4], peak=2e6)
    theirs = Timing(wall=[1.0], cpu=[1.0], first=[0.9], peak=31.44e6)
    cells = row(Comparison(WORK, 1, ours, theirs))
    assert cells[7:11] == ("400 ms", "900 ms", "2.0", "31.4")


FIRST_CALL = """
import json, os
from benchmarks import worker
calls = []
def work():
    if not calls:
        bytearray(os.urandom(1024)) * 40_000
    calls.append(1)
before = worker.forget_peak()
print(json.dumps(worker.first_call(work, before) | {"calls": len(calls)}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are not forgotten")
def test_first_call_is_the_call_that_prepares_and_memory_counts_from_the_import() -> None:
    # In a process of its own: a large one frees memory of other tests meanwhile.
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True, cwd=ROOT
    )
    answer = json.loads(done.stdout)
    assert 40e6 <= answer["peak"] <= 80e6 and answer["wall"] > 0 and answer["calls"] > 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (8e-6, "8 us"), (31e-9, "31 ns")]
)
def test_duration_has_the_unit_that_reads_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
