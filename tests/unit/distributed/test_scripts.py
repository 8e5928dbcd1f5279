"""Scripts for torchrun run unmodified by `adjoint launch`, and print what they print on PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import ROOT, WITH_CHECKOUT
from tests.programs.compare import first_difference

pytest.importorskip("mpi4py")
pytest.importorskip("torch")

SCRIPTS = sorted((ROOT / "tests" / "programs" / "distributed").glob("*.py"))


def printed(command: list[str], environment: dict[str, str], tries: int = 1) -> str:
    for _ in range(tries):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env=environment | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_what_torchrun_prints(script: Path) -> None:
    ours = printed(["adjoint", "launch", "-n", "2", str(script)], WITH_CHECKOUT)
    theirs = printed(
        ["torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1",
         f"--master-port={29500 + os.getpid() % 1000}", str(script)],
        {**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        tries=3,  # PyTorch at times aborts as its ranks end
    )  # fmt: skip
    assert ours and not first_difference(ours, theirs)
