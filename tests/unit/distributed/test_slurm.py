"""Ranks in jobs of Slurm, on a cluster of this machine that lives as long as these tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.children import WITH_CHECKOUT

pytest.importorskip("mpi4py")
if not all(map(shutil.which, ("slurmctld", "slurmd", "munged"))) or os.geteuid() != 0:
    pytest.skip("a Slurm, and root to start it, are needed", allow_module_level=True)

# The sum over the ranks, then what the first argument says happens to rank 1 while others wait.
PROGRAM = """
import os, signal, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
how = sys.argv[1] if len(sys.argv) > 1 else ""
dist.init_process_group("gloo", timeout=timedelta(seconds=2 if how == "late" else 60))
x = torch.ones(1)
dist.all_reduce(x)
print(dist.get_rank(), x.item(), flush=True)
if how and dist.get_rank() == 1:
    if how == "raise":
        raise ValueError("bad data")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
if how == "stay":
    time.sleep(60)
if how:
    dist.all_reduce(x)
"""
LAUNCH = [sys.executable, "-m", "adjoint", "launch"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class CannotStart(Exception):
    """Slurm does not run here, for instance in a container that forbids what it needs."""


class Cluster:
    """One machine with room for four processes, whose files are all in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.environment = WITH_CHECKOUT | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        folder, host = self.folder, socket.gethostname().partition(".")[0]
        folder.chmod(0o755)
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (folder / "slurm.conf").write_text(
            f"ClusterName=one\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\n"
            f"SlurmctldPort={free_port()}\nSlurmdPort={free_port()}\n"
            f"AuthType=auth/munge\nAuthInfo=socket={folder}/munge\n"
            f"StateSaveLocation={folder}\nSlurmdSpoolDir={folder}/spool\n"
            f"SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n"
            f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n"
            "SelectType=select/cons_tres\nReturnToService=2\nKillWait=2\n"
            "SlurmdParameters=config_overrides\n"
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN\n"
            f"PartitionName=all Nodes={host} Default=YES State=UP\n"
        )
        names = {"pid": folder / "munge.pid", "seed": folder / "seed", "log": folder / "munge.log"}
        munge = [f"--{name}-file={path}" for name, path in names.items()]
        self._start(
            "munged", "-F", "--force", f"--key-file={key}", f"--socket={folder}/munge", *munge
        )
        self._await((folder / "munge").exists)
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        self._await(self._is_idle)

    def _start(self, *command: str) -> None:
        with open(self.folder / f"{command[0]}.said", "wb") as said:
            daemon = subprocess.Popen(command, env=self.environment, stdout=said, stderr=said)
        self._daemons.append(daemon)

    def _await(self, condition: Callable[[], bool]) -> None:
        """Wait for a step of the start; raises `CannotStart` if that fails or takes too long."""
        end = time.monotonic() + 20
        while not condition():
            ended = [daemon for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                raise CannotStart(self._complaint(ended[0] if ended else self._daemons[-1]))
            time.sleep(0.05)

    def _is_idle(self) -> bool:
        try:
            return "idle" in self.run("sinfo", "-h", "-o", "%T", limit=10).stdout
        except subprocess.TimeoutExpired:  # slurmctld does not answer yet
            return False

    def _complaint(self, daemon: subprocess.Popen[bytes]) -> str:
        name = str(daemon.args[0])  # type: ignore[index]
        log = self.folder / f"{name}.said"
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        worst = [line for line in lines if "error" in line or "fatal" in line] or lines
        end = (
            "does not get ready" if daemon.returncode is None else f"ends with {daemon.returncode}"
        )
        return f"{name} {end}: {'; '.join(worst[-2:])}"

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *command: str, limit: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def ranks(self, how: str = "") -> list[str]:
        """The program, as `adjoint launch` takes it."""
        return [str(self.program), how] if how else [str(self.program)]

    def assert_nothing_is_left(self) -> None:
        left = self._left()
        end = time.monotonic() + 5  # what Slurm was told to end may take a moment
        while left and time.monotonic() < end:
            time.sleep(0.05)
            left = self._left()
        assert not left

    def _left(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_text()
            except OSError:
                continue
            if str(self.program) in words or str(self.folder / "tmp") in words:
                found.append(words.replace("\0", " "))
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("slurm", numbered=True))
    try:
        try:
            made.start()
        except CannotStart as error:
            pytest.skip(f"Slurm cannot start here: {error}")
        yield made
    finally:
        made.stop()


@pytest.fixture
def slurm(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.assert_nothing_is_left()


def sums(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line[:1].isdigit())


def plugins(slurm: Cluster) -> list[str]:
    """Those that work here; each is a different way for ranks to get their places."""
    tried = {n: slurm.run("srun", f"--mpi={n}", "true") for n in ("none", "pmi2", "pmix")}
    return [name for name, done in tried.items() if done.returncode == 0]


def test_srun_starts_ranks_whatever_it_tells_them(slurm: Cluster) -> None:
    found = plugins(slurm)
    assert {"none", "pmi2"} <= set(found)
    for plugin in found:
        done = slurm.run("srun", f"--mpi={plugin}", "-n", "4", *LAUNCH, *slurm.ranks())
        assert done.returncode == 0, plugin + done.stderr
        assert sums(done.stdout) == [f"{rank} 4.0" for rank in range(4)], plugin
    assert not list((slurm.folder / "tmp").iterdir())


def test_srun_starts_ranks_without_the_launcher(slurm: Cluster) -> None:
    program = slurm.program.read_text().replace("import torch,", "import adjoint as torch,")
    program = program.replace("torch.distributed as", "adjoint.distributed as")
    done = slurm.run("srun", "-n", "2", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert sums(done.stdout) == ["0 2.0", "1 2.0"]
    assert not list((slurm.folder / "tmp").iterdir())


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "ValueError: bad data"),
        ("kill", "adjoint launch: rank 1 ended unexpectedly; all 3 ranks stop"),
        ("late", "DistBackendError: all_reduce on rank"),
    ],
)
def test_ranks_of_srun_end_with_one_error(slurm: Cluster, how: str, said: str) -> None:
    done = slurm.run("srun", "-n", "3", *LAUNCH, *slurm.ranks(how))
    assert done.returncode != 0
    assert done.stderr.count(said) == 1, done.stderr
    assert done.stderr.count("Traceback") == (how != "kill")


