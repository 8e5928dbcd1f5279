"""What is compared with what; ``run`` is the whole of gradcheck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd._backward import grad
from adjoint.autograd.gradcheck import GradcheckError

from . import analytical, numerical
from .analytical import Findings
from .compare import find_mismatch
from .numerical import Numerical
from .problem import Matrix, Problem, Vector, coordinates, to_tensor, to_vector
from .projection import OUTPUT_SEED, draw
from .report import describe_mismatch
from .tolerance import Tolerance, fit
from .undefined import check_undefined

# A failed fast check is settled by the whole Jacobian up to this many entries.
LARGEST_JACOBIAN = 4_000_000


@dataclass(frozen=True)
class Options:
    """The switches of gradcheck under their own names."""

    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool


def run(problem: Problem, eps: float, atol: float, rtol: float, options: Options) -> bool:
    """True, or GradcheckError."""
    checked = [item.tensor.dtype for item in (*problem.inputs, *problem.outputs)]
    tolerance = fit(eps, atol, rtol, checked)
    if not problem.differentiable:
        check_zero(problem, tolerance)
        return True
    directions = [draw(coordinates(item.tensor), i) for i, item in enumerate(problem.inputs)]
    numbers = Numerical(problem, tolerance, directions)
    if options.check_backward_ad:
        outputs = problem.fresh_outputs()
        findings = Findings()
        compare = fast if options.fast_mode else slow
        compare(numbers, outputs, findings)
        _check_findings(findings, options)
        check_zero_weights(problem, outputs)
        if options.check_undefined_grad:
            check_undefined(problem, outputs, findings)
        if options.check_batched_grad:
            check_batched(problem, outputs, tolerance)
    if options.check_forward_ad:
        from .forward import check_forward

        check_forward(numbers, options)
    return True


def check_zero(problem: Problem, tolerance: Tolerance) -> None:
    """Outputs without a graph must not depend on the inputs."""
    for i, item in enumerate(problem.inputs):
        for output, matrix in zip(
            problem.outputs, numerical.jacobian(problem, i, tolerance), strict=True
        ):
            bounds = tolerance.absolute(to_vector(output.tensor), to_vector(item.tensor))
            largest = float(np.abs(matrix).max(initial=0.0))
            if not (np.abs(matrix) <= bounds[:, None]).all():
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero: no output requires grad, "
                    f"but output {output.name} changes by {largest:.4g} per unit of input "
                    f"{item.name}.\n  likely cause  the computation leaves the graph (tensor(...) "
                    "of a tensor, detach(), .item(), .numpy(), no_grad())"
                )


def slow(numbers: Numerical, outputs: Sequence[Tensor], findings: Findings) -> None:
    """Compare every entry of every Jacobian."""
    for k in range(len(outputs)):
        findings.reached.clear()
        matrices = analytical.jacobian(numbers.problem, outputs, k, findings)
        for i, matrix in enumerate(matrices):
            require_match(numbers, i, k, matrix, i in findings.reached)


def require_match(
    numbers: Numerical, i: int, k: int, matrix: Matrix, reached: bool, forward: bool = False
) -> None:
    """Raise unless ``matrix`` is the Jacobian of output ``k`` for input ``i``."""
    problem, tolerance = numbers.problem, numbers.tolerance
    found = find_mismatch(problem, i, k, numbers.jacobian(i, k), matrix, tolerance, forward)
    if found is not None:
        raise GradcheckError(describe_mismatch(problem, found, tolerance, reached))


def fast(numbers: Numerical, outputs: Sequence[Tensor], findings: Findings) -> None:
    """Compare one number per Jacobian, vᵀJu for random u and v; settle doubts entry by entry."""
    problem = numbers.problem
    for k, output in enumerate(outputs):
        weights = draw(coordinates(output), OUTPUT_SEED + k)
        gradients = analytical.pull(outputs, k, problem.inputs, weights, findings)
        for i in range(len(problem.inputs)):
            with np.errstate(all="ignore"):
                got = float(gradients[i] @ numbers.along(i).by) / numbers.tolerance.eps
            if agree(numbers, i, k, weights, got):
                continue
            own = Findings()
            matrix = analytical.jacobian(problem, outputs, k, own)[i]
            require_match(numbers, i, k, matrix, i in own.reached)


def agree(numbers: Numerical, i: int, k: int, weights: Vector, got: float) -> bool:
    """Whether vᵀJu is what the differences say; False asks for the whole Jacobian.

    Raises where that would be too large.
    """
    problem, tolerance = numbers.problem, numbers.tolerance
    output = to_vector(problem.outputs[k].tensor)
    with np.errstate(all="ignore"):
        expected = float(numbers.along(i).changes[k] @ weights) / tolerance.eps
    if abs(got - expected) <= tolerance.projected(output, expected):
        return True
    rows, columns = coordinates(problem.inputs[i].tensor), weights.size
    if rows * columns <= LARGEST_JACOBIAN:
        return False
    # Errors that are each allowed add up like a random walk.
    spread = tolerance.projected(output, 0.0) * (rows * columns) ** 0.5
    if abs(got - expected) <= spread + tolerance.rtol * abs(expected):
        return True
    raise GradcheckError(
        f"Jacobian mismatch for output {problem.outputs[k].name} with respect to input "
        f"{problem.inputs[i].name}: for random u and v, vᵀJu is {expected:.7g} numerically and "
        f"{got:.7g} analytically. The Jacobian has {rows} × {columns} entries, too many to look "
        "for the wrong ones.\n  fix: check smaller inputs to see which entries are wrong"
    )


def _check_findings(findings: Findings, options: Options) -> None:
    if findings.nondeterminism > options.nondet_tol:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values, although analytical gradient matches numerical "
            f"gradient: they differ by {findings.nondeterminism:.3g}. The tolerance for "
            f"nondeterminism was {options.nondet_tol}.\n  likely cause  random numbers or a state "
            "that changes in a backward or a hook; nondet_tol= allows for it"
        )
    if options.check_grad_dtypes and findings.wrong_dtypes:
        raise GradcheckError("Gradient has dtype mismatch: " + "; ".join(findings.wrong_dtypes))


def check_zero_weights(problem: Problem, outputs: Sequence[Tensor]) -> None:
    """Backward is linear: a zero gradient comes back as zero."""
    weights = [_core.zeros_like(output) for output in outputs]
    tensors = [item.tensor for item in problem.inputs]
    results = grad(outputs, tensors, weights, retain_graph=True, allow_unused=True)
    for item, got in zip(problem.inputs, results, strict=True):
        if got is None or not np.any(to_vector(got)):
            continue
        largest = np.abs(to_vector(got)).max()
        raise GradcheckError(
            "backward not multiplied by grad_output: with a zero gradient for every output, the "
            f"gradient of input {item.name} is not zero but up to {largest:.4g}.\n"
            "  likely cause  a backward or a hook adds a constant, or divides 0 by 0"
        )


def check_batched(problem: Problem, outputs: Sequence[Tensor], tolerance: Tolerance) -> None:
    """A batch of gradients in one call equals the gradients one by one."""
    tensors = [item.tensor for item in problem.inputs]
    for k, output in enumerate(outputs):
        weights = [to_tensor(draw(coordinates(output), 7 * k + n), output) for n in range(2)]
        single = [
            grad(output, tensors, weight, retain_graph=True, allow_unused=True)
            for weight in weights
        ]
        try:
            batched = grad(
                output,
                tensors,
                _core.stack(weights),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched gradient computation: "
                f"grad(..., is_grads_batched=True) of output {problem.outputs[k].name} raises "
                f"{type(error).__name__}: {error}\n"
                "  fix: pass check_batched_grad=False if batches are not needed"
            ) from error
        for i, item in enumerate(problem.inputs):
            together = batched[i]
            for n in range(2):
                alone = single[n][i]
                row = None if together is None else together[n]
                x, y = (np.zeros(1) if g is None else to_vector(g) for g in (row, alone))
                if not np.allclose(x, y, tolerance.rtol, tolerance.atol, equal_nan=True):
                    raise GradcheckError(
                        "gradcheck or gradgradcheck failed while testing batched gradient "
                        f"computation: for output {problem.outputs[k].name} and input {item.name}, "
                        f"row {n} of the batch differs from the gradient alone by "
                        f"{np.abs(x - y).max():.4g}"
                    )
