"""One point of an external: its inputs, its outputs, and evaluations near it.

What `adjoint.numeric` asks of a function, for one that takes and returns arrays and composites: a
move of its coordinates becomes arguments, and the result a vector. Read next:
`adjoint.numeric._method`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.numeric._coordinates import Coordinates, real_dtype
from adjoint.numeric._errors import EvaluationError, ExternalError
from adjoint.numeric._point import Move
from adjoint.numeric._sparse_jacobian import restricted

from ._arguments import Arguments
from ._evaluate import Evaluator, Job
from ._outputs import Outputs, plain_leaves

__all__ = ["ExternalPoint"]


class ExternalPoint:
    """The function around one input; a `adjoint.numeric._point.Point`."""

    def __init__(
        self,
        evaluator: Evaluator,
        arguments: Arguments,
        leaves: Sequence[Any],
        wanted: Sequence[int],
        outputs: Outputs,
    ) -> None:
        self.evaluator = evaluator
        self.name = evaluator.name
        self.arguments = arguments
        self.leaves = list(leaves)  # as the function takes them
        self.wanted = list(wanted)  # the leaves that are differentiated by
        names = arguments.names()
        self.inputs = Coordinates.of([leaves[k] for k in wanted], [names[k] for k in wanted])
        named = outputs.names()
        found = outputs.differentiable
        self.outputs = Coordinates.of([outputs.leaves[k] for k in found], [named[k] for k in found])
        self.form = outputs
        self.x = self.inputs.pack([leaves[k] for k in wanted])
        self.y = self.outputs.pack([outputs.leaves[k] for k in found])
        self.finite = np.isfinite(self.y)
        self.meanwhile: Callable[[], None] | None = None  # to be done during the next evaluations
        # A result that is one real array needs no looking into structures.
        one = outputs.spec is None and found == [0] and outputs.leaves[0].dtype.kind == "f"
        self._plain = (outputs.leaves[0].shape, outputs.leaves[0].dtype) if one else None
        self._flat = not arguments.keywords and all(spec is None for spec in arguments.specs)
        self._real = [real_dtype(dtype) for dtype in self.inputs.dtypes]

    def epsilon(self) -> float:
        """The relative rounding error of the outputs: that of their coarsest dtype."""
        kinds = [float(np.finfo(d).eps) for d in self.outputs.dtypes]
        return max(kinds, default=float(np.finfo(float).eps))

    def rounding(self) -> float:
        """The same of inputs and outputs."""
        kinds = [float(np.finfo(d).eps) for d in self._real]
        return max(self.epsilon(), *kinds)

    def representable(self, moved: Any) -> Any:
        """A vector of inputs, rounded to their dtypes."""
        rounded = np.array(moved, float)
        for k, dtype in enumerate(self._real):
            if dtype != np.float64:
                part = self.inputs.part(k)
                with np.errstate(over="ignore"):
                    rounded[part] = rounded[part].astype(dtype)
        return rounded

    # --- what options mean ----------------------------------------------------------------------

    def per_input(self, option: Any, what: str) -> list[Any]:
        """An option's value for each input: one for all, or a dict by argument or by path."""
        roots, names = self.arguments.roots(), self.arguments.names()
        for key in option if isinstance(option, dict) else ():
            if key not in {*roots, *names}:
                raise ValueError(
                    f"{what}= names {key!r}, but the arguments of {self.name} are "
                    f"{', '.join(repr(r) for r in roots)} (a part of one: {names[0]!r})"
                )
        return self.inputs.by_name(option, roots)

    def own_columns(self, matrix: Any) -> Any:
        """Of a matrix with a column for each input of the function, those that are asked for."""
        places, names = self.arguments.inputs, self.arguments.names()
        every = Coordinates.of([self.leaves[k] for k in places], [names[k] for k in places])
        return restricted(matrix, every.sizes, [places.index(k) for k in self.wanted])

    # --- moves ----------------------------------------------------------------------------------

    def at(self, x: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with other inputs."""
        leaves = list(self.leaves)
        for k, array in zip(self.wanted, self.inputs.unpack(x), strict=True):
            leaves[k] = _given(array)
        return (leaves, {}) if self._flat else self.arguments.rebuild(leaves)

    def at_coordinate(self, index: int, value: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with one coordinate of the inputs changed; complex for complex steps."""
        k = self.inputs.owner(index) if len(self.wanted) > 1 else 0
        # In C order, or reshape(-1) would write to a copy.
        leaf = np.array(self.leaves[self.wanted[k]], order="C")
        if isinstance(value, complex):
            leaf = leaf.astype(np.result_type(leaf.dtype, np.complex64))
            leaf.reshape(-1)[index - self.inputs.offsets[k]] = value
        else:
            flat = leaf.reshape(-1).view(self._real[k])
            flat[index - self.inputs.offsets[k]] = value
        leaves = list(self.leaves)
        leaves[self.wanted[k]] = _given(leaf)
        return (leaves, {}) if self._flat else self.arguments.rebuild(leaves)

    def _where(self, index: int, value: Any) -> str:
        """A move of one coordinate, for messages: ``params.k[3] + 6e-06``."""
        label = self.inputs.label(index)
        if isinstance(value, complex):
            return f"{label} + {value.imag:.3g}j"
        step = value - self.x[index]
        return f"{label} {'-' if step < 0 else '+'} {abs(step):.3g}"

    # --- values ---------------------------------------------------------------------------------

    def again(self, where: str) -> Any:
        """The outputs at the input, evaluated here once more, also if there are workers."""
        if self.evaluator.workers.timeout is not None:
            # The result came from a process that has forked off here: what is drawn first is the
            # same in both.
            self.evaluator.one(*self.at(self.x), where, here=True)
        raw = self.evaluator.one(*self.at(self.x), where, here=True)
        return self._vector(raw, lambda: where, True)

    def values(self, moves: Iterable[Move], total: int, checked: bool = True) -> Iterator[Any]:
        """The outputs after some moves, as vectors, in order; checked to be finite."""
        # Closed at once on an error: a traceback would keep evaluations waiting on their workers.
        with contextlib.closing(self._results(moves, total, "")) as results:
            for raw, where in results:
                yield self._vector(raw, where, checked)

    def complex_values(self, moves: Iterable[Move], total: int) -> Iterator[list[Any]]:
        """The output arrays after moves to complex values; losing these is an error."""
        with contextlib.closing(self._results(moves, total, "c")) as results:
            for raw, _ in results:
                leaves, spec = plain_leaves(raw)
                if spec != self.form.spec:
                    raise ExternalError(
                        f"{self.name} returned a result of another form for complex inputs"
                    )
                yield [leaves[k] for k in self.form.differentiable]

    def _results(
        self, moves: Iterable[Move], total: int, extra: str
    ) -> Generator[tuple[Any, Callable[[], str]], None, None]:
        """What the function returns after each move, and what messages call that."""
        waiting: collections.deque[Callable[[], str]] = collections.deque()

        def jobs() -> Iterator[Job]:
            for move in moves:
                if isinstance(move[0], np.ndarray):
                    args, kwargs = self.at(move[0])
                    where: Callable[[], str] = move[1]
                else:
                    args, kwargs = self.at_coordinate(*move)
                    where = functools.partial(self._where, *move)
                waiting.append(where)
                yield args, kwargs, where

        meanwhile, self.meanwhile = self.meanwhile, None
        with contextlib.closing(self.evaluator.many(jobs(), total, extra, meanwhile)) as stream:
            for raw in stream:
                yield raw, waiting.popleft()

    def _vector(self, raw: Any, where: Callable[[], str], checked: bool) -> Any:
        """A result as a vector; checked to have the form, and be finite, as the first one."""
        found = np.asarray(raw) if isinstance(raw, (np.ndarray, np.generic, float)) else None
        if found is not None and (found.shape, found.dtype) == self._plain:
            vector = np.array(found, float).reshape(-1)
        else:
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
