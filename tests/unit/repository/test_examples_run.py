"""Every example runs with adjoint and, where torch is installed, prints the same with both.

Examples of what PyTorch does not have import adjoint by its name; they run with adjoint alone, and
say themselves whether their numbers are right.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import ENVIRONMENT

ROOT = Path(__file__).parents[3] / "examples"
# Those of science/ are run, and their gradients verified, by tests/science.
EVERY = sorted(
    name
    for name in (str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
    if not name.startswith("science")
)
OWN = [name for name in EVERY if "import adjoint" in (ROOT / name).read_text(encoding="utf-8")]
EXAMPLES = [name for name in EVERY if name not in OWN]


def output(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples() -> None:
    assert "train_mlp.py" in EXAMPLES and len(EXAMPLES) >= 9


# The last line that each prints.
ENDS = {
    "compile_loop.py": "the same gradient: True",
    "composites/callable_class.py": "mean 1.000, width 0.700, still a bump",
    "composites/dict_of_dicts.py": "learnt: True",
    "composites/function_of_composites.py": "derivative is right: True",
    "composites/namedtuple_of_two.py": "y tensor([ 6., 16.])",
    "composites/rigid_body.py": "agrees with finite differences: True",
    "composites/tree_of_depth_five.py": "offset tensor([1., 1.])",
    "external/c_library.py": "gradient is right: True",
    "external/composite_to_composite.py": "gradient is right: True",
    "external/conductivity.py": "field recovered: True",
    "external/executable.py": "gradient is right: True",
    "external/fortran_routine.py": "gradient is right: True",
    "external/two_values.py": "gradient is right: True",
    "loops/million_steps.py": "the same gradient: True",
}
# What some need beyond Python: a program, or a package.
PROGRAMS = {"external/c_library.py": "cc", "external/fortran_routine.py": "gfortran"}
SCIPY = ("external/composite_to_composite.py", "external/conductivity.py")


def test_every_example_of_adjoint_alone_is_run() -> None:
    assert list(ENDS) == OWN


@pytest.mark.parametrize("example", ENDS)
def test_example_of_adjoint_alone_ends_well(example: str, tmp_path: Path) -> None:
    program = PROGRAMS.get(example)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if example in SCIPY:
        pytest.importorskip("scipy")
    picture = tmp_path / "conductivity.png"
    drawn = "conductivity" in example and importlib.util.find_spec("matplotlib") is not None
    lines = output(example, *["--save", str(tmp_path)] * drawn).splitlines()
    assert lines[-1] == ENDS[example]
    assert not any(line.endswith("False") for line in lines)
    assert not drawn or picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("example", PROGRAMS)
def test_example_without_its_compiler_says_what_to_install(example: str) -> None:
    done = subprocess.run(
        [sys.executable, example],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=ENVIRONMENT | {"PATH": ""},
    )
    assert done.returncode == 1
    assert "apt-get install" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_prints_what_pytorch_prints(example: str) -> None:
    ours = output("-m", "adjoint", "run", example)
    assert ours
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: ran with adjoint alone")
    assert ours == output(example)
