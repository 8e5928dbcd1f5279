"""Messages at the limits: too many axes, arguments, results or transforms, too much memory."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core, func
from adjoint.autograd import Function
from tests.errors.table import Row, check, refusals

core: Any = _core


class Many(Function):
    """The first of many tensors; or one, many times."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> Any:
        return tuple(tensors[0].clone() for _ in range(count)) if count > 1 else tensors[0] * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *grads


def nested_array(depth: int) -> Any:
    kind: Any = ctypes.c_float
    for _ in range(depth):
        kind = kind * 1
    return kind()


def nested(depth: int) -> Any:
    if depth == 0:
        return ad.tensor(1.0)
    return func.vmap(lambda _: nested(depth - 1), out_dims=None)(ad.ones(1))


@refusals(
    (
        lambda: Many.apply(1, *[ad.ones(1, requires_grad=True)] * 70_000),
        RuntimeError,
        "a function of 70001 tensors",
    ),
    (
        lambda: Many.apply(70_000, ad.ones(1, requires_grad=True)),
        RuntimeError,
        "Many returned 70000 outputs",
    ),
    (lambda: ad.empty(2**45), RuntimeError, "memory"),
    (lambda: ad.ones(1).expand(2**45).clone(), RuntimeError, "memory"),
    (lambda: ad.ones(1).expand(2**62).sum(), RuntimeError, "a count in the arguments of this"),
    (lambda: core._from_buffer(nested_array(65)), ValueError, "a tensor has at most 64 dimensions"),
    (lambda: ad.set_num_threads(0), RuntimeError, "up to 1024, but got 0"),
)
def test_limits(row: Row) -> None:
    check(row)


def test_transforms_inside_one_another() -> None:
    with pytest.raises(RuntimeError, match="transforms inside one another"):
        nested(100)
    assert nested(2).item() == 1  # nothing was left open


SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
code = "try:\\n import adjoint._core\\nexcept ImportError as e: print(e)"
interpreters.run_string(other, code)
interpreters.destroy(other)
"""


def test_a_second_interpreter_is_told_that_it_cannot() -> None:
    command = [sys.executable, "-c", SUBINTERPRETER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    # From 3.12 on Python itself may say so first.
    said = ("adjoint cannot be imported in a subinterpreter", "does not support loading in sub")
    assert any(one in done.stdout for one in said), done.stderr
