"""Jacobians in the form they were found in, and the ones that users hand in.

Each maps a vector of inputs to one of outputs (``push``) and back (``pull``). Read next:
_differences.py, which finds them.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

import numpy as np

from adjoint import _tree
from adjoint._core import Tensor

from ._coordinates import Coordinates

__all__ = ["Dense", "Diagonal", "Jacobian", "Sparse", "from_user"]


class Jacobian(Protocol):
    """A linear map between coordinates."""

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""


class Dense:
    """A matrix of outputs by inputs, of NumPy or of scipy.sparse."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        found = np.asarray(self.matrix.T @ u).reshape(-1)
        used = u != 0
        if used.all() or np.isfinite(found).all() or hasattr(self.matrix, "toarray"):
            return found
        # Outputs that nobody uses do not matter, also where they are NaN, as outside of a mask.
        return np.asarray(self.matrix[used].T @ u[used]).reshape(-1)

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""
        return np.asarray(self.matrix @ v).reshape(-1)

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""
        return self.matrix.toarray() if hasattr(self.matrix, "toarray") else self.matrix


def _weighted(values: Any, u: Any) -> Any:
    """The product, in which a weight of zero counts also where a value is not finite."""
    found = values * u
    return found if np.isfinite(found).all() else np.where(u == 0, 0.0, found)


class Sparse:
    """Entries at (row, column)."""

    def __init__(self, rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> None:
        self.rows, self.columns, self.values, self.shape = rows, columns, values, shape

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        return np.bincount(self.columns, _weighted(self.values, u[self.rows]), self.shape[1])

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""
        return np.bincount(self.rows, self.values * v[self.columns], self.shape[0])

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""
        matrix = np.zeros(self.shape)
        np.add.at(matrix, (self.rows, self.columns), self.values)
        return matrix


class Diagonal:
    """One derivative per element, for each pair of an output and an input."""

    def __init__(self, blocks: list[list[Any]], inputs: Coordinates, outputs: Coordinates) -> None:
        self.blocks, self.inputs, self.outputs = blocks, inputs, outputs

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        total = np.zeros(self.inputs.size)
        for k, row in enumerate(self.blocks):
            for i, block in enumerate(row):
                total[self.inputs.part(i)] += _weighted(block, u[self.outputs.part(k)])
        return total

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""
        total = np.zeros(self.outputs.size)
        for k, row in enumerate(self.blocks):
            for i, block in enumerate(row):
                total[self.outputs.part(k)] += block * v[self.inputs.part(i)]
        return total

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""
        return np.block([[np.diag(block) for block in row] for row in self.blocks])


def from_user(
    raw: Any, inputs: Coordinates, wanted: list[int], outputs: Coordinates, name: str
) -> Dense:
    """The matrix of what ``jacobian=`` returned.

    ``inputs`` are all inputs of the function; ``wanted`` those whose columns are kept. One block
    for one output and one input; a sequence (or composite) of blocks for several of either; a
    sequence of sequences for several of both, outputs first. Dicts go by their keys: those of the
    result, and those of the argument or the names of the arguments. None is a block of zeros.
    """
    several_out, several_in = len(outputs.shapes) > 1, len(inputs.shapes) > 1
    if any(d.kind == "c" for d in (*inputs.dtypes, *outputs.dtypes)):
        raise TypeError(
            f"the jacobian= of {name} is used for real inputs and outputs; give vjp= for complex"
        )
    rows = _items(raw, outputs.names, "outputs", name) if several_out else [raw]
    if not several_in and not several_out and hasattr(raw, "toarray"):
        _shaped(raw, inputs, 0, outputs, 0, name)
        return Dense(raw)
    blocks = []
    for k, row in enumerate(rows):
        items = _items(row, inputs.names, "inputs", name) if several_in else [row]
        blocks.append([_shaped(items[i], inputs, i, outputs, k, name) for i in wanted])
    return Dense(np.block(blocks))


def _items(raw: Any, names: list[str], what: str, name: str) -> list[Any]:
    if isinstance(raw, dict):
        # By their keys: the order of a dict is that of its lines, here and where it was returned.
        found = _by_path(raw, names)
        if found is not None:
            return found
        got = f"a dict of {', '.join(map(repr, raw))}"
    elif isinstance(raw, (list, tuple)) or _tree.is_structure(raw):
        leaves = raw if isinstance(raw, (list, tuple)) else _tree.flatten(raw)[0]
        if len(leaves) == len(names):
            return list(leaves)
        got = f"{len(leaves)} items"
    else:
        got = f"a {type(raw).__name__} of shape {list(np.shape(raw))}"
    raise ValueError(
        f"the jacobian= of {name} must return one block for each of its {len(names)} {what} "
        f"({', '.join(names)}), got {got}"
    )


def _by_path(raw: dict[Any, Any], names: list[str]) -> list[Any] | None:
    """What stands in a dict under the paths of some inputs or outputs; None if one is missing."""
    found: dict[str, Any] = {}

    def collect(tree: Any, path: str) -> None:
        if path in names:
            found[path] = tree
        elif isinstance(tree, dict) or _tree.is_structure(tree):
            for child, entry in zip(*_tree.children(tree), strict=True):
                collect(child, path + _tree.step(type(tree), entry))

    for key, value in raw.items():  # by the names of arguments
        collect(value, str(key))
    for root in {re.split(r"[.\[]", n)[0] for n in names} - set(names):
        collect(raw, root)  # built like the one argument, or like the result
    return [found[n] for n in names] if found.keys() == set(names) else None


def _shaped(
    block: Any, inputs: Coordinates, i: int, outputs: Coordinates, k: int, name: str
) -> Any:
    m, n = outputs.sizes[k], inputs.sizes[i]
    if block is None:
        return np.zeros((m, n))
    if hasattr(block, "toarray"):
        array = block if block.shape == (m, n) and len(inputs.shapes) == 1 else block.toarray()
        if array is block and len(outputs.shapes) == 1:
            return block
        array = block.toarray()
    else:
        array = np.asarray(block.detach().numpy() if isinstance(block, Tensor) else block)
    full = (*outputs.shapes[k], *inputs.shapes[i])
    if array.shape != (m, n) and array.shape != full:
        raise ValueError(
            f"the jacobian= of {name} returned shape {list(array.shape)} for "
            f"d {outputs.names[k]} / d {inputs.names[i]}; expected {list(full)} (output shape + "
            f"input shape) or [{m}, {n}]"
        )
    return array.reshape(m, n).astype(float, copy=False)
