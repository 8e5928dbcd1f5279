"""The benchmark harness: what it calls met, how it prints, and that names are unique."""

from __future__ import annotations

import pytest

from benchmarks.harness import Comparison, Mark, Timing, Workload
from benchmarks.report import duration, row
from benchmarks.workloads import WORKLOADS, find

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
    assert cells == ("w", "1", "1 s", "1 s", "–", "–", "–", "≥ 2×", "–")


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (8e-6, "8 us"), (31e-9, "31 ns")]
)
def test_duration_has_the_unit_that_reads_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
