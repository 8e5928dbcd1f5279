"""The command `adjoint check module:function`: its inputs, its text, its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_cli import adjoint, decode_png, hide_matplotlib

MODEL = """
import adjoint as ad

def model(x, scale=2.0):
    return (x.sin() * scale).sum()

model.check_inputs = lambda: (ad.tensor([1.0, 2.0, -0.5], dtype=ad.float64),)

def wrong(x):
    return x * x.detach()

def annotated(x: ad.Tensor, y: "float", z=0.5):
    return x * y + z

def two(a, b):
    return (a @ b).tanh()

def nested(params):
    return params["w"] * params["b"]

def random(x):
    return x * ad.rand_like(x)

def broken(x):
    return helper(x)

def helper(x):
    raise ValueError("the boiler is cold")

class Square(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0]

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "boiler.py").write_text(MODEL)
    (tmp_path / "faulty.py").write_text("import math\nmath.no_such_thing\n")
    return tmp_path


def test_a_right_function_exits_with_0_and_shows_both_plots(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    done = adjoint("check", "boiler:model", "--plot", "check.png", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("model: all right\n")
    for words in ("Taylor test of the second", "Step sweep of the first", "┊", "plots: check.png"):
        assert words in done.stdout
    assert done.stdout.endswith("\n\nmodel: all right\n")
    assert decode_png((folder / "check.png").read_bytes()) == (1200, 980)


def test_without_matplotlib_the_verdict_comes_all_the_same(folder: Path) -> None:
    hide_matplotlib(folder)
    done = adjoint("check", "boiler:model", "--no-plot", "--plot", "check.png", cwd=folder)
    assert done.returncode == 0 and done.stdout.endswith("model: all right\n"), done.stderr
    assert "no picture check.png" in done.stderr and "pip install 'adjoint[plot]'" in done.stderr
    assert not (folder / "check.png").exists()


def test_a_wrong_derivative_exits_with_1(folder: Path) -> None:
    done = adjoint("check", "boiler.py:wrong", "--shape", "3", "--no-plot", cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "WRONG first derivative" in done.stdout and "x[2]" in done.stdout
    assert "Step sweep of" not in done.stdout
    assert done.stdout.endswith("\n\nwrong: WRONG first derivative\n")


def test_custom_functions_are_checked_by_class(folder: Path) -> None:
    options = ("--input", "[0.5, 1.5]", "--order", "1", "--no-plot")
    done = adjoint("check", "boiler:Square", *options, cwd=folder)
    assert done.returncode == 1 and "1.5 times the numerical one" in done.stdout


def test_undecided_exits_with_3(folder: Path) -> None:
    done = adjoint("check", "boiler:random", "--shape", "3", cwd=folder)
    assert done.returncode == 3 and "UNDECIDED" in done.stdout


@pytest.mark.parametrize(
    ("function", "options", "inputs"),
    [
        ("annotated", (), ("x [3]", "y []", "z []")),
        ("two", ("--shape", "2,3", "--shape", "3x4"), ("a [2, 3]", "b [3, 4]")),
        ("two", ("--input", "[[1.0, 2.0]]", "--input", "[[3.0], [4.0]]"), ("a [1, 2]", "b [2, 1]")),
        (
            "nested",
            ("--input", "{'w': [1.0, 2.0], 'b': 0.5}"),
            ("params['w'] [2]", "params['b'] []"),
        ),
    ],
)
def test_inputs_are_found(
    folder: Path, function: str, options: tuple[str, ...], inputs: tuple[str, ...]
) -> None:
    done = adjoint("check", f"boiler:{function}", "--order", "1", "--no-plot", *options, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in inputs:
        assert f"\n  {name} " in done.stdout


def test_dtype_seed_and_tolerance_are_passed_on(folder: Path) -> None:
    options = ("--shape", "3", "--dtype", "float32", "--tolerance", "0.01", "--seed", "7")
    done = adjoint("check", "boiler:model", "--no-plot", *options, cwd=folder)
    assert done.returncode == 0 and "float32, relative tolerance 0.01" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("boiler",), "'boiler' is not module:function"),
        (("boiler:nothing",), "'boiler' has no 'nothing'; it has model, wrong"),
        (("boiler:number",), "is a int, not a function"),
        (("cooker:model",), "there is no module 'cooker'"),
        (("cooker.py:model",), "there is no file 'cooker.py'"),
        (("boiler:wrong",), "no value for the argument 'x'.\n  fix: --shape"),
        (("boiler:wrong", "--shape", "3,a"), "--shape 3,a: expected sizes"),
        (("boiler:wrong", "--input", "[1, oops]"), "--input [1, oops]: not a number"),
        (("boiler:wrong", "--input", "[1.0, [2.0]]"), "--input [1.0, [2.0]]: "),
        (("boiler:wrong", "--input", "1.0", "--shape", "3"), "use one of them"),
        (("boiler:wrong", "--shape", "3", "--dtype", "int64"), "not a floating-point dtype"),
        (("boiler:wrong", "--shape", "3", "--tolerance", "7"), "must be between 0 and 1, got 7"),
    ],
)
def test_bad_usage_exits_with_2_and_a_fix(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = adjoint("check", *arguments, cwd=folder)
    assert done.returncode == 2 and message in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_picture_that_cannot_be_written_exits_with_2(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    done = adjoint("check", "boiler:model", "--plot", "no/such/folder.png", cwd=folder)
    assert done.returncode == 2 and "cannot write 'no/such/folder.png'" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_of_the_function_come_with_its_traceback(folder: Path) -> None:
    done = adjoint("check", "boiler:broken", "--shape", "3", cwd=folder)
    assert done.returncode == 2
    assert "broken could not be checked" in done.stderr
    assert "in helper" in done.stderr and "ValueError: the boiler is cold" in done.stderr
    assert "adjoint/check" not in done.stderr


def test_errors_while_importing_come_with_their_traceback(folder: Path) -> None:
    done = adjoint("check", "faulty:f", "--shape", "3", cwd=folder)
    assert done.returncode == 2 and "importing 'faulty' raised" in done.stderr
    assert "line 2, in <module>" in done.stderr and "importlib" not in done.stderr
