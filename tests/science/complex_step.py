"""Derivatives of NumPy functions to the last digits, without differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad


def gradient(function: Callable[[Any], Any], at: Any) -> Any:
    """By a step along the imaginary axis: nothing cancels."""
    at = np.asarray(at, dtype=complex)
    found = np.empty(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] += 1e-30j
        found[place] = function(moved).imag / 1e-30
    return found


def ours(function: Callable[[ad.Tensor], ad.Tensor], at: Any) -> Any:
    """The gradient by adjoint."""
    x = ad.tensor(np.asarray(at), requires_grad=True)
    return ad.autograd.grad(function(x), x)[0].numpy()


def agree(found: Any, reference: Any, tolerance: float) -> None:
    """Relative to the largest."""
    error = np.abs(np.asarray(found) - reference).max() / np.abs(reference).max()
    assert error < tolerance, error
