"""The dot-product test: w·(J d) by forward mode and (Jᵀ w)·d by backward must be one number.

No differences are taken, so it is sharp to rounding; where the two disagree, halving finds the
elements and differences say which of the two is wrong. The Hessian is compared with its transpose
in the same way.
"""

from __future__ import annotations

import heapq
import itertools
import math
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.autograd._gradcheck.problem import Vector, to_tensor, to_vector
from adjoint.autograd._gradcheck.projection import draw
from adjoint.external._call import Call

from ._results import DotProduct, Element
from ._search import SURE, Search
from ._subject import Indices, Subject, Weight, dot

__all__ = ["dot_product", "symmetry"]

MOST = 4  # elements named
BUDGET = 200  # directions pushed forward to find them
_NOBODY = "differences cannot tell which of them is wrong"


def dot_product(search: Search, direction: Vector) -> tuple[DotProduct | None, str]:
    """The test for every combination of outputs, the worst one reported; or why there is none."""
    subject = search.subject
    if not subject.differentiable:
        return None, "not made: no output has a history"
    points = (subject.at + 2.0**-level * direction for level in (10, 20, 30))
    point = next((p for p in points if subject.inside(p)), subject.at)
    if not subject.uses_arguments_only(point):
        return None, (
            "not made: the function reaches an input by another way than its arguments, where "
            "forward mode does not see it"
        )
    direction = _rounded(subject, direction)
    try:
        pushed = subject.push(direction)
    except Exception as error:  # whatever a function without a jvp raises
        words = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if _in_a_jvp(error):
            backward = dot(search.weights[0].gradient, direction)
            note = f"the jvp fails: {words}"
            return DotProduct(math.nan, backward, math.nan, "wrong", [], note), ""
        return None, f"not made: forward mode is not available ({words})"
    results = [_test(search, w, direction, pushed) for w in range(len(search.weights))]
    rank = {"wrong": 2, "approximate": 1, "right": 0}
    worst = max(results, key=lambda r: (rank[r.status], r.relative))
    derived = "" if worst.status == "wrong" else _derived(subject)
    # That a rule agrees with itself is not a test; what else there is in the function passed.
    return (None, f"not made: {derived}") if derived else (worst, "")


def _in_a_jvp(error: Exception) -> bool:
    """Whether a jvp that somebody wrote raised this, or returned what cannot be a tangent."""
    if isinstance(error, NotImplementedError):
        return False
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    written = any(code.co_name == "jvp" and not _is_ours(code.co_filename) for code in frames)
    given = any(code.co_qualname == "Given.push" and _is_ours(code.co_filename) for code in frames)
    return written or given or ".jvp returned a" in str(error)


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(Path(__file__).parents[1])


def _derived(subject: Subject) -> str:
    """Which external in the function has one rule for both modes, and why; or an empty string."""
    found = ((e.one_rule(), e.name) for e in _externals(subject))
    return next((f"{why} ({name})" for why, name in found if why), "")


def _externals(subject: Subject) -> Iterator[Any]:
    """The externals in the function."""
    nodes = [tensor.grad_fn for tensor in subject.fresh_outputs()]
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        call: Any = getattr(node, "call", None)
        if isinstance(call, Call):
            yield call.definition
        nodes += [following for following, _ in node.next_functions]


def _rounded(subject: Subject, direction: Vector) -> Vector:
    return subject.x.join(
        [
            to_vector(to_tensor(direction[subject.x.part(k)], item.tensor.detach()))
            for k, item in enumerate(subject.inputs)
        ]
    )


def _both(
    subject: Subject, weight: Weight, direction: Vector, pushed: Vector
) -> tuple[float, float, float]:
    """The two numbers, and what their rounding is relative to."""
    forward = weight.vector * pushed[subject.y.part(weight.output)]
    reverse = weight.gradient * direction
    size = float(np.abs(forward).sum() + np.abs(reverse).sum())
    return float(forward.sum()), float(reverse.sum()), size


