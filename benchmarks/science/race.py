"""Two libraries on one problem: do they agree, and how long does each take?"""

from __future__ import annotations

import inspect
import io
import time
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad

__all__ = ["Race", "Work", "gradient_of", "lines_of", "run"]

# One evaluation: the value, and its gradient in any structure.
Work = Callable[[], tuple[Any, Any]]


def gradient_of(function: Callable[..., ad.Tensor], *at: Any) -> Work:
    """Value and gradient of a function of adjoint, by all of its arguments."""
    leaves = [ad.tensor(a, requires_grad=True) for a in at]

    def work() -> tuple[Any, Any]:
        value = function(*leaves)
        return value, ad.autograd.grad(value, leaves)

    return work


def lines_of(functions: Sequence[Any]) -> int:
    """Lines of code: without docstrings, remarks and blank lines."""
    seen: set[tuple[int, int]] = set()
    for number, function in enumerate(functions):
        source = inspect.getsource(function)
        before = tokenize.NEWLINE
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            text_alone = token.type == tokenize.STRING and before in (
                tokenize.NEWLINE,
                tokenize.INDENT,
            )
            if token.type in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
                before = token.type if token.type == tokenize.INDENT else before
                continue
            if not text_alone and token.type not in (tokenize.NEWLINE, tokenize.ENDMARKER):
                seen |= {(number, k) for k in range(token.start[0], token.end[0] + 1)}
            before = token.type
    return len(seen)


@dataclass(frozen=True)
class Race:
    """What one problem took: seconds of CPU time of the best round, and the largest difference."""

    ours: float
    theirs: float
    value_differs: float
    gradient_differs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def _arrays(found: Any) -> list[Any]:
    if isinstance(found, tuple | list):
        return [a for part in found for a in _arrays(part)]
    if isinstance(found, dict):
        return [a for key in sorted(found) for a in _arrays(found[key])]
    return [np.asarray(found.detach() if isinstance(found, ad.Tensor) else found, dtype=float)]


def _difference(a: Any, b: Any) -> float:
    a, b = (np.concatenate([part.ravel() for part in _arrays(x)]) for x in (a, b))
    return float(np.abs(a - b).max() / np.abs(b).max())


def _seconds(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def run(ours: Work, theirs: Work, budget: float, wall: bool = False) -> Race:
    """Alternate rounds for about `budget` seconds; by the wall where other processes work."""
    clock = time.perf_counter if wall else time.process_time
    a, b = ours(), theirs()
    for work in (ours, theirs, ours):  # the second call of a compiled function may record again
        work()
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < 3 or (time.perf_counter() - begin < budget and len(times[0]) < 200):
        for work, taken in zip((ours, theirs), times, strict=True):
            taken.append(_seconds(work, clock))
    best = [min(taken) for taken in times]
    return Race(*best, _difference(a[0], b[0]), _difference(a[1], b[1]))
