"""Whole Jacobians as tensors, for the two functions of PyTorch that return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.creation import from_numpy

from . import analytical, numerical
from .analytical import Findings
from .compare import shown
from .problem import Matrix, Problem, as_arguments, named_tensors
from .tolerance import fit


def numerical_jacobians(
    fn: Callable[[Any], Any], inputs: Any, target: Any, eps: float
) -> list[Tensor]:
    """Differences of the first output, for each target."""
    problem = Problem(lambda *_: fn(inputs), as_arguments(inputs))
    tolerance = fit(eps, 0.0, 0.0, [_core.float64])
    _refuse_complex(problem, "get_numerical_jacobian")
    targets = problem.inputs if target is None else named_tensors(as_arguments(target))
    found = []
    for item in targets:
        which = next((n for n, own in enumerate(problem.inputs) if own.tensor is item.tensor), None)
        if which is None:
            raise ValueError(f"target {item.name} is not among the inputs that require grad")
        found.append(_shown(numerical.jacobian(problem, which, tolerance)[0], item.tensor))
    return found


def analytical_jacobians(
    inputs: Any, output: Tensor, nondet_tol: float
) -> tuple[list[Tensor], bool, bool, bool]:
    """The Jacobians of ``output`` and whether backward behaved."""
    problem = Problem(lambda *_: output, as_arguments(inputs))
    _refuse_complex(problem, "get_analytical_jacobian")
    findings = Findings()
    matrices = analytical.jacobian(problem, [output], 0, findings)
    jacobians = [
        _shown(matrix, item.tensor) for matrix, item in zip(matrices, problem.inputs, strict=True)
    ]
    # A gradient of another shape has raised already.
    return jacobians, findings.nondeterminism <= nondet_tol, True, not findings.wrong_dtypes


def _refuse_complex(problem: Problem, name: str) -> None:
    if problem.outputs[0].tensor.is_complex():
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return "
            "complex outputs.\n  fix: take the real and the imaginary part of the output in turn"
        )


def _shown(matrix: Matrix, input: Tensor) -> Tensor:
    return from_numpy(np.ascontiguousarray(shown(matrix, input.is_complex(), "")))