def _test(search: Search, w: int, direction: Vector, pushed: Vector) -> DotProduct:
    subject, weight = search.subject, search.weights[w]
    a, b, size = _both(subject, weight, direction, pushed)
    relative = abs(a - b) / size if size else 0.0
    if abs(a - b) <= 32 * subject.unit * size:
        return DotProduct(a, b, relative, "right")
    worst = _disagreeing(search, w, direction)
    if worst:
        blame = _blame(worst, search, w)
        if blame == _NOBODY and any(e.plan.differences for e in _externals(subject)):
            note = "both are differences, and equal within the noise of the function"
            return DotProduct(a, b, relative, "approximate", [], note)
        return DotProduct(a, b, relative, "wrong", worst, blame)
    if not abs(a - b) <= _allowed(search) * max(abs(a), abs(b), size / 2):
        return DotProduct(a, b, relative, "wrong", [], "they differ in too many elements to name")
    note = "equal within the tolerance, not to rounding: one of them is an approximation"
    return DotProduct(a, b, relative, "approximate", [], note)


def _allowed(search: Search) -> float:
    """The tolerance; more if both modes take differences, each its own."""
    return max(search.tolerance, search.subject.slack)


def _floor(search: Search, w: int) -> float:
    whole = float(np.linalg.norm(search.weights[w].gradient * search.scales[0]))
    return max(search.floor(w), search.subject.slack * whole)


def _disagreeing(search: Search, w: int, direction: Vector) -> list[Element]:
    """The elements of the input for which the two differ by more than the tolerance."""
    subject, weight = search.subject, search.weights[w]
    count = itertools.count()
    groups: list[tuple[float, int, Indices]] = [(0.0, next(count), np.flatnonzero(direction))]
    found: list[Element] = []
    pushes = seen = 0
    while groups and pushes < BUDGET and seen < MOST:
        _, _, group = heapq.heappop(groups)
        halves = [group] if group.size == 1 else np.array_split(group, 2)
        for half in halves:
            part = np.zeros_like(direction)
            part[half] = direction[half]
            pushes += 1
            a, b, size = _both(subject, weight, part, subject.push(part))
            if not abs(a - b) > 32 * subject.unit * size:
                continue
            if group.size > 1:
                heapq.heappush(groups, (-abs(a - b), next(count), half))
                continue
            seen += 1
            i = int(half[0])
            if abs(a - b) > _allowed(search) * max(abs(a), abs(b)) + _floor(search, w):
                found.append(_element(search, w, i, a / direction[i]))
    return found


def _element(search: Search, w: int, i: int, pushed: float) -> Element:
    best = search.measure(np.array([i]), w, search.scales[-1])
    unit = float(search.scales[-1][i] * search.signs[i])
    return Element(
        place=search.subject.x.label(i),
        output=search.subject.outputs[search.weights[w].output].name,
        derivative=pushed,
        differences=float("nan") if best is None else best.slope / unit,
        doubt=float("nan") if best is None else abs(best.doubt / unit),
        index=i,
    )


def _blame(worst: Sequence[Element], search: Search, w: int) -> str:
    gradient = search.weights[w].gradient
    forward = reverse = False
    for e in worst:
        allowed = search.tolerance * abs(e.differences) + SURE * e.doubt
        forward |= not abs(e.derivative - e.differences) <= allowed
        reverse |= not abs(gradient[e.index] - e.differences) <= allowed
    if forward and reverse:
        return "differences agree with neither"
    if forward:
        return "differences agree with backward: the jvp is wrong"
    if reverse:
        return "differences agree with the jvp: backward is wrong"
    return _NOBODY


def symmetry(subject: Subject, seed: int, tolerance: float) -> DotProduct:
    """u·(H v) and v·(H u): a Hessian is its own transpose."""
    u, v = (draw(subject.x.size, 10 * seed + k) for k in (3, 4))
    products = []
    for vector in (v, u):
        parts = [
            subject.gradient(k, vector[subject.y.part(k)]) for k in range(len(subject.outputs))
        ]
        products.append(np.sum(parts, axis=0))
    hv, hu = products
    a, b = dot(u, hv), dot(v, hu)
    size = float(np.abs(u * hv).sum() + np.abs(v * hu).sum())
    relative = abs(a - b) / size if size else 0.0
    status = "right" if relative <= max(tolerance, 32 * subject.unit) else "wrong"
    note = "" if status == "right" else "the Hessian differs from its transpose"
    if not np.isfinite(relative):
        status, note = "approximate", "not finite, so not compared"
    return DotProduct(a, b, relative, status, [], note, title="Hessian symmetry")
