"""What is probably wrong with a derivative: gradcheck's searches, on what was found here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.autograd._gradcheck import causes
from adjoint.autograd._gradcheck.compare import Mismatch
from adjoint.autograd._gradcheck.problem import Vector
from adjoint.autograd._gradcheck.tolerance import fit

from ._results import InputResult
from ._subject import Subject

__all__ = ["likely_cause"]

# Those that judge from the numbers alone; noise, kinks and jumps have been looked for already.
_SEARCHES: tuple[Callable[[causes.Case], str | None], ...] = (
    causes.shares_memory,
    causes.is_detached,
    causes.is_ignored,
    causes.is_negated,
    causes.is_scaled,
)


def likely_cause(
    subject: Subject, which: int, result: InputResult, numbers: tuple[Vector, Vector] | None
) -> str:
    """A sentence, or nothing; ``numbers`` are gradients by differences and by backward."""
    if any(np.isnan(e.derivative) for e in result.worst):
        return (
            "backward gives NaN where the function is finite: it divides 0 by 0 or multiplies 0 by "
            "inf (as sqrt, norm and pow do at the edge of their domain)"
        )
    if numbers is None or not numbers[0].size:
        return ""
    numerical, analytical = (np.asarray(v, float).reshape(-1, 1) for v in numbers)
    scale = float(np.abs(numerical).max(initial=0.0))
    found = Mismatch(which, 0, "", numerical, analytical, np.full((1, 1), 1e-6 * scale), 1e-3)
    dtypes = [item.tensor.dtype for item in subject.inputs]
    reached = which in subject.findings.reached
    case = causes.Case(subject, found, fit(1e-6, 1e-5, 1e-3, dtypes), reached)
    with np.errstate(all="ignore"):
        apart = np.nanmax(np.abs(numerical - analytical) / np.abs(numerical), initial=0.0)
    # A small error says nothing of a sign or a factor.
    for search in _SEARCHES if apart > 0.01 else _SEARCHES[:1]:
        answer = search(case)
        if answer is not None:
            return answer
    if result.looked_at and 0 < result.wrong <= result.looked_at // 2:
        return (
            f"{result.wrong} of {result.looked_at} elements are concerned: look at what is special "
            "about them (an edge, a mask, a branch, an index used twice)"
        )
    return ""
