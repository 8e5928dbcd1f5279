"""The command `adjoint`: demo, run, --version."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from adjoint.cli import _plot, demo
from tests.children import ENVIRONMENT


def adjoint(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "adjoint", *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=ENVIRONMENT,
    )


def test_version_is_the_packages() -> None:
    import adjoint as ad

    assert adjoint("--version").stdout == f"adjoint {ad.__version__}\n"


def test_demo_shows_plot_table_and_speed_and_writes_the_picture(tmp_path: Path) -> None:
    done = adjoint("demo", "--steps", "5", "--out", "loss.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("5/5", "loss", "1e", "stiffness", "true", "gradients per second", "loss.png"):
        assert words in done.stdout
    assert decode_png((tmp_path / "loss.png").read_bytes()) == (1160, 460)


def test_demo_without_png_writes_nothing(tmp_path: Path) -> None:
    done = adjoint("demo", "--steps", "2", "--no-png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_demo_refuses_zero_steps() -> None:
    done = adjoint("demo", "--steps", "0")
    assert done.returncode == 2 and "must be at least 1" in done.stderr


@pytest.mark.slow
def test_demo_recovers_the_chain_down_to_the_noise() -> None:
    recovery = demo.recover(steps=600, seed=0)
    assert recovery.losses[-1] < 2 * 0.02**2
    found, true = recovery.found.log_stiffness.exp(), recovery.true.log_stiffness.exp()
    assert (found - true).abs().max().item() < 0.1
    assert (recovery.found.position - recovery.true.position).abs().max().item() < 0.1
    assert recovery.seconds < 20


def decode_png(data: bytes) -> tuple[int, int]:
    """Check every chunk's sum and the pixels' number; return width and height."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = {}, 8
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        body = data[position + 4 : position + 8 + length]
        (sum_,) = struct.unpack(">I", data[position + 8 + length : position + 12 + length])
        assert sum_ == zlib.crc32(body)
        chunks[body[:4]] = body[4:]
        position += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)
    return width, height


def test_plot_reaches_from_corner_to_corner() -> None:
    text = _plot.log_plot([10.0**-i for i in range(5)], width=10, height=5)
    rows = text.splitlines()
    assert rows[0].startswith("  1e+0 ┤") and len(rows) == 7
    assert rows[0][8] != " " and rows[4].rstrip()[-1] not in " │┤"


def test_plot_survives_values_that_have_no_logarithm() -> None:
    assert "no positive" in _plot.log_plot([math.nan, 0.0, -1.0])
    assert "1e" in _plot.log_plot([math.nan, 1.0, math.inf, 0.5])
    assert "1e" in _plot.log_plot([2.0])


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text)
    return str(path)


def test_run_gives_the_script_its_arguments_name_and_folder(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("value = 7\n")
    path = script(
        tmp_path,
        "import sys, pickle, torch, helper\n"
        "class Thing: pass\n"
        "pickle.loads(pickle.dumps(Thing()))\n"
        "print(__name__, sys.argv[1:], helper.value, torch.__version__, __file__)\n",
    )
    done = adjoint("run", path, "--flag", "x", "--", "-y")
    assert done.stdout == f"__main__ ['--flag', 'x', '--', '-y'] 7 2.13.0+adjoint {path}\n"


def test_run_shows_only_the_users_frames(tmp_path: Path) -> None:
    path = script(tmp_path, "def f():\n    raise ValueError('boom')\n\nf()\n")
    done = adjoint("run", path)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Traceback (most recent call last):\n  File " + f'"{path}", line 4'
    )
    assert "adjoint/cli" not in done.stderr and done.stderr.endswith("ValueError: boom\n")


def test_run_shows_a_syntax_error_as_python_does(tmp_path: Path) -> None:
    done = adjoint("run", script(tmp_path, "x = (\n"))
    assert done.returncode == 1 and "SyntaxError" in done.stderr
    assert "adjoint/cli" not in done.stderr


def test_run_passes_on_the_exit_status(tmp_path: Path) -> None:
    assert adjoint("run", script(tmp_path, "import sys; sys.exit(5)")).returncode == 5


def test_run_says_which_file_is_missing() -> None:
    done = adjoint("run", "no_such_script.py")
    assert done.returncode == 2 and "cannot read 'no_such_script.py'" in done.stderr
