"""The Jacobian by forward mode, and what forward mode owes to missing tangents and to batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd.gradcheck import GradcheckError

from .checks import agree, require_match
from .numerical import Numerical
from .problem import Matrix, Problem, Vector, coordinates, to_tensor, to_vector
from .projection import OUTPUT_SEED, draw

if TYPE_CHECKING:
    from .checks import Options


def check_forward(numbers: Numerical, options: Options) -> None:
    """All checks of forward mode that are asked for."""
    if options.fast_mode:
        fast(numbers)
    else:
        slow(numbers)
    if options.check_undefined_grad:
        check_undefined(numbers)
    if options.check_batched_forward_grad:
        check_batched(numbers)


def push(problem: Problem, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tangents of the outputs for tangents of the inputs; None is an input without one.

    The inputs come without requires_grad: backward has no part in this.
    """
    from adjoint.autograd import forward_ad  # type: ignore[attr-defined, unused-ignore]

    with forward_ad.dual_level():
        duals = [
            item.tensor.detach()
            if tangent is None
            else forward_ad.make_dual(item.tensor.detach(), tangent)
            for item, tangent in zip(problem.inputs, tangents, strict=True)
        ]
        results = problem.call_with(duals)
        return [forward_ad.unpack_dual(result).tangent for result in results]


def _pushed(problem: Problem, which: int, direction: Vector) -> list[Vector]:
    """As `push` with a tangent for one input and zeros for the others, in coordinates."""
    tangents = [_core.zeros_like(item.tensor.detach()) for item in problem.inputs]
    tangents[which] = to_tensor(direction, problem.inputs[which].tensor.detach())
    return [
        _vector(tangent, item.tensor)
        for tangent, item in zip(push(problem, tangents), problem.outputs, strict=True)
    ]


def _vector(tangent: Tensor | None, output: Tensor) -> Vector:
    if tangent is None:
        return np.zeros(coordinates(output))
    if tangent.shape != output.shape:
        raise GradcheckError(
            f"the tangent of an output of shape {list(output.shape)} has shape "
            f"{list(tangent.shape)}"
        )
    return to_vector(tangent.to(output.dtype) if output.is_complex() else tangent)


def _jacobian(problem: Problem, which: int) -> list[Matrix]:
    size = coordinates(problem.inputs[which].tensor)
    matrices = [np.zeros((size, coordinates(item.tensor))) for item in problem.outputs]
    for row in range(size):
        direction = np.zeros(size)
        direction[row] = 1.0
        for matrix, values in zip(matrices, _pushed(problem, which, direction), strict=True):
            matrix[row] = values
    return matrices


def slow(numbers: Numerical) -> None:
    """Compare every entry of every Jacobian."""
    for i in range(len(numbers.problem.inputs)):
        for k, matrix in enumerate(_jacobian(numbers.problem, i)):
            require_match(numbers, i, k, matrix, bool(np.any(matrix)), forward=True)


def fast(numbers: Numerical) -> None:
    """Compare vᵀJu for random u and v."""
    problem = numbers.problem
    for i in range(len(problem.inputs)):
        tangents = _pushed(problem, i, numbers.along(i).by / numbers.tolerance.eps)
        for k, tangent in enumerate(tangents):
            weights = draw(tangent.size, OUTPUT_SEED + k)
            if not agree(numbers, i, k, weights, float(tangent @ weights)):
                matrix = _jacobian(problem, i)[k]
                require_match(numbers, i, k, matrix, bool(np.any(matrix)), forward=True)


def check_undefined(numbers: Numerical) -> None:
    """An input without a tangent counts as one with zeros."""
    problem = numbers.problem
    directions = [
        to_tensor(u, item.tensor.detach())
        for u, item in zip(numbers.directions, problem.inputs, strict=True)
    ]
    for i, item in enumerate(problem.inputs):
        tangents: list[Tensor | None] = list(directions)
        tangents[i] = _core.zeros_like(item.tensor.detach())
        expected = push(problem, tangents)
        if len(tangents) == 1:
            continue  # without any tangent there is no forward mode to speak of
        tangents[i] = None
        got = push(problem, tangents)
        for output, a, b in zip(problem.outputs, got, expected, strict=True):
            x, y = _vector(a, output.tensor), _vector(b, output.tensor)
            if not np.allclose(x, y, equal_nan=True):
                raise GradcheckError(
                    "Expected forward mode to handle undefined tangents: without a tangent for "
                    f"input {item.name}, that of output {output.name} differs from the one with "
                    f"zeros by {np.abs(x - y).max():.4g}\n  fix: let jvp treat None as zeros"
                )


def check_batched(numbers: Numerical) -> None:
    """A batch of tangents in one call equals the tangents one by one."""
    problem, tolerance = numbers.problem, numbers.tolerance
    vmap = _vmap()
    for i, item in enumerate(problem.inputs):
        like = item.tensor.detach()
        rows = [to_tensor(draw(coordinates(like), i + n), like) for n in range(2)]

        def tangents_for(row: Tensor, i: int = i) -> tuple[Tensor, ...]:
            tangents = [_core.zeros_like(other.tensor.detach()) for other in problem.inputs]
            tangents[i] = row
            return tuple(
                _core.zeros_like(output.tensor.detach()) if tangent is None else tangent
                for tangent, output in zip(push(problem, tangents), problem.outputs, strict=True)
            )

        alone = [tangents_for(row) for row in rows]
        try:
            together = vmap(tangents_for)(_core.stack(rows))
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched forward gradient "
                f"computation: vmap over tangents of input {item.name} raises "
                f"{type(error).__name__}: {error}"
            ) from error
        for k, output in enumerate(problem.outputs):
            for n in range(2):
                x, y = to_vector(together[k][n]), to_vector(alone[n][k])
                if not np.allclose(x, y, tolerance.rtol, tolerance.atol, equal_nan=True):
                    raise GradcheckError(
                        "gradcheck or gradgradcheck failed while testing batched forward gradient "
                        f"computation: for input {item.name} and output {output.name}, row {n} of "
                        f"the batch differs from the tangent alone by {np.abs(x - y).max():.4g}"
                    )


def _vmap() -> Any:
    try:
        from adjoint.func import vmap  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise NotImplementedError(
            "check_batched_forward_grad=True needs adjoint.func.vmap, which this version does not "
            "have.\n  fix: leave check_batched_forward_grad out"
        ) from None
    return vmap
