"""A tensor as a direction and lengths: the norm over all axes but one, and back."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor


def norm_except_dim(v: Tensor, pow: int = 2, dim: int | None = 0) -> Tensor:
    """The norm of each slice along ``dim``, in a shape that broadcasts; ``-1``: of all elements."""
    if dim is None or dim == -1:
        return ad.norm(v, pow)
    if not 0 <= dim < v.dim():
        raise IndexError(f"dim {dim} is out of range for a tensor of {v.dim()} dimensions")
    shape = [size if i == dim else 1 for i, size in enumerate(v.shape)]
    rows = v.movedim(dim, 0).reshape(v.size(dim), -1)
    return ad.norm(rows, pow, 1).view(shape)


def weight_norm_of(v: Tensor, g: Tensor, dim: int | None = 0) -> Tensor:
    """``v`` with the lengths ``g`` along ``dim``."""
    return v * (g / norm_except_dim(v, 2, dim))
