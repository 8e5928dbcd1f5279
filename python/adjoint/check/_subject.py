"""The function under test as a map between flat vectors of real coordinates.

`Subject` is gradcheck's `Problem` with names a person knows (``state.w[2, 3]``) and all inputs in
one vector, all outputs in another. Read next: _line.py, which evaluates it along a direction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._tensor.typeinfo import finfo
from adjoint.autograd._gradcheck.analytical import Findings, pull
from adjoint.autograd._gradcheck.problem import (
    Moved,
    Named,
    Problem,
    Vector,
    coordinates,
    named_tensors,
    refuse_layouts,
    refuse_overlap,
    to_tensor,
    to_vector,
)
from adjoint.autograd.grad_mode import no_grad
from adjoint.numeric._coordinates import Coordinates

Indices = np.ndarray[Any, Any]  # of coordinates

__all__ = [
    "Indices",
    "Subject",
    "Weight",
    "dot",
    "norm",
    "second_subject",
    "tensors_of",
]


def dot(a: Vector, b: Vector) -> float:
    """The inner product, summed pairwise: more exact than BLAS, and free of its threads."""
    return float(np.sum(a * b))


def norm(values: Vector) -> float:
    """The root of the sum of squares, which do not overflow; of the finite ones."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    return largest * float(np.sqrt(np.sum((finite / largest) ** 2))) if largest else 0.0


def _coordinates(items: Sequence[Named]) -> Coordinates:
    """Tensors one after the other as one vector of real numbers in float64."""
    kinds = [np.dtype(complex if item.tensor.is_complex() else float) for item in items]
    return Coordinates(
        [tuple(item.tensor.shape) for item in items], kinds, [item.name for item in items]
    )


class Weight:
    """A random combination of one output's elements, with its gradient by all inputs."""

    def __init__(self, output: int, vector: Vector, gradient: Vector, size: float) -> None:
        self.output = output
        self.vector = vector
        self.gradient = gradient
        self.size = size  # of the combination: what its rounding is relative to


