"""What is said about a gradient without keeping it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint._core import Tensor

_SHOWN = 8  # elements that are kept as they are


@dataclass(frozen=True, slots=True)
class Numbers:
    """A gradient in a few numbers.

    Attributes
    ----------
    shape, dtype
        As of the gradient.
    numel, zeros, nans, infs : int
        How many elements there are, and how many of them are zero, NaN or infinite.
    norm : float
        The Euclidean norm of all elements; NaN if one is.
    smallest, largest : float
        The smallest and largest element (by size, if they are complex), NaN left out.
    values : tuple
        The first elements.
    """

    shape: tuple[int, ...]
    dtype: str
    numel: int
    norm: float
    smallest: float
    largest: float
    zeros: int
    nans: int
    infs: int
    values: tuple[Any, ...]

    @property
    def is_zero(self) -> bool:
        """Whether there are elements, and all are zero."""
        return self.numel > 0 and self.zeros == self.numel

    def __str__(self) -> str:
        shown = ", ".join(_number(v) for v in self.values)
        more = ", …" if self.numel > len(self.values) else ""
        return f"[{shown}{more}]  norm {_number(self.norm)}{self.remarks}"

    @property
    def remarks(self) -> str:
        """What is unusual: zeros, NaN, infinities; empty if nothing is."""
        found = [
            f"{count} {what}" for count, what in ((self.nans, "NaN"), (self.infs, "Inf")) if count
        ]
        if self.is_zero:
            found.append("nothing but zeros")
        return f"  ({', '.join(found)})" if found else ""


def _number(value: Any) -> str:
    return f"{value:.4g}"


def numbers(grad: Tensor | None) -> Numbers | None:
    """A gradient in a few numbers; None for none."""
    if grad is None:
        return None
    dtype = str(grad.dtype).rpartition(".")[2]
    shape = tuple(grad.shape)
    array = _array(grad)
    size = np.abs(array)
    with np.errstate(over="ignore", invalid="ignore"):
        nan = np.isnan(size)
        nans = int(nan.sum())
        there = (size if np.iscomplexobj(array) else array)[~nan] if nans else array
        there = np.abs(there) if np.iscomplexobj(there) else there
        return Numbers(
            shape,
            dtype,
            math.prod(shape),
            float(np.linalg.norm(size)),
            float(there.min()) if there.size else math.nan,
            float(there.max()) if there.size else math.nan,
            math.prod(shape) - int(np.count_nonzero(array)),
            nans,
            int(np.isinf(size).sum()),
            tuple(array[:_SHOWN].tolist()),
        )


def _array(grad: Tensor) -> Any:
    """The elements in a row, wide enough that a norm does not overflow where they do not."""
    plain = grad.detach()
    if plain.is_sparse:
        plain = plain.coalesce().values()
    if plain.is_complex():
        return plain.resolve_conj().numpy().astype(np.complex128).ravel()
    return plain.double().numpy().ravel()
