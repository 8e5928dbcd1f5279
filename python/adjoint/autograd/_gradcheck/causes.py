"""What is probably wrong, judged from the shape of the error and a few more evaluations.

Each function looks for one mistake and answers with a sentence or None; ``likely_cause`` asks them
in turn. Reasons not to trust the numbers come first, wrong formulas after them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adjoint._core import ones_like
from adjoint.autograd._backward import grad

from .compare import Mismatch, close
from .numerical import one_sided
from .problem import Matrix, Problem, shared_memory, to_vector, unchanged
from .tolerance import Tolerance


@dataclass(frozen=True)
class Case:
    """A mismatch with all that can be asked about it."""

    problem: Problem
    found: Mismatch
    tolerance: Tolerance
    reached: bool  # the input got a gradient at all

    def same(self, a: Matrix, b: Matrix) -> bool:
        """Whether two matrices agree as well as differences allow."""
        return a.shape == b.shape and bool(close(a, b, self.atol, max(self.found.rtol, 1e-3)).all())

    @property
    def atol(self) -> float:
        """The largest absolute bound among the entries."""
        return float(self.found.atol.max())


def changes_input(case: Case) -> str | None:
    """An input modified in place is not the input any more."""
    with unchanged(case.problem) as changed:
        case.problem.call()
    if not changed:
        return None
    return (
        f"the function changes its input {', '.join(changed)} in place, so that every evaluation "
        "starts from other values; let it work on a clone()"
    )


def is_random(case: Case) -> str | None:
    """Two evaluations at one point must agree."""
    first, second = (case.problem.values()[case.found.output] for _ in range(2))
    if np.array_equal(first, second, equal_nan=True):
        return None
    apart = float(np.nanmax(np.abs(first - second)))
    return (
        "the function is not deterministic: two evaluations at the same inputs differ by "
        f"{apart:.3g}; fix its random numbers (call manual_seed inside it, or draw them outside)"
    )


def shares_memory(case: Case) -> str | None:
    """Moving one input moved another one too."""
    mine = case.problem.inputs[case.found.input]
    for other in case.problem.tensors:
        if shared_memory(mine.tensor, other.tensor):
            return (
                f"inputs {mine.name} and {other.name} share memory, so a difference for one moves "
                "both; pass a clone() of one of them"
            )
    return None


def is_ancestor(case: Case) -> str | None:
    """Gradients also arrive by way of another input, which differences hold still."""
    mine = case.problem.inputs[case.found.input]
    for other in case.problem.inputs:
        if other.tensor is mine.tensor or other.tensor.grad_fn is None:
            continue
        weight = ones_like(other.tensor.detach())
        try:
            got = grad(other.tensor, mine.tensor, weight, retain_graph=True, allow_unused=True)
        except RuntimeError:  # its graph is gone, so nothing arrives that way
            continue
        if got[0] is not None:
            return (
                f"input {other.name} is computed from input {mine.name}, so backward adds what "
                "arrives through it; pass other.detach().requires_grad_() for it"
            )
    return None


def is_not_finite(case: Case) -> str | None:
    """NaN or infinity on one side only."""
    found = case.found
    row, column = found.worst
    if not np.isfinite(found.analytical[row, column]):
        return (
            f"the analytical gradient is {found.analytical[row, column]} here: backward divides by "
            "zero or multiplies 0 by inf (as sqrt, log and pow do at the edge of their domain)"
        )
    if not np.isfinite(found.numerical[row, column]):
        return (
            "the function itself is not finite a step away from the input: the input lies at the "
            "edge of the domain; move it inside"
        )
    return None


def step_is_lost(case: Case) -> str | None:
    """The step disappears in the rounding of the input, or the change in that of the output."""
    found, tolerance = case.found, case.tolerance
    row, column = found.coordinates(case.problem)
    at = to_vector(case.problem.inputs[found.input].tensor)[row]
    step = float(tolerance.steps(np.array([at]))[0])
    value = case.problem.values()[found.output]
    noise = tolerance.unit * max(abs(float(value[column])), tolerance.unit) / step
    worst = float(found.errors[found.worst])
    better = 2.0 ** round(np.log2(tolerance.unit) / 3)
    remedy = (
        "leave eps, atol and rtol out (they are then fitted to the dtype), or check in float64"
        if not tolerance.step_follows_size and step < better / 4
        else "check in float64"
    )
    if step < tolerance.unit * abs(at):
        return (
            f"a step of {step:.2g} does not change an input of {at:.4g} in {tolerance.dtype}; "
            f"{remedy}"
        )
    if worst <= 8 * noise:
        return (
            f"rounding: with a step of {step:.2g} in {tolerance.dtype} a difference is uncertain "
            f"by about {noise:.2g}, as much as the error found; {remedy}"
        )
    return None


def is_kink(case: Case) -> str | None:
    """Slopes to the left and to the right that stay apart when the step shrinks."""
    found = case.found
    row, column = found.coordinates(case.problem)
    at = to_vector(case.problem.inputs[found.input].tensor)[row]
    step = float(case.tolerance.steps(np.array([at]))[0])
    wide, narrow = (
        one_sided(case.problem, found.input, row, found.output, column, h) for h in (step, step / 4)
    )
    apart, closer = abs(wide.right - wide.left), abs(narrow.right - narrow.left)
    # A smooth function has apart ≈ h·f″, which shrinks with the step.
    if not apart > max(case.atol, 0.05 * max(abs(wide.right), abs(wide.left))):
        return None
    if closer < apart / 2:
        return None
    kind = "jumps" if closer > 2 * apart else "has a kink"
    return (
        f"the function {kind} at this input: its slope is {wide.right:.4g} to the right and "
        f"{wide.left:.4g} to the left, so there is no derivative to compare with; move the input "
        "away from the point"
    )


def is_curved(case: Case) -> str | None:
    """A smaller step agrees with backward: the difference was at fault."""
    found = case.found
    row, column = found.coordinates(case.problem)
    at = to_vector(case.problem.inputs[found.input].tensor)[row]
    step = float(case.tolerance.steps(np.array([at]))[0])
    narrow = one_sided(case.problem, found.input, row, found.output, column, step / 8)
    wanted, had = found.analytical[found.worst], found.numerical[found.worst]
    if case.problem.inputs[found.input].tensor.is_complex():
        wanted, had = ((v.imag if row % 2 else v.real) for v in (wanted, had))
    better = (narrow.right + narrow.left) / 2
    if not abs(better - wanted) < abs(had - wanted) / 4:
        return None
    return (
        f"the function bends too much, or has a kink or a jump, within a step of {step:.2g} from "
        f"{at:.4g}: a step of {step / 8:.2g} gives {better:.7g}, closer to the analytical "
        "gradient; pass a smaller eps, check in float64, or move the input"
    )


def is_detached(case: Case) -> str | None:
    """No gradient at all where the function does depend on the input."""
    if np.any(case.found.analytical):
        return None
    how = "no path leads" if not case.reached else "only zeros come"
    return (
        f"{how} from the output back to this input: the computation leaves the graph (detach(), "
        ".data, .item(), .numpy(), no_grad(), a cast to an integer), or a custom backward returns "
        "None or zeros for it"
    )


def is_ignored(case: Case) -> str | None:
    """A gradient where the function does not react."""
    if np.any(case.found.numerical):
        return None
    return (
        "the function does not change when this input does: it rounds its input, caches a result, "
        "or works on a copy of the values made earlier"
    )


def is_negated(case: Case) -> str | None:
    """A minus sign too many or too few."""
    if case.same(case.found.numerical, -case.found.analytical):
        return "the analytical gradient has the opposite sign"
    return None


def lacks_conj(case: Case) -> str | None:
    """The commonest mistake with complex numbers."""
    a = case.found.analytical
    if not np.iscomplexobj(a):
        return None
    # The weight of an imaginary part is i, whose own conjugate is -i.
    sign = -1 if case.found.part == "imaginary" else 1
    if case.same(case.found.numerical, sign * a.conj()):
        return (
            "the analytical gradient is the conjugate of what it should be: backward of a "
            "holomorphic f is grad * f'(x).conj(), as in PyTorch"
        )
    return None


def is_scaled(case: Case) -> str | None:
    """The same factor everywhere."""
    n, a = case.found.numerical.ravel(), case.found.analytical.ravel()
    if not (np.isfinite(n).all() and np.isfinite(a).all()):
        return None
    factor = np.vdot(n, a) / np.vdot(n, n)
    # A factor of 1 explains nothing: then what differs is too small to be told by these numbers.
    if min(abs(factor), abs(factor - 1)) < 1e-6 or not case.same(n, a / factor):
        return None
    text = f"{factor if abs(factor.imag) > 1e-3 * abs(factor) else factor.real:.4g}"
    return (
        f"the analytical gradient is {text} times the numerical one in every entry: a factor in "
        "the formula, a sum taken for a mean, a path counted twice, or one that detach() cuts"
    )


def is_transposed(case: Case) -> str | None:
    """Rows and columns exchanged."""
    n, a = case.found.numerical, case.found.analytical
    if n.shape[0] == n.shape[1] and n.shape[0] > 1 and case.same(n, a.T):
        return "the analytical Jacobian is the transpose of the numerical one"
    return None


def is_shifted(case: Case) -> str | None:
    """The same amount added everywhere: backward that is not linear in the incoming gradient."""
    difference = case.found.analytical - case.found.numerical
    shift = difference.ravel()[0]
    if difference.size < 2 or not case.same(difference, np.full_like(difference, shift)):
        return None
    return (
        f"{shift:.4g} is added to every entry of the analytical Jacobian: a backward must be the "
        "incoming gradient times something, with no constant term"
    )


def is_partial(case: Case) -> str | None:
    """Whole rows or columns right and others wrong."""
    wrong = case.found.wrong
    for axis, what in ((1, "input"), (0, "output")):
        lines = wrong.any(axis=axis)
        if 0 < lines.sum() <= lines.size // 2:
            first = np.flatnonzero(lines)[:5].tolist()
            return (
                f"only {int(lines.sum())} of {lines.size} elements of the {what} are concerned "
                f"(flat indices {first}{', …' if lines.sum() > 5 else ''}): look at what is "
                "special about them (an edge, a mask, a branch, an index used twice)"
            )
    return None


SEARCHES: tuple[Callable[[Case], str | None], ...] = (
    changes_input,
    is_random,
    shares_memory,
    is_ancestor,
    is_not_finite,
    step_is_lost,
    is_kink,
    is_curved,
    is_detached,
    is_ignored,
    is_negated,
    lacks_conj,
    is_scaled,
    is_transposed,
    is_shifted,
    is_partial,
)


def likely_cause(case: Case) -> str:
    """The first cause that fits."""
    for search in SEARCHES:
        answer = search(case)
        if answer is not None:
            return answer
    return "no simple pattern: the formula of the derivative is wrong in another way"
