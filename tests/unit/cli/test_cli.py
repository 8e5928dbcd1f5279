"""The command `adjoint`: demo, run, --version."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adjoint import plot
from adjoint.cli import demo
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


def test_version_is_the_packages_and_names_what_it_was_built_with() -> None:
    import adjoint as ad

    first, *parts = adjoint("--version").stdout.splitlines()
    assert first == f"adjoint {ad.__version__}"
    said = {line[:17].strip(): line[17:].strip() for line in parts}
    assert list(said) == ["build", "python", "instruction set", "BLAS", "threads"]
    assert said["BLAS"].startswith("OpenBLAS") and said["threads"].isdigit()
    assert ad._core.instruction_set() == said["instruction set"]


def test_demo_shows_plot_table_and_speed_and_writes_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
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
    """Read every pixel; check that curves are there; return width and height."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data))
    assert image.format == "PNG"
    pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert (pixels == 255).all(axis=1).mean() > 0.5, "the ground is white"
    assert len(np.unique(pixels, axis=0)) > 20, "and something is on it"
    width, height = image.size
    return width, height


def test_demo_without_matplotlib_says_how_to_get_the_picture(tmp_path: Path) -> None:
    hide_matplotlib(tmp_path)
    done = adjoint("demo", "--steps", "2", "--out", "loss.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no picture: pictures are drawn by matplotlib" in done.stdout
    assert "fix: pip install 'adjoint[plot]'" in done.stdout
    assert not (tmp_path / "loss.png").exists()


def hide_matplotlib(folder: Path) -> None:
    """For commands that run in a folder: as if it were not installed."""
    text = "raise ModuleNotFoundError('hidden', name='matplotlib')"
    (folder / "matplotlib.py").write_text(text)


def test_a_broken_matplotlib_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(plot.NoMatplotlib, match=r"pip install 'adjoint\[plot\]'"):
        plot.save_recovery("never.png", [1.0], [1.0], [1.0])
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    for name in [n for n in sys.modules if n.startswith(("matplotlib.figure", "PIL"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match="PIL") as caught:
        plot.save_recovery("never.png", [1.0], [1.0], [1.0])
    assert not isinstance(caught.value, plot.NoMatplotlib)


def test_pictures_leave_pyplot_alone_and_follow_the_name(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    losses, values = [1.0, math.nan, 0.0, 0.1], [1.0, 2.0]
    for name, start in (
        ("a.svg", b"<?xml"),
        ("a.pdf", b"%PDF"),
        ("a", b"\x89PNG"),
        ("a.x", b"\x89PNG"),
    ):
        plot.save_recovery(tmp_path / name, losses, values, values)
        assert (tmp_path / name).read_bytes().startswith(start)
    program = (
        "import sys; from adjoint import plot\n"
        "plot.save_recovery('b.png', [1.0, 0.1], [1.0], [1.0])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_plot_reaches_from_corner_to_corner() -> None:
    text = plot.log_plot([10.0**-i for i in range(5)], width=10, height=5)
    rows = text.splitlines()
    assert rows[0].startswith("  1e+0 ┤") and len(rows) == 7
    assert rows[0][8] != " " and rows[4].rstrip()[-1] not in " │┤"


def test_plot_survives_values_that_have_no_logarithm() -> None:
    assert "no positive" in plot.log_plot([math.nan, 0.0, -1.0])
    assert "1e" in plot.log_plot([math.nan, 1.0, math.inf, 0.5])
    assert "1e" in plot.log_plot([2.0])


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
