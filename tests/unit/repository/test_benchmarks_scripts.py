"""The benchmark of whole programs: what a run tells, and how it is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scripts


def test_a_run_tells_its_own_time_and_memory(tmp_path: Path) -> None:
    small = scripts.run(["-I", "-S", "-c", "print('printed')"], str(tmp_path))
    large = scripts.run(["-I", "-S", "-c", "x = bytes([1]) * 40_000_000"], str(tmp_path))
    assert 0 < small.seconds < 60 and large.peak > small.peak + 30e6
    with pytest.raises(RuntimeError, match="status 3"):
        scripts.run(["-c", "raise SystemExit(3)"], str(tmp_path))


def test_what_is_judged() -> None:
    one, slow, large = scripts.Run(1.0, 40e6), scripts.Run(2.0, 40e6), scripts.Run(1.0, 90e6)
    peer = scripts.Run(3.5, 80e6)
    assert scripts.row("a", one, peer, 3.0)[3:] == (
        "3.5×", "40 MB", "80 MB", "≥ 3×, peak ≤", "yes",
    )  # fmt: skip
    assert [scripts.row("a", run, peer, 3.0)[-1] for run in (slow, large)] == ["NO", "NO"]
    assert scripts.row("a", slow, peer, 1.0)[-1] == "yes"