class Subject(Problem):
    """A function with its inputs, moved in place so that it may reach them by any way."""

    def __init__(
        self,
        func: Callable[..., Any],
        arguments: tuple[Any, ...],
        names: Sequence[str],
        keep_all: bool = False,
    ) -> None:
        self.low: Any
        self.high: Any
        self.argument_names = list(names)
        self.keep_all = keep_all  # outputs without a history too: their derivative is zero
        self.evaluations = 0
        self.first_error: Exception | None = None  # of an evaluation away from the input
        self.findings = Findings()
        self.second = False  # whether second derivatives are asked for
        self.second_error: Exception | None = None
        self._graph: list[Tensor] | None = None
        super().__init__(func, arguments)
        self.x = _coordinates(self.inputs)
        self.y = _coordinates(self.outputs)
        self.at = self.x.join([to_vector(item.tensor) for item in self.inputs])
        self.value = self.y.join([to_vector(item.tensor) for item in self.outputs])
        dtypes = [item.tensor.dtype for item in (*self.inputs, *self.outputs)]
        self.dtype = max(dtypes, key=lambda d: finfo(d).eps)
        self.unit = float(finfo(self.dtype).eps)
        self.rough = 0.0  # the relative error of values that are themselves made by differences
        self.slack = 0.0  # and that of derivatives by differences, in each of the two modes
        self.low, self.high = -np.inf, np.inf  # or vectors: see _bounds.py

    @property
    def blur(self) -> float:
        """The relative error of derivatives of values that are made by differences themselves.

        That of a difference of differences, and what may be lost on top where they cancel.
        """
        return min(128 * float(self.rough ** (2 / 3)), 0.3)

    # --- names ----------------------------------------------------------------------------------

    def check_inputs(self) -> None:
        """Name the inputs by argument and path, each tensor once."""
        refuse_layouts(self.tensors, "input")
        found: dict[int, Named] = {}
        for name, argument in zip(self.argument_names, self.arguments, strict=True):
            leaves, spec = _tree.flatten(argument)
            paths = [name] if spec.is_leaf() else _tree.paths(spec, name)
            for leaf, path in zip(leaves, paths, strict=True):
                if isinstance(leaf, Tensor):
                    found.setdefault(id(leaf), Named(leaf, path))
        self.tensors = list(found.values())
        self.inputs = [item for item in self.tensors if item.tensor.requires_grad]
        for item in self.inputs:
            refuse_overlap(item)

    def take_results(self, returned: Any) -> None:
        """Keep the outputs that can have a derivative, under their paths."""
        leaves, spec = _tree.flatten(returned)
        root = "output" if spec.is_leaf() else _tree.root_name(returned, "output")
        paths = [root] if spec.is_leaf() else _tree.paths(spec, root)
        self.results = [
            Named(leaf, path)
            for leaf, path in zip(leaves, paths, strict=True)
            if isinstance(leaf, Tensor)
        ]
        refuse_layouts(self.results, "output")
        able = [
            n
            for n, item in enumerate(self.results)
            if item.tensor.is_floating_point() or item.tensor.is_complex()
        ]
        if not able:
            raise ValueError(
                "there is nothing to check: the function returned "
                f"{_tree.kind_of(returned)}, in which there is no floating-point tensor.\n"
                "  fix: return the tensors that were computed"
            )
        self.kept = [n for n in able if self.results[n].tensor.requires_grad]
        self.differentiable = bool(self.kept)
        self.without_history = [self.results[n].name for n in able if n not in self.kept]
        self.kept = able if self.keep_all else self.kept or able
        self.outputs = [self.results[n] for n in self.kept]

    # --- values ---------------------------------------------------------------------------------

    def call_with(self, replacements: Sequence[Tensor]) -> list[Tensor]:
        """The outputs with other tensors in place of the inputs."""
        swapped = {
            id(item.tensor): new for item, new in zip(self.inputs, replacements, strict=True)
        }
        leaves, structure = _tree.flatten(self.arguments)
        fresh = [swapped.get(id(leaf), leaf) for leaf in leaves]
        leaves, _ = _tree.flatten(self.func(*_tree.unflatten(structure, fresh)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        return [tensors[n] for n in self.kept]

    def _again(self) -> list[Named]:
        leaves, _ = _tree.flatten(self.call())
        found = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        shapes = [(t.shape, t.dtype) for t in found]
        before = [(item.tensor.shape, item.tensor.dtype) for item in self.results]
        if shapes != before:
            raise RuntimeError(
                f"the function returned {_kinds(before)} at first and {_kinds(shapes)} nearby: a "
                "derivative needs outputs that keep their shapes"
            )
        return [Named(found[n], item.name) for n, item in zip(self.kept, self.outputs, strict=True)]

    def here(self) -> Vector:
        """The outputs at the inputs, evaluated anew."""
        self.evaluations += 1
        with no_grad():
            return self.y.join(self.values())

    def inside(self, point: Vector) -> bool:
        """Whether a point, as the dtypes hold it, is within the bounds."""
        if isinstance(self.low, float):
            return True
        held = self.x.join(
            [
                to_vector(to_tensor(point[self.x.part(k)], item.tensor.detach()))
                for k, item in enumerate(self.inputs)
            ]
        )
        return bool(((held >= self.low) & (held <= self.high)).all())

    def near(self, point: Vector) -> tuple[Vector, Vector]:
        """The point that the dtypes can hold, and the outputs there.

        NaN where the function raises, and outside the bounds, where it is not evaluated.
        """
        reached = self.at.copy()
        if not self.inside(point):
            return reached, np.full(self.y.size, np.nan)
        self.evaluations += 1
        with contextlib.ExitStack() as stack, np.errstate(all="ignore"):
            for k, item in enumerate(self.inputs):
                part = self.x.part(k)
                if (point[part] != self.at[part]).any():
                    move = stack.enter_context(Moved(item.tensor))
                    reached[part] = move(point[part])
            try:
                with no_grad():
                    return reached, self.y.join(self.values())
            except Exception as error:  # outside its domain, say
                self.first_error = self.first_error or error
                return reached, np.full(self.y.size, np.nan)

    # --- derivatives ----------------------------------------------------------------------------

    def gradient(self, output: int, vector: Vector) -> Vector:
        """What backward returns for these weights of an output's elements."""
        if not self.outputs[output].tensor.requires_grad:
            return np.zeros(self.x.size)
        if self._graph is None:
            self._graph = self.fresh_outputs()
        with np.errstate(invalid="ignore"):  # gradients may be infinite
            return self.x.join(pull(self._graph, output, self.inputs, vector, self.findings))

    def weight(self, output: int, vector: Vector) -> Weight:
        """Weights with their gradient."""
        value = self.value[self.y.part(output)]
        return Weight(output, vector, self.gradient(output, vector), norm(vector * value))

    def hessian_product(self, output: int, vector: Vector, direction: Vector) -> Vector | None:
        """H·direction for weights of an output's elements; None if there is no second derivative.

        Why there is none stays in ``second_error``.
        """
        from adjoint.autograd._backward import grad

        tensors = [item.tensor for item in self.inputs]
        outputs = self.fresh_outputs()
        try:
            first = grad(
                outputs[output],
                tensors,
                to_tensor(vector, outputs[output]),
                create_graph=True,
                allow_unused=True,
            )
            used = [
                (g, to_tensor(direction[self.x.part(k)], g))
                for k, g in enumerate(first)
                if g is not None and g.requires_grad
            ]
            if not used:
                return np.zeros(self.x.size)
            gs, ds = zip(*used, strict=True)
            second = grad(gs, tensors, ds, allow_unused=True)
        except Exception as error:  # once_differentiable, or whatever else a backward raises
            self.second_error = error
            return None
        return self.x.join(
            [
                np.zeros(coordinates(t)) if g is None else to_vector(g)
                for g, t in zip(second, tensors, strict=True)
            ]
        )

    def push(self, direction: Vector) -> Vector:
        """What forward mode returns for this direction, as one vector of all outputs."""
        from adjoint.autograd._gradcheck.forward import push

        tangents = [
            to_tensor(direction[self.x.part(k)], item.tensor.detach())
            for k, item in enumerate(self.inputs)
        ]
        found = push(self, tangents)
        return self.y.join(
            [
                np.zeros(coordinates(item.tensor)) if t is None else _as_output(t, item)
                for t, item in zip(found, self.outputs, strict=True)
            ]
        )

    def uses_arguments_only(self, point: Vector) -> bool:
        """Whether copies passed as arguments do what moving the inputs in place does."""
        _, expected = self.near(point)
        copies = [
            to_tensor(point[self.x.part(k)], item.tensor.detach())
            for k, item in enumerate(self.inputs)
        ]
        try:
            with no_grad():
                found = self.y.join([to_vector(t) for t in self.call_with(copies)])
        except Exception:
            return False
        return bool(np.array_equal(found, expected, equal_nan=True))


def _as_output(tangent: Tensor, item: Named) -> Vector:
    if tangent.shape != item.tensor.shape:
        raise RuntimeError(
            f"the tangent of {item.name} has shape {list(tangent.shape)}, the output "
            f"{list(item.tensor.shape)}"
        )
    return to_vector(tangent.to(item.tensor.dtype) if item.tensor.is_complex() else tangent)


def _kinds(found: Sequence[tuple[Any, Any]]) -> str:
    return ", ".join(f"{dtype} {list(shape)}" for shape, dtype in found) or "no tensors"


def tensors_of(arguments: tuple[Any, ...]) -> list[Tensor]:
    """The tensors in the arguments that can have a gradient."""
    return [
        item.tensor
        for item in named_tensors(arguments)
        if item.tensor.is_floating_point() or item.tensor.is_complex()
    ]


def second_subject(subject: Subject, weights: Sequence[Vector]) -> Subject:
    """The gradient of a combination of outputs as a function of the same inputs."""
    from adjoint.autograd._backward import grad
    from adjoint.autograd.grad_mode import enable_grad
    from adjoint.numeric._difference_tally import difference_tally

    tensors = [item.tensor for item in subject.inputs]

    def gradient(*_: Any) -> tuple[Tensor, ...]:
        with enable_grad():
            outputs = subject.fresh_outputs()
            given = [to_tensor(w, y) for w, y in zip(weights, outputs, strict=True)]
            found = grad(outputs, tensors, given, create_graph=True, allow_unused=True)
        return tuple(
            _core.zeros_like(t.detach()) if g is None else g
            for g, t in zip(found, tensors, strict=True)
        )

    with difference_tally() as tally:
        result = Subject(gradient, subject.arguments, subject.argument_names, keep_all=True)
    result.rough = tally.error
    names = [f"gradient of {item.name}" for item in subject.inputs]
    result.outputs = [
        Named(item.tensor, names[n]) for item, n in zip(result.outputs, result.kept, strict=True)
    ]
    result.low, result.high = subject.low, subject.high
    result.without_history = []
    result.y = _coordinates(result.outputs)
    return result
