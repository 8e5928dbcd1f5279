"""Starts the programs of `ranks` as several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import WITH_CHECKOUT

pytest.importorskip("mpi4py")

RANKS = Path(__file__).parent / "ranks"


def command(count: int, program: str, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-m", "adjoint", "launch", "-n", str(count)),
        *(str(RANKS / program), *arguments),
    ]


def launch(
    count: int,
    program: str,
    *arguments: str,
    seconds: float = 120,
    environment: dict[str, str] = WITH_CHECKOUT,
) -> subprocess.CompletedProcess[str]:
    """Run a program; whatever it leaves behind would keep `run` waiting for its pipes."""
    return subprocess.run(
        command(count, program, *arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def check(count: int, program: str, *arguments: str) -> str:
    done = launch(count, program, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
