"""Ranks that no launcher of MPI has started find each other, and end together."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import ROOT, WITH_CHECKOUT

pytest.importorskip("mpi4py")

PROGRAM = str(ROOT / "tests" / "programs" / "spawned" / "tutorial.py")
ADJOINT = [sys.executable, "-m", "adjoint", "run"]


@pytest.fixture
def variables() -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ours = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    return WITH_CHECKOUT | ours


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run it; whatever it leaves behind would keep `run` waiting for its pipes."""
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=90, check=False
    )


def test_a_script_with_spawn_prints_what_it_prints_on_pytorch(variables: dict[str, str]) -> None:
    done = run([*ADJOINT, PROGRAM], variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loss 1.2543\nloss 1.2375\nloss 1.0433\nloss 1.1316\n"  # 2.13 does


def test_the_error_of_a_spawned_rank_is_raised_and_all_end(variables: dict[str, str]) -> None:
    done = run([*ADJOINT, PROGRAM, "raise"], variables)
    assert done.returncode == 1
    assert "ValueError: rank 1 has bad data" in done.stderr
    assert "ProcessRaisedException" in done.stderr


def test_ranks_of_a_shell_find_each_other(variables: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method=sys.argv[1] or None)\n"
        "x = torch.ones(50_000); dist.all_reduce(x); print(dist.get_rank(), x.sum().item())"
    )
    for method in ("", f"file://{tmp_path}/store"):
        ranks = [
            subprocess.Popen(
                [*ADJOINT, "-c", code, method],
                env=variables | {"RANK": str(rank), "WORLD_SIZE": "3"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(3)
        ]
        said = [rank.communicate(timeout=60)[0].strip() for rank in ranks]
        assert said == ["0 150000.0", "1 150000.0", "2 150000.0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "Timed out after 0.5 seconds waiting for clients. 1/2 clients joined."),
        ({"MASTER_PORT": ""}, "environment variable MASTER_PORT expected, but not set"),
        ({"RANK": "2"}, "rank is 2, but world_size 2: ranks are 0 to 1"),
    ],
)
def test_a_rank_that_stays_alone_says_why(
    variables: dict[str, str], change: dict[str, str], said: str
) -> None:
    code = (
        "import datetime, torch.distributed as dist\n"
        "dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=0.5))"
    )
    environment = variables | {"RANK": "0", "WORLD_SIZE": "2"} | change
    done = run([*ADJOINT, "-c", code], environment)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_port_in_use_is_named(variables: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(variables["MASTER_PORT"])))
        taken.listen()
        code = "import torch.distributed as dist; dist.init_process_group('gloo')"
        done = run([*ADJOINT, "-c", code], variables | {"RANK": "0", "WORLD_SIZE": "2"})
    assert done.returncode == 1
    assert f"127.0.0.1:{variables['MASTER_PORT']}" in done.stderr
    assert "DistNetworkError" in done.stderr
