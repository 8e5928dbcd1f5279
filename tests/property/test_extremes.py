"""No op leaves its memory or hangs, whatever numbers it is given. Read extremes.py first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_extreme_arguments(part: int, tmp_path: Path) -> None:
    report = tmp_path / "call"
    command = [sys.executable, "-m", "tests.property.extremes", str(part), str(PARTS), str(report)]
    try:
        done = subprocess.run(
            [*command, "4"], capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"does not end: {report.read_text()}")
    assert done.returncode == 0, f"{report.read_text()}{done.returncode}\n{done.stderr[-2000:]}"
