"""Every example runs with adjoint and, where torch is installed, prints the same with both.

Examples of what PyTorch does not have import adjoint by its name; they run with adjoint alone, and
say themselves whether their numbers are right.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad

ROOT = Path(__file__).parents[2] / "examples"
# The examples run in a folder of their own, where a relative PYTHONPATH would lead nowhere.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(ad.__file__).parents[1])}
EVERY = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
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
COMPOSITES = {
    "callable_class.py": "mean 1.000, width 0.700, still a bump",
    "dict_of_dicts.py": "learnt: True",
    "function_of_composites.py": "derivative is right: True",
    "namedtuple_of_two.py": "y tensor([ 6., 16.])",
    "rigid_body.py": "agrees with finite differences: True",
    "tree_of_depth_five.py": "offset tensor([1., 1.])",
}


def test_every_example_of_adjoint_alone_is_run() -> None:
    assert [name.removeprefix("composites/") for name in OWN] == list(COMPOSITES)


@pytest.mark.parametrize("example", COMPOSITES)
def test_example_of_composites_ends_well(example: str) -> None:
    assert output(f"composites/{example}").splitlines()[-1] == COMPOSITES[example]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_prints_what_pytorch_prints(example: str) -> None:
    ours = output("-m", "adjoint", "run", example)
    assert ours
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: ran with adjoint alone")
    assert ours == output(example)
