"""The Jacobian as backward computes it, one output coordinate at a time.

For a cotangent v the engine returns the gradient of Re⟨v, f⟩, its real and imaginary parts being
the derivatives along those of the input. So v = 1 gives the column of an output's real part and v =
i that of its imaginary part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from adjoint._core import Tensor, zeros_like
from adjoint.autograd._backward import grad
from adjoint.autograd.gradcheck import GradcheckError

from .problem import Matrix, Named, Problem, Vector, coordinates, to_tensor, to_vector


@dataclass
class Findings:
    """What is learnt about backward on the way to the Jacobian."""

    nondeterminism: float = 0.0
    wrong_dtypes: list[str] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)  # inputs that got a gradient at all
    # Outputs whose gradient alone backward could not take, with what it raised.
    refused: dict[int, Exception] = field(default_factory=dict)


def pull(
    outputs: Sequence[Tensor],
    which: int,
    inputs: Sequence[Named],
    weights: Vector,
    findings: Findings,
) -> list[Vector]:
    """The gradients of one weighted output, computed twice to see that they are the same."""
    weight = to_tensor(weights, outputs[which])
    tensors = [item.tensor for item in inputs]
    first, second = (_gradients(outputs, which, tensors, weight, findings) for _ in range(2))
    vectors: list[Vector] = []
    for n, (item, got, again) in enumerate(zip(inputs, first, second, strict=True)):
        if got is None:
            vectors.append(np.zeros(coordinates(item.tensor)))
            continue
        findings.reached.add(n)
        vectors.append(_examined(item, got, findings))
        if again is not None and got.numel():
            difference = np.abs(vectors[-1] - _examined(item, again, findings))
            known = difference[~np.isnan(difference)]
            findings.nondeterminism = max(findings.nondeterminism, float(known.max(initial=0.0)))
    return vectors


def _gradients(
    outputs: Sequence[Tensor],
    which: int,
    tensors: Sequence[Tensor],
    weight: Tensor,
    findings: Findings,
) -> tuple[Tensor | None, ...]:
    """The other outputs get no gradient, or zeros if backward cannot do without one."""
    try:
        return grad(outputs[which], tensors, weight, retain_graph=True, allow_unused=True)
    except Exception as error:
        if len(outputs) == 1:
            raise
        filled = [weight if k == which else zeros_like(o) for k, o in enumerate(outputs)]
        try:
            result = grad(outputs, tensors, filled, retain_graph=True, allow_unused=True)
        except Exception:
            raise error from None
        findings.refused.setdefault(which, error)
        return result


def _examined(item: Named, got: Tensor, findings: Findings) -> Vector:
    if got.shape != item.tensor.shape:
        raise GradcheckError(
            f"Analytical gradient has incorrect size: it is {list(got.shape)} for input "
            f"{item.name} of shape {list(item.tensor.shape)}"
        )
    if got.dtype != item.tensor.dtype:
        note = f"input {item.name} is {item.tensor.dtype}, its gradient is {got.dtype}"
        if note not in findings.wrong_dtypes:
            findings.wrong_dtypes.append(note)
        if got.is_complex() != item.tensor.is_complex():
            got = got.to(item.tensor.dtype) if item.tensor.is_complex() else got.real
    return to_vector(got)


def jacobian(
    problem: Problem, outputs: Sequence[Tensor], which: int, findings: Findings
) -> list[Matrix]:
    """d(output ``which``)/d(input) for every input: a row per coordinate of the input."""
    output = outputs[which]
    size = coordinates(output)
    matrices = [np.zeros((coordinates(item.tensor), size)) for item in problem.inputs]
    for column in range(size):
        weights = np.zeros(size)
        weights[column] = 1.0
        for matrix, values in zip(
            matrices, pull(outputs, which, problem.inputs, weights, findings), strict=True
        ):
            matrix[:, column] = values
    return matrices