def start(slurm: Cluster, *command: str) -> subprocess.Popen[str]:
    """Start ranks that stay, and wait until all of them have said their sum."""
    process = subprocess.Popen(
        command, env=slurm.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    patience = threading.Timer(60, process.kill)  # or a line that never comes is awaited forever
    patience.start()
    said = [process.stdout.readline() for _ in range(2)]
    patience.cancel()
    assert sums("".join(said)) == ["0 2.0", "1 2.0"]
    return process


def test_ctrl_c_of_srun_shows_one_interrupt(slurm: Cluster) -> None:
    process = start(slurm, "srun", "-Q", "-n", "2", *LAUNCH, *slurm.ranks("stay"))
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # the first only asks
    said, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert said.count("KeyboardInterrupt") <= 1, said


def test_scancel_ends_ranks(slurm: Cluster, tmp_path: Path) -> None:
    process = start(slurm, "srun", "-Q", "-n", "2", *LAUNCH, *slurm.ranks("stay"))
    slurm.run("scancel", "--user=root")
    said, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "CANCELLED" in said
    assert "Traceback" not in said


def test_the_launcher_starts_ranks_in_a_job(slurm: Cluster, tmp_path: Path) -> None:
    job, launch, program = tmp_path / "job.sh", " ".join(LAUNCH), slurm.program
    job.write_text(
        f"#!/bin/sh\n{launch} -n 4 {program}\necho ---\nsrun -n 2 {launch} {program}\necho ---\n"
        f"{launch} -n 2 {program} raise\necho status $?\n{launch} -n 2 {program} kill\n"
        "echo status $?\n"
    )
    said = tmp_path / "said"
    done = slurm.run("sbatch", "--wait", "-n", "4", "-o", str(said), str(job))
    assert done.returncode == 0, done.stderr + said.read_text()
    first, second, third = said.read_text().split("---\n")
    assert sums(first) == [f"{rank} 4.0" for rank in range(4)]
    assert sums(second) == ["0 2.0", "1 2.0"]
    lines = third.splitlines()
    assert lines.count("ValueError: bad data") == 1
    raised = lines.index("adjoint launch: rank 1 failed; all 2 ranks were stopped")
    assert lines[raised + 1] == "status 1"
    killed = "adjoint launch: rank 1 was killed by SIGKILL; all 2 ranks were stopped"
    assert lines[-2:] == [killed, "status 137"]


def test_a_job_that_is_cancelled_leaves_nothing(slurm: Cluster, tmp_path: Path) -> None:
    job, said = tmp_path / "job.sh", tmp_path / "said"
    job.write_text(f"#!/bin/sh\nexec {' '.join(LAUNCH)} -n 2 {slurm.program} stay\n")
    slurm.run("sbatch", "-n", "2", "-o", str(said), str(job))
    end = time.monotonic() + 30
    while not (said.exists() and len(sums(said.read_text())) == 2) and time.monotonic() < end:
        time.sleep(0.05)
    slurm.run("scancel", "--user=root")
    slurm.assert_nothing_is_left()
    assert sums(said.read_text()) == ["0 2.0", "1 2.0"]


def test_salloc_runs_the_launcher(slurm: Cluster) -> None:
    done = slurm.run("salloc", "-Q", "-n", "2", *LAUNCH, "-n", "2", *slurm.ranks())
    assert done.returncode == 0, done.stderr
    assert sums(done.stdout) == ["0 2.0", "1 2.0"]


def test_another_number_of_ranks_than_sruns_is_refused(slurm: Cluster) -> None:
    done = slurm.run("srun", "-n", "2", *LAUNCH, "-n", "3", *slurm.ranks())
    assert done.returncode == 2
    assert "-n is 3, but srun has started 2 processes" in done.stderr
