"""The report of a check: fields for programs, text for people."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._results import DotProduct, Element, InputResult, Part, Sweep, Taylor

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

__all__ = ["CheckError", "CheckReport"]


class CheckError(RuntimeError):
    """A derivative is wrong; ``report`` says where and by how much."""

    def __init__(self, report: CheckReport) -> None:
        super().__init__(str(report))
        self.report = report


class CheckReport:
    """What `adjoint.check` found.

    True if the derivatives are right. ``print(report)`` is for reading.

    Attributes
    ----------
    verdict : str
        "right", "wrong", or "undecided" where noise, a jump or rounding hides the derivative.
    first, second : Part
        What was found about each derivative; ``second`` is None if it was not looked at.
    tolerance : float
        The relative error above which an element is wrong.
    external_evaluations : int
        How often externals were evaluated whose derivatives come from differences; 0 for others.
    """

    def __init__(self, name: str, dtype: Any, tolerance: float) -> None:
        self.name = name
        self.dtype = dtype
        self.tolerance = tolerance
        self.first = Part(1)
        self.second: Part | None = None
        self.second_note = "not asked for"
        self.external_evaluations = 0

    @property
    def parts(self) -> list[Part]:
        """The orders that were looked at."""
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def verdict(self) -> str:
        """The worst of the parts."""
        found = {part.verdict for part in self.parts}
        return next(v for v in ("wrong", "undecided", "right") if v in found)

    @property
    def ok(self) -> bool:
        """Whether the derivatives were looked at and found right."""
        return self.verdict == "right"

    @property
    def worst(self) -> list[Element]:
        """The wrong elements, the worst first."""
        return [element for part in self.parts for element in part.worst]

    @property
    def inputs(self) -> list[InputResult]:
        """What was found about each input, for the first derivative."""
        return self.first.inputs

    @property
    def taylor(self) -> Taylor | None:
        """The Taylor test."""
        return self.first.taylor

    @property
    def sweep(self) -> Sweep | None:
        """The sweep over steps."""
        return self.first.sweep

    @property
    def dot(self) -> DotProduct | None:
        """The dot-product test."""
        return self.first.dot

    @property
    def notes(self) -> list[str]:
        """Kinks, noise and whatever else is worth knowing."""
        return [note for part in self.parts for note in part.notes]

    @property
    def evaluations(self) -> int:
        """How often the function, or for the second derivative its gradient, was evaluated."""
        return sum(part.evaluations for part in self.parts)

    def __bool__(self) -> bool:
        return self.ok

    def raise_if_wrong(self) -> CheckReport:
        """Raise `CheckError` if a derivative is wrong; return the report otherwise.

        An undecided check does not raise: ask ``ok`` for that.
        """
        if self.verdict == "wrong":
            raise CheckError(self)
        return self

    def __str__(self) -> str:
        from rich.console import Console

        stream = io.StringIO()
        Console(
            file=stream, width=100, color_system=None, legacy_windows=False, force_jupyter=False
        ).print(self.__rich__(), soft_wrap=True)
        return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())

    __repr__ = __str__

    def __rich__(self) -> RenderableType:
        from ._text import render

        return render(self)

    def _repr_html_(self) -> str:
        from adjoint.notebook import rich_html

        return rich_html(self.__rich__())

    def plot(self) -> Figure:
        """The Taylor test and the sweep over steps as a figure of matplotlib's."""
        from adjoint import plot

        return plot.check(self)

    def text_plot(self, width: int = 64) -> str:
        """The Taylor test and the sweep over steps as text."""
        from ._terminal import plots

        return plots(self, width)

    def save_plot(self, path: str | Path) -> None:
        """Write both plots into a picture (PNG); without matplotlib, warn and go on."""
        from adjoint import plot

        try:
            plot.save_check(path, self)
        except plot.NoMatplotlib as error:
            warnings.warn(f"no picture {path}: {error}", stacklevel=2)
