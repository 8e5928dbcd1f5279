"""What backward owes to an output whose gradient is missing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd._backward import grad
from adjoint.autograd.function import Function
from adjoint.autograd.gradcheck import GradcheckError

from .analytical import Findings
from .problem import Problem, coordinates, to_tensor, to_vector
from .projection import draw

WARNING = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by "
    "default, but it may break existing callers of this function. If this is true for you, you can "
    "call this function with check_undefined_grad=False to disable the feature"
)


def check_undefined(problem: Problem, outputs: Sequence[Tensor], findings: Findings) -> None:
    """An output without a gradient counts as one with zeros.

    Each output has been the only one with a gradient while the Jacobians were computed
    (``findings``). Here each gets none at all, and is left out in turn.
    """
    try:
        for which, error in findings.refused.items():
            _refuse(f"with a gradient for output {problem.outputs[which].name} only,", error)
        for which, output in enumerate(outputs):
            _check_nothing(problem, problem.outputs[which].name, output)
        if len(outputs) > 1:
            _check_left_out(problem, outputs)
    except GradcheckError:
        warnings.warn(WARNING, UserWarning, stacklevel=5)
        raise


def _check_nothing(problem: Problem, name: str, output: Tensor) -> None:
    """Backward with None for the output gives None or zeros."""
    tensors = [item.tensor for item in problem.inputs]
    when = f"with None as the gradient of output {name},"
    try:
        got = grad(
            _Undefined.apply(output),
            tensors,
            _core.ones_like(output),
            retain_graph=True,
            allow_unused=True,
        )
    except Exception as error:
        _refuse(when, error)
    for item, g in zip(problem.inputs, got, strict=True):
        if g is not None and np.any(to_vector(g)):
            _refuse(f"{when} the gradient of input {item.name} is not zero")


class _Undefined(Function):
    """Passes a value on, and no gradient back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """A copy."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        """Nothing."""
        return


def _check_left_out(problem: Problem, outputs: Sequence[Tensor]) -> None:
    tensors = [item.tensor for item in problem.inputs]
    for left_out in range(len(outputs)):
        weights = [to_tensor(draw(coordinates(o), k), o) for k, o in enumerate(outputs)]
        weights[left_out] = _core.zeros_like(outputs[left_out])
        expected = grad(outputs, tensors, weights, retain_graph=True, allow_unused=True)
        others = [k for k in range(len(outputs)) if k != left_out]
        when = f"without a gradient for output {problem.outputs[left_out].name},"
        try:
            got = grad(
                [outputs[k] for k in others],
                tensors,
                [weights[k] for k in others],
                retain_graph=True,
                allow_unused=True,
            )
        except Exception as error:
            _refuse(when, error)
        for item, a, b in zip(problem.inputs, got, expected, strict=True):
            x, y = (np.zeros(1) if g is None else to_vector(g) for g in (a, b))
            if not np.allclose(x, y, equal_nan=True):
                apart = np.abs(x - y).max()
                _refuse(
                    f"{when} the gradient of input {item.name} differs from the one with zeros by "
                    f"{apart:.4g}"
                )


def _refuse(what: str, error: Exception | None = None) -> NoReturn:
    raised = "" if error is None else f" backward raises {type(error).__name__}: {error}"
    raise GradcheckError(
        f"Expected backward function to handle undefined output grads: {what}{raised}\n"
        "  fix: let backward treat None as zeros"
    ) from error
