"""What `adjoint launch` would start, without starting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjoint.cli import _slurm, launch


def program(path: Path, body: str = "") -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


ALL = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix"


@pytest.mark.parametrize(
    ("listed", "complaint", "variable", "plugin"),
    [
        (ALL, "", None, ["--mpi=PLUGIN"]),
        (ALL, "", "pmix_v4", []),  # srun reads it
        ("MPI plugin types are...\n\tnone", "", None, None),
        (ALL, "srun: error: Invalid MPI type 'pmix'", None, None),  # listed, without its library
    ],
)
def test_in_an_allocation_srun_starts_the_ranks_if_it_can_speak_to_mpi(
    listed: str,
    complaint: str,
    variable: str | None,
    plugin: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists = f'[ "$1" = --mpi=list ] && echo "{listed}" >&2'
    program(tmp_path / "srun", f'{lists} || echo "{complaint}" >&2')
    mpiexec = program(tmp_path / "mpiexec")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.delenv("SLURM_MPI_TYPE", raising=False)
    if variable is not None:
        monkeypatch.setenv("SLURM_MPI_TYPE", variable)
    started = launch._starter(None, 4)
    if plugin is None:
        assert started == [mpiexec, "-n", "4"]
    else:
        fitting = [word.replace("PLUGIN", _slurm._plugin()) for word in plugin]
        start = ["srun", "--ntasks", "4", "--kill-on-bad-exit=1", "--unbuffered"]
        assert started == start + fitting
    assert launch._starter("mpirun --map-by node", 4) == [
        *("mpirun", "--map-by", "node", "-n", "4")
    ]


def test_the_mpiexec_beside_python_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("beside", "path"):
        (tmp_path / name).mkdir()
    on_path = program(tmp_path / "path" / "mpiexec")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "beside" / "python"))
    assert launch._starter(None, 2) == [on_path, "-n", "2"]
    beside = program(tmp_path / "beside" / "mpiexec")
    assert launch._starter(None, 2) == [beside, "-n", "2"]
    monkeypatch.setenv("PATH", "")
    Path(beside).unlink()
    with pytest.raises(ValueError, match="there is no mpiexec; fix: pip install"):
        launch._starter(None, 2)


@pytest.mark.parametrize(
    ("variables", "is_rank"),
    [
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}, True),  # srun -n 4 adjoint launch
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),  # a script of sbatch's
        ({"SLURM_JOB_ID": "17"}, False),
    ],
)
def test_a_task_of_srun_is_a_rank(
    variables: dict[str, str], is_rank: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _slurm.is_task() is is_rank
