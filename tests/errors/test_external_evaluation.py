"""Messages of externals whose evaluation ends without a result, and of what they lack."""

from __future__ import annotations

import concurrent.futures as cf
import ctypes
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import func
from adjoint.external._function import Pull
from adjoint.parallel._ray import RayExecutor
from tests.errors.table import Row, check, refusals

EvaluationError = ad.external.EvaluationError


def leaf(*values: float) -> Any:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


x = leaf(1.0, 2.0).detach()


class Ends(cf.Executor):
    """An executor whose futures end otherwise than with a result."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def submit(self, *_: Any, **__: Any) -> Any:
        future: cf.Future[Any] = cf.Future()
        if self.error is None:
            future.cancel()
        else:
            future.set_exception(self.error)
        return future


def evaluate(error: Exception | None) -> None:
    ad.external(np.sin, workers=Ends(error))(leaf(1.0)).sum().backward()


def after_shutdown() -> None:
    executor = object.__new__(RayExecutor)  # without Ray
    executor._closed = True
    executor.submit(abs, 1)


def third() -> None:
    cube = ad.external(lambda a: a**3)

    def along(f: Any) -> Any:
        return lambda a: func.jvp(f, (a,), (ad.ones_like(a),))[1]

    func.grad(lambda a: along(along(cube))(a).sum())(x)


def unknown_size() -> None:
    types = ["int n", "out double[m] y", "double[n] x"]
    ad.ctypes_function(ctypes.CDLL(None), "memcpy", types)([1.0])


@refusals(
    (lambda: evaluate(TimeoutError("late")), EvaluationError, "TimeoutError('late')"),
    (lambda: evaluate(None), EvaluationError, "was cancelled"),
    (after_shutdown, RuntimeError, "cannot schedule new futures after shutdown"),
    (third, RuntimeError, "an external has no third derivative by differences"),
    (unknown_size, ValueError, "no input tells the size m"),
    (
        lambda: ad.external.command(["a"], outputs=["p", "q"], format="npy"),
        ValueError,
        "several outputs in npy format need files: {output_name} for each",
    ),
    (
        lambda: func.vmap(lambda a: Pull.apply(None, 1, a, a))(ad.ones(2, 3)),
        RuntimeError,
        "vmap over the derivative of an external whose input is batched too",
    ),
)
def test_externals(row: Row) -> None:
    check(row)
