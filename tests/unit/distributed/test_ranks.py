"""Programs of several ranks, which check themselves: `ranks` holds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint import _mpiexec
from tests.children import WITH_CHECKOUT
from tests.unit.distributed.launching import check


@pytest.mark.parametrize("count", [2, 4])
def test_collectives_give_what_numpy_computes(count: int) -> None:
    assert check(count, "collectives.py").split() == ["done"] * count


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (8, 1)])
def test_random_collectives_in_random_groups(count: int, seed: int) -> None:
    assert check(count, "random_calls.py", str(seed), "80").split() == ["done"] * count


@pytest.mark.parametrize("count", [2, 4])
def test_data_parallel_training_is_that_of_one_process(count: int) -> None:
    first = check(count, "ddp.py").splitlines()
    assert len(first) == count and len(set(first)) == 1  # all ranks have the same bits
    assert count > 2 or first == check(count, "ddp.py").splitlines()  # and so have two runs
    assert float(json.loads(first[0])["losses"][-1]) < 1


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_a_run_goes_on_with_another_number_of_ranks(
    before: int, after: int, tmp_path: Path
) -> None:
    folder = str(tmp_path / "checkpoint")
    check(before, "state.py", "save", folder)
    check(after, "state.py", "load", folder)
    files = sorted(path.name for path in Path(folder).iterdir())
    assert len(files) == before + 2 and "index.json" in files  # nothing of the older one


def test_a_plain_mpiexec_starts_ranks_too() -> None:
    code = (
        "import adjoint as ad, adjoint.distributed as dist; dist.init_process_group('mpi')\n"
        "x = ad.ones(1); dist.all_reduce(x); print(x.item(), flush=True); dist.barrier()\n"
        "assert x.item() == 1, 'only one rank fails, by an error'"
    )
    done = subprocess.run(
        [str(_mpiexec.find()), "-n", "2", sys.executable, "-c", code],
        env=WITH_CHECKOUT | _mpiexec.OPEN_MPI,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "".join(done.stdout.split()) == "2.02.0"  # mpiexec may mix the lines
    assert "AssertionError: only one rank fails" in done.stderr


def test_lines_are_whole_and_begin_with_the_rank_if_asked(tmp_path: Path) -> None:
    program = tmp_path / "talk.py"
    program.write_text(
        "import os, sys\n"
        "for i in range(200):\n"
        "    print(os.environ['RANK'] * 100)\n"
        "print('error', file=sys.stderr); print(sys.argv[1:], end='')"
    )
    command = [sys.executable, "-m", "adjoint", "launch", "-n", "3", "--prefix", str(program), "-x"]
    done = subprocess.run(
        command, env=WITH_CHECKOUT, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    for rank in "012":
        assert lines.count(f"[{rank}] {rank * 100}") == 200
        assert lines.count(f"[{rank}] ['-x']") == 1
    assert sorted(done.stderr.split("\n")) == ["", "[0] error", "[1] error", "[2] error"]


def test_what_cannot_be_launched_is_said() -> None:
    for arguments, said in (
        (["-n", "0", "x.py"], "-n is '0'"),
        (["-n", "2"], "nothing to run"),
        (["nowhere.py"], "cannot read 'nowhere.py'"),
        (["-n", "2", "-m"], "argument expected for -m"),
        (["--nnodes=2", "--nproc_per_node=2", __file__], "--nnodes is '2': each machine would run"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "adjoint", "launch", *arguments],
            env=WITH_CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2 and f"adjoint launch: {said}" in done.stderr


def test_ranks_without_a_launcher_are_told_to_use_one() -> None:
    code = "import torch.distributed as d; d.init_process_group('gloo', rank=0, world_size=2)"
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", "-c", code],
        env=WITH_CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "adjoint launch -n 2 script.py" in done.stderr


def test_a_module_and_a_text_can_be_launched() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "adjoint",
            "launch",
            *("--nproc_per_node=2", "--nnodes=1", "--node_rank=0", "--standalone"),
            *("--max-restarts", "0", "--rdzv_backend", "c10d", "--rdzv_endpoint=localhost:0"),
            "-c",
            "import os; print(os.environ['RANK'])",
        ],
        env=WITH_CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.split()) == ["0", "1"]
