"""What a check finds, as data. _report.py turns it into text, adjoint.plot into a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DotProduct", "Element", "InputResult", "Part", "Sweep", "Taylor"]


@dataclass(frozen=True)
class Element:
    """One element of an input, with both derivatives of a combination of one output."""

    place: str  # as Python would write it: ``state.w[2, 3]``
    output: str
    derivative: float  # what the function's derivative says
    differences: float
    doubt: float  # of the differences
    kind: str = "wrong"  # or "kink", "jump"
    slopes: tuple[float, float] | None = None  # left and right of a kink
    index: int = field(default=-1, repr=False)  # among all coordinates of all inputs
    weight: int = field(default=-1, repr=False)  # which combination
    step: float = field(default=0.0, repr=False)

    @property
    def error(self) -> float:
        """How far apart the two are."""
        return abs(self.differences - self.derivative)

    @property
    def relative(self) -> float:
        """The error relative to the larger of the two."""
        size = max(abs(self.differences), abs(self.derivative))
        return self.error / size if size else 0.0


@dataclass
class InputResult:
    """What was found about one input.

    ``status`` is "right", "wrong", "undecided", or "unused" for an input that gets no gradient and
    has no influence.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any
    status: str = "right"
    relative: float = 0.0  # the error along random directions, relative to the derivative
    doubt: float = 0.0  # below which it could not be seen
    worst: list[Element] = field(default_factory=list)
    wrong: int = 0  # elements known to be wrong
    looked_at: int = 0  # elements looked at one by one
    cause: str = ""


@dataclass
class DotProduct:
    """The dot-product test: w·(J d) by forward mode and (Jᵀ w)·d by backward."""

    forward: float
    reverse: float
    relative: float
    status: str  # "right", "wrong" or "approximate"
    worst: list[Element] = field(default_factory=list)
    note: str = ""
    title: str = "dot-product test"


@dataclass
class Taylor:
    """Remainders after the terms of order 0, 1 and 2 are taken away, as steps halve.

    A rate is a number, or None where the remainder is nothing but rounding from the start.
    """

    steps: list[float]
    remainders: list[list[float]]
    rates: list[float | None]
    floor: float  # what rounding and noise leave

    @property
    def expected(self) -> list[int]:
        """The rates of a right derivative, at least."""
        return list(range(1, len(self.remainders) + 1))

    @property
    def right(self) -> list[bool]:
        """Whether each rate is what it should be."""
        pairs = zip(self.rates, self.expected, strict=True)
        return [rate is None or rate > expected - 0.35 for rate, expected in pairs]


@dataclass
class Sweep:
    """The error of the derivative as central differences see it, for each step."""

    steps: list[float]
    errors: list[float]  # relative
    step: float  # the one with the least doubt
    error: float
    doubt: float


@dataclass
class Part:
    """The check of the first or of the second derivative."""

    order: int
    verdict: str = "right"
    inputs: list[InputResult] = field(default_factory=list)
    dot: DotProduct | None = None
    dot_note: str = ""
    taylor: Taylor | None = None
    sweep: Sweep | None = None
    notes: list[str] = field(default_factory=list)
    evaluations: int = 0
    no_second: str = ""  # why there is no further derivative to look at
    aside: Any = field(default=None, repr=False)  # which coordinates lie on kinks

    @property
    def worst(self) -> list[Element]:
        """The wrong elements of all inputs, the worst first."""
        found = [e for item in self.inputs for e in item.worst if e.kind == "wrong"]
        return sorted(found, key=lambda e: -e.error)
