"""What `tools.build_wheels` makes of auditwheel's answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.build_wheels import repaired

TOO_NEW = "auditwheel: error: cannot repair: presence of too-recent versioned symbols."


def answering(folder: Path, body: str) -> Path:
    """A folder of tools with an auditwheel that runs `body`."""
    (folder / "bin").mkdir()
    program = folder / "bin/auditwheel"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return folder


def test_a_wheel_is_renamed_for_the_oldest_linux(tmp_path: Path) -> None:
    tools = answering(tmp_path, 'mkdir "$3" && touch "$3/a-manylinux.whl"')
    assert repaired(tmp_path / "a.whl", tools, tmp_path / "done").name == "a-manylinux.whl"


def test_a_wheel_of_a_newer_linux_than_auditwheel_knows_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = answering(tmp_path, f"echo '{TOO_NEW}' >&2; exit 2")
    assert repaired(tmp_path / "a.whl", tools, tmp_path / "done") == tmp_path / "a.whl"
    assert "a.whl runs on this Linux and newer ones only" in capsys.readouterr().out


def test_another_failure_of_auditwheel_is_not_hidden(tmp_path: Path) -> None:
    tools = answering(tmp_path, "echo 'no patchelf' >&2; exit 1")
    with pytest.raises(subprocess.CalledProcessError):
        repaired(tmp_path / "a.whl", tools, tmp_path / "done")
