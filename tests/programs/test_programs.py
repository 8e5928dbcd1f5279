"""Each script of this folder is run, unmodified, by PyTorch and by `adjoint run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.compare import first_difference

pytest.importorskip("torch")

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
# What a script needs and adjoint does not have yet.
MISSING: dict[str, str] = {}


def printed(command: list[str], folder: Path) -> str:
    # One thread, since sums of several are rounded in another order.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ADJOINT_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_what_it_prints_on_pytorch(script: Path, tmp_path: Path) -> None:
    if script.stem in MISSING:
        pytest.xfail(f"needs {MISSING[script.stem]}")
    ours = printed(["-m", "adjoint", "run", str(script)], tmp_path)
    theirs = printed([str(script)], tmp_path)
    assert not first_difference(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("loss 0.123", "loss 0.124", True),
        ("loss 0.123", "loss 0.125", False),
        ("3 steps", "4 steps", False),
        ("tensor([1.0000e-08])", "tensor([1.0001e-08])", True),
        ("a", "a\nb", False),
        ("True", "False", False),
    ],
)
def test_the_last_printed_digit_may_differ_and_nothing_else(
    ours: str, theirs: str, same: bool
) -> None:
    assert (first_difference(ours, theirs) == "") == same
