"""`adjoint run` takes what `python` takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import ENVIRONMENT

TELL = "import sys, torch\nprint(__name__, globals().get('__file__'), sys.argv, sys.path[0])\n"


def run(*args: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "adjoint", "run", *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        input=stdin,
        env=ENVIRONMENT,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(TELL)
    (package / "part.py").write_text(
        TELL + "def f():\n    raise KeyError(1)\nif sys.argv[1:2] == ['fail']:\n    f()\n"
    )
    (tmp_path / "script.py").write_text(TELL)
    return tmp_path


def test_a_file_by_a_relative_path(project: Path) -> None:
    done = run("script.py", "-x", "--help", cwd=project)
    path = project / "script.py"
    assert done.stdout == f"__main__ {path} ['script.py', '-x', '--help'] {project}\n"


def test_a_module_and_its_arguments(project: Path) -> None:
    done = run("-m", "package.part", "-m", "b", cwd=project)
    path = str(project / "package" / "part.py")
    assert done.stdout == f"__main__ {path} {[path, '-m', 'b']} {project}\n"
    done = run("-m", "package.part", "fail", cwd=project)
    assert done.returncode == 1 and done.stderr.endswith("KeyError: 1\n")
    assert "runpy" not in done.stderr and "adjoint" not in done.stderr
    done = run("-m", "no_such_module", cwd=project)
    assert done.returncode == 1 and done.stderr == "adjoint run: No module named no_such_module\n"


def test_code_and_the_standard_input(project: Path) -> None:
    done = run("-c", TELL, "a", "-c", cwd=project)
    assert done.stdout == "__main__ None ['-c', 'a', '-c'] \n"
    done = run("-", "q", cwd=project, stdin=TELL + "raise ValueError(3)")
    assert done.stdout == "__main__ None ['-', 'q'] \n"
    assert done.returncode == 1 and done.stderr.endswith("ValueError: 3\n")


def test_a_folder_with_a_main_file(project: Path) -> None:
    done = run("package", "z", cwd=project)
    assert done.stdout.startswith("__main__ ") and "['package', 'z']" in done.stdout


@pytest.mark.parametrize("args", [(), ("-m",), ("--what",)])
def test_what_is_not_a_program_gets_the_usage(args: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2 and "usage: adjoint run" in done.stderr


def test_spawned_processes_have_the_same_torch(project: Path) -> None:
    (project / "package" / "spawning.py").write_text(
        "import multiprocessing, torch\n"
        "def child(queue):\n"
        "    queue.put((torch.__version__, __name__))\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=child, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get())\n"
        "    process.join()\n"
    )
    done = run("-m", "package.spawning", cwd=project)
    assert done.stdout == "('2.13.0+adjoint', '__mp_main__')\n", done.stderr
