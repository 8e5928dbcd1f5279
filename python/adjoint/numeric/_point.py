"""What a difference method sees of a function: vectors of real numbers, and values near a point.

Externals implement this for code that autograd cannot see (`adjoint.external`), gradcheck for
functions of tensors (`adjoint.autograd._gradcheck.numerical`). Read next: _method.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from ._coordinates import Coordinates

__all__ = ["Matrix", "Move", "Point", "Values", "Vector"]

Vector = np.ndarray[Any, np.dtype[np.float64]]
Matrix = np.ndarray[Any, Any]

# Where to evaluate: one coordinate and its value, or all coordinates and what messages call that.
Move = tuple[int, Any] | tuple[Vector, Callable[[], str]]


class Values(Protocol):
    """The values of a function near a point: all that a stencil needs."""

    x: Vector
    y: Vector  # the outputs at x

    def values(self, moves: Iterable[Move], total: int, checked: bool = True) -> Iterator[Vector]:
        """The outputs after each of ``total`` moves, in order; checked to be finite where y is."""


class Point(Values, Protocol):
    """A function around one input, with names for messages and what is known of its numbers."""

    inputs: Coordinates
    outputs: Coordinates
    finite: Any  # which outputs are, at x
    meanwhile: Callable[[], None] | None  # to be done during the next evaluations
    evaluator: Any  # counts evaluations in ``count``

    @property
    def name(self) -> str:
        """What messages call the function."""

    def epsilon(self) -> float:
        """The relative rounding error of the outputs."""

    def representable(self, moved: Vector) -> Vector:
        """A vector of inputs, rounded to their dtypes."""

    def per_input(self, option: Any, what: str) -> list[Any]:
        """An option's value for each input: one for all, or a dict by argument or by path."""

    def own_columns(self, matrix: Any) -> Any:
        """Of a matrix with a column for each input of the function, those of `inputs`."""

    def again(self, where: str) -> Vector:
        """The outputs at x, evaluated here once more."""

    def complex_values(self, moves: Iterable[Move], total: int) -> Iterator[list[Any]]:
        """The output arrays after moves of single coordinates to complex values."""
