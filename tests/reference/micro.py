"""Reverse-mode differentiation in NumPy float64, short enough to trust by reading.

Three ideas. A `Value` is an array with, for each parent, a function that pulls a gradient back to
it. Memory is a `Cell` that holds the current flat `Value`; a `Tensor` is a cell and an array of
positions in it, so a view is a choice of positions, reading is a gather, and an in-place edit puts
new numbers at the positions and stores the result as the cell's next value. Nothing is ever
overwritten, so there is nothing to go stale. Rules are written with plain NumPy: first derivatives
only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pull = Callable[[Array], Array]
_clock = itertools.count()


@dataclass(eq=False)
class Value:
    array: Array
    parents: tuple[tuple[Value, Pull], ...] = ()
    born: int = field(default_factory=_clock.__next__)


@dataclass(eq=False)
class Cell:
    value: Value


@dataclass(eq=False)
class Tensor:
    cell: Cell
    places: Array  # positions in the flat cell, in the shape of the tensor

    def view(self, choose: Callable[[Array], Array]) -> Tensor:
        """`choose` picks from the positions exactly as it would from the numbers."""
        return Tensor(self.cell, choose(self.places))

    def read(self) -> Value:
        whole, places = self.cell.value, self.places

        def pull(g: Array) -> Array:
            out = np.zeros_like(whole.array)
            np.add.at(out, places, g)
            return out

        return Value(whole.array[places], ((whole, pull),))

    def write(self, new: Value) -> None:
        """Put `new`, broadcast, at the positions of this tensor, which must be distinct."""
        old, places = self.cell.value, self.places
        array = old.array.copy()
        array[places] = new.array

        def kept(g: Array) -> Array:
            out = g.copy()
            out[places] = 0
            return out

        sent: Pull = lambda g: unbroadcast(g[places], new.array.shape)  # noqa: E731
        self.cell.value = Value(array, ((old, kept), (new, sent)))


def tensor(value: Value | Array) -> Tensor:
    """A tensor with memory of its own."""
    value = value if isinstance(value, Value) else Value(value)
    shape = value.array.shape
    flat = Value(value.array.reshape(-1), ((value, lambda g: g.reshape(shape)),))
    return Tensor(Cell(flat), np.arange(value.array.size).reshape(shape))


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Add up the axes along which an array of `shape` was repeated."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(axis=repeated, keepdims=True))


def apply(
    forward: Callable[..., Array], pulls: Sequence[Callable[..., Array]], *inputs: Value
) -> Value:
    """One op: `pulls[i](g, out, *arrays)` is the gradient for input i, before unbroadcasting."""
    arrays = [v.array for v in inputs]
    out = np.asarray(forward(*arrays), np.float64)

    def make(pull: Callable[..., Array], shape: tuple[int, ...]) -> Pull:
        return lambda g: unbroadcast(np.asarray(pull(g, out, *arrays)), shape)

    pairs = zip(inputs, pulls, strict=True)
    return Value(out, tuple((v, make(pull, v.array.shape)) for v, pull in pairs))


def gradients(output: Value, leaves: Sequence[Value]) -> list[Array]:
    """The gradient of a scalar for each leaf: newest value first, so that sums are complete."""
    grads: dict[Value, Array] = {output: np.ones_like(output.array)}
    waiting = {output}
    while waiting:
        value = max(waiting, key=lambda v: v.born)
        waiting.remove(value)
        for parent, pull in value.parents:
            grads[parent] = grads.get(parent, np.zeros_like(parent.array)) + pull(grads[value])
            waiting.add(parent)
    return [grads.get(leaf, np.zeros_like(leaf.array)) for leaf in leaves]
