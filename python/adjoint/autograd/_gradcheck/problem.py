"""The function under test with its inputs: evaluated at will, its values as real vectors.

Inputs are moved in place, because the function may reach them by another way than its arguments (a
module that holds its parameters is checked as ``gradcheck(lambda x, *_: net(x), (x, *params))``).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._pending import signed, unsigned
from adjoint._tensor.creation import from_numpy
from adjoint._tensor.formats import strided

Vector = np.ndarray[Any, np.dtype[np.float64]]
Matrix = np.ndarray[Any, Any]


class Named(NamedTuple):
    """A tensor among the inputs or outputs and what messages call it: ``1``, ``1['w']``."""

    tensor: Tensor
    name: str


def named_tensors(tree: tuple[Any, ...]) -> list[Named]:
    """The tensors in a tuple of arguments or results, however deep, each with its place."""
    found = []
    for i, item in enumerate(tree):
        if isinstance(item, Tensor):
            found.append(Named(item, str(i)))
            continue
        leaves, structure = _tree.flatten(item)
        places = zip(leaves, _tree.paths(structure, str(i)), strict=True)
        found += [Named(leaf, place) for leaf, place in places if isinstance(leaf, Tensor)]
    return found


def as_tuple(value: Any) -> tuple[Any, ...]:
    """What ``func`` returned as a tuple: one thing is a tuple of one."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def as_arguments(value: Any) -> tuple[Any, ...]:
    """The arguments of a function as a tuple: a tensor or a composite is the only one."""
    if isinstance(value, tuple | list | Iterator):
        return tuple(value)
    return (value,) if isinstance(value, Tensor) or _tree.is_structure(value) else tuple(value)


def to_vector(tensor: Tensor) -> Vector:
    """A copy of the values as real coordinates in float64; complex numbers give two each."""
    wide = _core.complex128 if tensor.is_complex() else _core.float64
    values = np.array(tensor.detach().to(wide).numpy(force=True)).reshape(-1)
    return values.view(np.float64)


def to_tensor(vector: Vector, like: Tensor) -> Tensor:
    """The tensor of ``like``'s shape and dtype with these real coordinates."""
    values = vector.view(np.complex128) if like.is_complex() else vector
    return from_numpy(np.ascontiguousarray(values)).to(like.dtype).reshape(like.shape)


