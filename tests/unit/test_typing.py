"""The files of tests/typing type-check: what is promised of types holds for users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "typing"
PACKAGE = Path(__file__).parent.parent.parent / "python"


@pytest.mark.slow
def test_files_that_only_have_to_type_check(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    if not (PACKAGE / "adjoint").is_dir():
        pytest.skip("the sources are elsewhere")
    files = sorted(map(str, FOLDER.glob("*.py")))
    assert files
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *files],
        capture_output=True,
        text=True,
        env=dict(os.environ, MYPYPATH=str(PACKAGE), MYPY_CACHE_DIR=str(tmp_path)),
        cwd=PACKAGE.parent,
    )
    assert run.returncode == 0, run.stdout + run.stderr
