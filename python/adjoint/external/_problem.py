"""One point of an external: its inputs, its outputs, and evaluations near it.

Methods of differentiation see vectors of coordinates only; this file turns a perturbed coordinate
into arguments of the user's function and its result into a vector. Read next: _differences.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ._arguments import Arguments
from ._coordinates import Coordinates, real_dtype
from ._errors import EvaluationError
from ._evaluate import Evaluator, Point
from ._outputs import Outputs

__all__ = ["Problem"]


class Problem:
    """The function around one input."""

    def __init__(
        self,
        evaluator: Evaluator,
        arguments: Arguments,
        leaves: Sequence[Any],
        wanted: Sequence[int],
        outputs: Outputs,
    ) -> None:
        self.evaluator = evaluator
        self.arguments = arguments
        self.leaves = list(leaves)  # as the function takes them
        self.wanted = list(wanted)  # the leaves that are differentiated by
        names = arguments.names()
        self.inputs = Coordinates([leaves[k] for k in wanted], [names[k] for k in wanted])
        named = outputs.names()
        found = outputs.differentiable
        self.outputs = Coordinates([outputs.leaves[k] for k in found], [named[k] for k in found])
        self.form = outputs
        self.x = self.inputs.pack([leaves[k] for k in wanted])
        self.y = self.outputs.pack([outputs.leaves[k] for k in found])
        self.finite = np.isfinite(self.y)
        self.meanwhile: Callable[[], None] | None = None  # to be done during the next evaluations

    @property
    def name(self) -> str:
        """What messages call the function."""
        return self.evaluator.name

    def epsilon(self) -> float:
        """The relative rounding error of the outputs: that of their coarsest dtype."""
        kinds = [float(np.finfo(d).eps) for d in self.outputs.dtypes]
        return max(kinds, default=float(np.finfo(float).eps))

    def representable(self, moved: Any) -> Any:
        """A vector of inputs, rounded to their dtypes."""
        rounded = np.array(moved, float)
        for k, dtype in enumerate(self.inputs.dtypes):
            if real_dtype(dtype) != np.float64:
                part = self.inputs.part(k)
                with np.errstate(over="ignore"):
                    rounded[part] = rounded[part].astype(real_dtype(dtype))
        return rounded

    # --- points ---------------------------------------------------------------------------------

    def at(self, x: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with other inputs."""
        leaves = list(self.leaves)
        for k, array in zip(self.wanted, self.inputs.unpack(x), strict=True):
            leaves[k] = _given(array)
        return self.arguments.rebuild(leaves)

    def at_coordinate(self, index: int, value: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with one coordinate of the inputs changed; complex for complex steps."""
        k = self.inputs.owner(index)
        # In C order, or reshape(-1) would write to a copy.
        leaf = np.array(self.leaves[self.wanted[k]], order="C")
        if np.iscomplexobj(value):
            leaf = leaf.astype(np.result_type(leaf.dtype, np.complex64))
            leaf.reshape(-1)[index - self.inputs.offsets[k]] = value
        else:
            flat = leaf.reshape(-1).view(real_dtype(leaf.dtype))
            flat[index - self.inputs.offsets[k]] = value
        leaves = list(self.leaves)
        leaves[self.wanted[k]] = _given(leaf)
        return self.arguments.rebuild(leaves)

    def moved(self, index: int, value: float) -> Point:
        """The point where one coordinate has another value."""
        args, kwargs = self.at_coordinate(index, value)
        return args, kwargs, lambda: self.where(index, value - self.x[index])

    def moved_all(self, x: Any, where: Callable[[], str]) -> Point:
        """The point with other inputs."""
        return (*self.at(x), where)

    def where(self, index: int, step: float) -> str:
        """A perturbed coordinate, for messages: ``params.k[3] + 6e-06``."""
        sign = "-" if step < 0 else "+"
        return f"{self.inputs.label(index)} {sign} {abs(step):.3g}"

    # --- values ---------------------------------------------------------------------------------

    def values(self, points: Iterable[Point], total: int, checked: bool = True) -> Iterator[Any]:
        """The outputs at some points, as vectors, in order; checked to be finite."""
        kept: list[Callable[[], str]] = []

        def noted() -> Iterator[Point]:
            for point in points:
                kept.append(point[2])
                yield point

        meanwhile, self.meanwhile = self.meanwhile, None
        # Closed at once on an error: a traceback would keep evaluations waiting on their workers.
        with contextlib.closing(self.evaluator.many(noted(), total, "", meanwhile)) as stream:
            for i, raw in enumerate(stream):
                yield self.vector(raw, kept[i], checked)

    def vector(self, raw: Any, where: Callable[[], str], checked: bool = True) -> Any:
        """A result as a vector; checked to have the form, and be finite, as the first one."""
        try:
            arrays = self.form.same_form(raw, "")
        except EvaluationError:
            arrays = self.form.same_form(raw, where())
        vector = self.outputs.pack(arrays)
        bad = self.finite & ~np.isfinite(vector)
        if checked and bad.any():
            first = int(np.argmax(bad))
            raise EvaluationError(
                f"{self.name} returned {vector[first]} for {self.outputs.label(first)} at "
                f"{where()}, where the unperturbed input gave {self.y[first]:.6g}.\n"
                "  fix: keep evaluations inside the domain with bounds=, or give a smaller step=",
                where(),
            )
        return vector


def _given(array: Any) -> Any:
    """What a function gets: an array that is its own, or a NumPy scalar for a single number."""
    return array if array.ndim else array[()]
