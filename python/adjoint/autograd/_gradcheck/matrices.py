"""Whole Jacobians as tensors, for the two functions of PyTorch that return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._creation import from_numpy
from adjoint.autograd.gradcheck import GradcheckError

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
    targets = problem.inputs if target is None else named_tensors(as_arguments(target))
    found = []
    for item in targets:
        which = next((n for n, own in enumerate(problem.inputs) if own.tensor is item.tensor), None)
        if which is None:
            raise ValueError(f"target {item.name} is not among the inputs that require grad")
        found.append(
            _shown(numerical.jacobian(problem, which, tolerance)[0], item.tensor, problem, 0)
        )
    return found


def analytical_jacobians(
    inputs: Any, output: Tensor, nondet_tol: float
) -> tuple[list[Tensor], bool, bool, bool]:
    """The Jacobians of ``output`` and whether backward behaved."""
    problem = Problem(lambda *_: output, as_arguments(inputs))
    findings = Findings()
    sizes = True
    try:
        matrices = analytical.jacobian(problem, [output], 0, findings)
    except GradcheckError:
        return [], False, False, False
    jacobians = [
        _shown(matrix, item.tensor, problem, 0)
        for matrix, item in zip(matrices, problem.inputs, strict=True)
    ]
    return jacobians, findings.nondeterminism <= nondet_tol, sizes, not findings.wrong_dtypes


def _shown(matrix: Matrix, input: Tensor, problem: Problem, output: int) -> Tensor:
    part = "real" if problem.outputs[output].tensor.is_complex() else ""
    return from_numpy(np.ascontiguousarray(shown(matrix, input.is_complex(), part)))
