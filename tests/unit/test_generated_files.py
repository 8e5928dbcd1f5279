"""Files that are generated are what their generators write today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_type_stubs_are_what_the_generator_writes() -> None:
    command = [sys.executable, "-m", "tools.gen_stubs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
