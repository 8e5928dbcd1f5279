"""Ranks in jobs of Slurm, on a cluster of this machine that lives as long as the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import WITH_CHECKOUT

pytest.importorskip("mpi4py")
if not all(map(shutil.which, ("slurmctld", "slurmd", "munged"))) or os.geteuid() != 0:
    pytest.skip("a Slurm, and root to start it, are needed", allow_module_level=True)

CODE = (
    "import adjoint as ad, adjoint.distributed as dist; dist.init_process_group('gloo')\n"
    "x = ad.ones(1); dist.all_reduce(x); print(dist.get_rank(), x.item())"
)
LAUNCH = [sys.executable, "-m", "adjoint", "launch"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("slurm", numbered=True)
    folder.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(
        f"ClusterName=one\nSlurmctldHost={host}\nSlurmUser=root\nSlurmctldPort={free_port()}\n"
        f"SlurmdPort={free_port()}\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge\n"
        f"StateSaveLocation={folder}\nSlurmdSpoolDir={folder}/spool\n"
        f"SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n"
        f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n"
        "SelectType=select/cons_tres\nReturnToService=2\n"
        f"NodeName={host} CPUs=2 State=UNKNOWN\n"
        f"PartitionName=all Nodes={host} Default=YES State=UP\n"
    )
    environment = WITH_CHECKOUT | {"SLURM_CONF": str(folder / "slurm.conf")}
    names = {name: str(folder / name) for name in ("pid", "seed", "log")}
    munge = [f"--{name}-file={path}" for name, path in names.items()]
    commands = [
        ["munged", "--force", f"--key-file={key}", f"--socket={folder}/munge", *munge],
        ["slurmctld"],
        ["slurmd"],
    ]
    try:
        for command in commands:
            subprocess.run(command, env=environment, check=True, timeout=30, capture_output=True)
        yield environment
    finally:
        for name in ("slurmd.pid", "slurmctld.pid", "pid"):
            stop(folder / name)


def stop(pid_file: Path) -> None:
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), 15)


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_launcher_starts_ranks_in_a_job(cluster: dict[str, str], tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(
        f"#!/bin/sh\n{' '.join(LAUNCH)} -n 2 {tmp_path}/good.py\n"
        f"{' '.join(LAUNCH)} -n 2 {tmp_path}/bad.py\necho status $?\n"
    )
    (tmp_path / "good.py").write_text(CODE)
    (tmp_path / "bad.py").write_text(f"{CODE}\nif dist.get_rank(): raise ValueError('bad data')")
    said = tmp_path / "said"
    done = run(["sbatch", "--wait", "-n", "2", "-o", str(said), str(job)], cluster)
    assert done.returncode == 0, done.stderr + said.read_text()
    lines = said.read_text().splitlines()
    assert sorted(lines[:2]) == ["0 2.0", "1 2.0"]
    assert "ValueError: bad data" in lines
    assert lines[-2:] == ["adjoint launch: rank 1 failed; all 2 ranks were stopped", "status 1"]


def test_a_silent_srun_is_named_with_the_fix(cluster: dict[str, str]) -> None:
    done = run(["srun", "-n", "2", *LAUNCH, "-c", CODE], cluster)
    assert done.returncode == 1
    assert "srun has started 2 processes without an MPI" in done.stderr


def test_srun_starts_ranks_by_itself(cluster: dict[str, str]) -> None:
    from mpi4py import rc

    rc.initialize = False
    from mpi4py import MPI

    plugin = "pmix" if MPI.Get_library_version().startswith("Open MPI") else "pmi2"
    done = run(["srun", f"--mpi={plugin}", "-n", "2", *LAUNCH, "-c", CODE], cluster)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2.0", "1 2.0"]
