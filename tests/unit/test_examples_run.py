"""Every example runs with adjoint and, where torch is installed, prints the same with both."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad

ROOT = Path(__file__).parents[2] / "examples"
# The examples run in a folder of their own, where a relative PYTHONPATH would lead nowhere.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(ad.__file__).parents[1])}
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def output(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples() -> None:
    assert "train_mlp.py" in EXAMPLES and len(EXAMPLES) >= 9


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_prints_what_pytorch_prints(example: str) -> None:
    ours = output("-m", "adjoint", "run", example)
    assert ours
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: ran with adjoint alone")
    assert ours == output(example)
