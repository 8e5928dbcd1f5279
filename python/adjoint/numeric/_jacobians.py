"""Jacobians in the form in which they were found.

Each maps a vector of inputs to one of outputs (``push``) and back (``pull``). Read next:
_method.py, whose methods find them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ._coordinates import Coordinates

__all__ = ["Dense", "Diagonal", "Jacobian", "LowRank", "Sparse", "undefined"]


class Jacobian(Protocol):
    """A linear map between coordinates."""

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""


class Dense:
    """A matrix of outputs by inputs, of NumPy or of scipy.sparse; perhaps with error estimates."""

    def __init__(self, matrix: Any, error: Any = None) -> None:
        self.matrix, self.error = matrix, error

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        found = np.asarray(self.matrix.T @ u).reshape(-1)
        used = u != 0
        if used.all() or np.isfinite(found).all() or hasattr(self.matrix, "toarray"):
            return found
        # Outputs that nobody uses do not matter, also where they are NaN, as outside a mask.
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


class LowRank:
    """The mean of outer products: one column of differences and one of inverse steps each."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right  # (m, k) and (n, k)

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        used = u != 0  # as in Dense
        return self.right @ (self.left[used].T @ u[used])

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""
        return self.left @ (self.right.T @ v)

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""
        return self.left @ self.right.T


def undefined(jacobian: Jacobian, outputs: Coordinates, which: Any) -> Jacobian:
    """The same, with NaN for the derivatives of some outputs.

    What has no value has no slope, also where the values on both sides are numbers.
    """
    if isinstance(jacobian, Dense):
        jacobian.matrix[which] = np.nan
    elif isinstance(jacobian, Sparse):
        jacobian.values = np.where(which[jacobian.rows], np.nan, jacobian.values)
    elif isinstance(jacobian, Diagonal):
        for k, row in enumerate(jacobian.blocks):
            jacobian.blocks[k] = [np.where(which[outputs.part(k)], np.nan, b) for b in row]
    elif isinstance(jacobian, LowRank):
        jacobian.left = np.where(which[:, None], np.nan, jacobian.left)
    return jacobian