def coordinates(tensor: Tensor) -> int:
    """How many real numbers the tensor holds."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


class Moved:
    """Writes into a tensor without counting a version, and puts the old values back at the end."""

    def __init__(self, tensor: Tensor) -> None:
        self._conj, self._neg = tensor.is_conj(), tensor.is_neg()
        plain = unsigned(tensor)
        self._half = plain.dtype == _core.bfloat16  # NumPy has none: write its bits
        self._memory = (plain.view(_core.int16) if self._half else plain).numpy()
        self._like = plain
        self._before = np.array(self._memory)

    def __call__(self, vector: Vector) -> Vector:
        """Write these coordinates; return the ones that the dtype could hold."""
        rounded = to_tensor(vector, self._like)
        held = signed(rounded, self._conj, self._neg).clone()
        bits = (held.view(_core.int16) if self._half else held).numpy()
        self._memory[...] = bits
        return to_vector(rounded)

    def __enter__(self) -> Moved:
        return self

    def __exit__(self, *exc: object) -> None:
        self._memory[...] = self._before


class Problem:
    """``func`` and its arguments; ``inputs`` are those that require grad."""

    def __init__(self, func: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.func = func
        self.arguments = arguments
        self.tensors = named_tensors(arguments)
        self.inputs = [item for item in self.tensors if item.tensor.requires_grad]
        self.check_inputs()
        self.take_results(self.call())

    def check_inputs(self) -> None:
        """Refuse what cannot be checked; warn of what is checked badly."""
        check_inputs(self.tensors, self.inputs)

    def take_results(self, returned: Any) -> None:
        """Keep what ``func`` returned at its first call: later calls must return the same kind."""
        self.results = named_tensors(as_tuple(returned))
        if returned is None:  # a forgotten return would pass without anything being checked
            raise ValueError(
                "gradcheck expects `func` to return tensors, but it returned None: there is "
                "nothing to check.\n  fix: return the result of the computation"
            )
        refuse_layouts(self.results, "output")
        self.kept = [n for n, item in enumerate(self.results) if item.tensor.requires_grad]
        self.differentiable = bool(self.kept)
        if not self.kept:
            self.kept = list(range(len(self.results)))
        self.outputs = [self.results[n] for n in self.kept]

    def call(self) -> Any:
        """The function at the inputs as they are now."""
        return self.func(*self.arguments)

    def call_with(self, replacements: Sequence[Tensor]) -> list[Tensor]:
        """The outputs with other tensors in place of the inputs that require grad."""
        leaves, structure = _tree.flatten(self.arguments)
        fresh = iter(replacements)
        swapped = [
            next(fresh) if isinstance(leaf, Tensor) and leaf.requires_grad else leaf
            for leaf in leaves
        ]
        found = named_tensors(as_tuple(self.func(*_tree.unflatten(structure, swapped))))
        return [found[n].tensor for n in self.kept]

    def fresh_outputs(self) -> list[Tensor]:
        """The outputs computed anew: tensors with a graph that nobody has used yet."""
        return [item.tensor for item in self._again()]

    def values(self) -> list[Vector]:
        """The outputs at the inputs as they are now, as vectors."""
        return [to_vector(item.tensor) for item in self._again()]

    def _again(self) -> list[Named]:
        found = named_tensors(as_tuple(self.call()))
        if len(found) != len(self.results):
            raise AssertionError(
                f"Expected `func` to return {len(self.results)} tensors as at its first call, got "
                f"{len(found)}: gradcheck needs the same outputs when inputs are perturbed"
            )
        picked = [found[n] for n in self.kept]
        for new, old in zip(picked, self.outputs, strict=True):
            for what in ("shape", "dtype"):
                before, after = getattr(old.tensor, what), getattr(new.tensor, what)
                if before != after:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are "
                        f"perturbed: output {old.name} was {_plain(before)} and became "
                        f"{_plain(after)}"
                    )
        return picked


def _plain(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


@contextlib.contextmanager
def unchanged(problem: Problem) -> Iterator[list[str]]:
    """Collects the names of inputs whose values are changed by what runs inside."""
    before = [to_vector(item.tensor) for item in problem.tensors]
    changed: list[str] = []
    yield changed
    for item, old in zip(problem.tensors, before, strict=True):
        if not np.array_equal(to_vector(item.tensor), old, equal_nan=True):
            changed.append(item.name)


def check_inputs(tensors: Sequence[Named], inputs: Sequence[Named]) -> None:
    """Refuse what cannot be checked, whatever ``raise_exception`` says."""
    if not inputs:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            f"have requires_grad=True: got {len(tensors)} tensors.\n"
            "  fix: create the inputs with requires_grad=True"
        )
    refuse_layouts(tensors, "input")
    for item in inputs:
        if item.tensor.dtype not in (_core.float64, _core.complex128):
            warnings.warn(
                f"Input #{item.name} requires gradient and is not a double precision floating "
                f"point or complex: it is {item.tensor.dtype}, in which differences are good to a "
                "few digits. The step and the tolerances that are left out are fitted to it; "
                "for a sharp check pass inputs in float64 or complex128.",
                UserWarning,
                stacklevel=6,
            )
        refuse_overlap(item)


def refuse_layouts(items: Sequence[Named], what: str) -> None:
    """Only strided tensors can be moved coordinate by coordinate."""
    for item in items:
        layout = item.tensor.layout
        if layout is not strided:
            kind = "MKLDNN" if "mkldnn" in str(layout) else "Sparse"
            raise ValueError(
                f"{kind} {what} is not supported at gradcheck yet: {what} {item.name} has layout "
                f"{layout}.\n  fix: convert it with .to_dense()"
            )


def refuse_overlap(item: Named) -> None:
    """Moving one element must not move another of the same tensor."""
    shape, strides = tuple(item.tensor.shape), tuple(item.tensor.stride())
    place = f"{item.name}th" if item.name.isdigit() else f"{item.name}"
    why = (
        "gradcheck only supports inputs that are non-overlapping to be able to compute the "
        "numerical gradients correctly. You should call .contiguous on the input before passing it "
        f"to gradcheck.\n  its shape is {list(shape)} and its strides are {list(strides)}"
    )
    if any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True)):
        raise RuntimeError(f"The {place} input has a dimension with stride 0. {why}")
    if overlaps(shape, strides):
        raise RuntimeError(f"The {place} input has elements that share memory. {why}")


def overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two indices lead to one address."""
    if 0 in shape:
        return False
    reach = 0
    axes = sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    for stride, size in axes:
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False  # each axis steps over all that the finer ones reach
    offsets = sum(
        np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(axes))]) * stride
        for axis, (stride, size) in enumerate(axes)
    )
    return len(np.unique(offsets)) < np.size(offsets)


def shared_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two different tensors have a storage in common."""
    return a is not b and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
