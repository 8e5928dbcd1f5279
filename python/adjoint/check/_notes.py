"""What is worth knowing beside the verdict: kinks, jumps, steps, noise, rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._line import Line, Shape
from ._results import Element, Part
from ._search import SURE, Search
from ._subject import Subject

__all__ = ["UNRESOLVED", "jump_note", "notes"]

UNRESOLVED = (
    "by its derivative the function changes faster than differences can follow: a wave shorter "
    "than the steps, or noise. Check it in float64, or with inputs for which it varies less"
)


def notes(
    part: Part, search: Search, elements: Sequence[Element], on_kink: bool, line: Line, w: int
) -> list[str]:
    """The notes on a part; ``line`` and ``w`` are those of its plots."""
    found = _of_elements(search, elements)
    if on_kink:
        found.append("the inputs lie on a kink: the slope depends on the side")
    found += _of_line(search, line, w, part)
    return found + _of_subject(search.subject, part)


def jump_note(shape: Shape) -> str:
    """That a line has no derivative."""
    return (
        f"the function jumps at the inputs, by {shape.amount:.4g} along a random direction: it has "
        "no derivative there; move the inputs away from the point"
    )


def _of_elements(search: Search, elements: Sequence[Element]) -> list[str]:
    found = []
    kinks = [e for e in elements if e.kind == "kink"]
    if kinks:
        e = search.precise(kinks[0])
        left, right = e.slopes or (math.nan, math.nan)
        count = len({k.index for k in kinks})
        more = f", as do {count - 1} more elements" if count > 1 else ""
        found.append(
            f"{e.place} lies on a kink of {e.output}{more}: its slope is {left:.4g} to the left "
            f"and {right:.4g} to the right, and the derivative {e.derivative:.4g} is one between"
        )
    jumps = [e for e in elements if e.kind == "jump"]
    if jumps:
        found.append(f"the function jumps at {jumps[0].place}: it has no derivative there")
    return found


def _of_line(search: Search, line: Line, w: int, part: Part) -> list[str]:
    shape = line.shape(w)
    flat = all(s.plus[w] == 0 == s.minus[w] for s in line.sweep()[-8:])
    moves = any(s.plus[w] != 0 or s.minus[w] != 0 for s in line.sweep())
    if flat and moves and search.size(line.weights[w], line.direction) == 0:
        return [
            "a step function: constant near the inputs, it changes in steps farther away; a "
            "derivative of zero is right, and says nothing of the trend"
        ]
    if shape.kind == "noisy":
        size = line.weights[w].size
        share = shape.amount / size if size else math.inf
        much = (
            "by more than half of their size"
            if share > 0.5
            else f"by {_share(share)} of their size"
        )
        steps = "; it is constant nearby and changes in steps" if flat else ""
        what, advice = "function", ""
        if part.order == 2:
            what = "gradient"
            if part.verdict != "right":
                advice = (
                    ": perhaps too much for its derivative, which is the second one. order=1 "
                    "checks the first derivative alone"
                )
        return [
            f"the {what} is noisy: its values scatter {much}, rounding of "
            f"{_plain(search.subject.dtype)} by {_share(search.subject.unit)}{steps}{advice}"
        ]
    if shape.near is not None and not search.subject.rough:
        return [
            f"something is passed at about {shape.near:.2g} of the inputs' size away (a kink, a "
            "jump, a branch); steps below that are used"
        ]
    return []


def _of_subject(subject: Subject, part: Part) -> list[str]:
    found = []
    if subject.without_history:
        names = ", ".join(subject.without_history)
        found.append(f"not checked, since it has no history: {names}")
    if subject.first_error is not None:
        error = subject.first_error
        first = str(error).strip().partition("\n")[0]
        found.append(f"some evaluations nearby raised {type(error).__name__}: {first}")
    found += subject.findings.wrong_dtypes
    if subject.unit > 1e-10 and part.verdict == "right":
        seen = SURE * max((item.doubt for item in part.inputs), default=0.0)
        found.append(
            f"in {_plain(subject.dtype)} an error below {seen:.1g} of a derivative cannot be seen; "
            "dtype=adjoint.float64 looks closer"
        )
    return found


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.0e}"


def _plain(dtype: object) -> str:
    return str(dtype).replace("torch.", "")
