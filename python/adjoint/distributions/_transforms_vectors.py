"""Transforms of vectors and matrices: simplices, Cholesky factors, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F

from . import constraints
from ._transform import Transform
from ._transforms_elementwise import _clipped_sigmoid, _Same
from .utils import tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


def _require_axes(shape: Any, least: int) -> None:
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


def _after_one(t: Tensor) -> Tensor:
    """The elements moved on by one place; the first is 1."""
    return F.pad(t[..., :-1], [1, 0], value=1)


class ReshapeTransform(Transform):
    """The elements of an event in another shape.

    Parameters
    ----------
    in_shape, out_shape
        The shape of an event before and after.
    """

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape = ad.Size(in_shape)
        self.out_shape = ad.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Real numbers of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Real numbers of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache of a size."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return x.reshape((*batch, *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.dim() - len(self.out_shape)]
        return y.reshape((*batch, *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return zeros."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the value for a shape of the argument."""
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument for a shape of the value."""
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: ad.Size, new: ad.Size) -> ad.Size:
    _require_axes(shape, len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}")
    return ad.Size((*shape[:cut], *new))


class SoftmaxTransform(_Same):
    """y = softmax(x): not injective, since numbers may be added to all elements."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        powers = (x - x.max(-1, True)[0]).exp()
        return powers / powers.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the value for a shape of the argument."""
        _require_axes(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Same):
    """n numbers to n + 1 probabilities: each takes a part of what the ones before have left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _shift(like: Tensor, parts: int) -> Tensor:
        """The logarithms of how many parts are still to come: zeros map to equal probabilities."""
        return (parts - like.new_ones(parts - 1).cumsum(-1)).log()

    def _call(self, x: Tensor) -> Tensor:
        taken = _clipped_sigmoid(x - self._shift(x, x.shape[-1] + 1))
        left = (1 - taken).cumprod(-1)
        return F.pad(taken, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        # Rounding may have taken all before the last part.
        left = (1 - parts.cumsum(-1)).clamp(min=ad.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._shift(y, y.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the product of y and of what was left."""
        x = x - self._shift(x, x.shape[-1] + 1)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the value for a shape of the argument."""
        _require_axes(shape, 1)
        return ad.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument for a shape of the value."""
        _require_axes(shape, 1)
        return ad.Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers to the Cholesky factor of a correlation matrix.

    tanh of the numbers fills the lower triangle; in each row an element takes that part of the
    length, 1, that the elements before it have left, and the diagonal takes the rest.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = ad.finfo(x.dtype).eps
        parts = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - parts**2).sqrt().cumprod(-1)
        diagonal = ad.eye(parts.shape[-1], dtype=parts.dtype, device=parts.device)
        return (parts + diagonal) * _after_one(left)

    def _inverse(self, y: Tensor) -> Tensor:
        left = _after_one(1 - (y * y).cumsum(-1))
        part = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (part.log1p() - part.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        """Return it for the elements below the diagonal, which are as many as those of x."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + tanh

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the value for a shape of the argument."""
        _require_axes(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return ad.Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument for a shape of the value."""
        _require_axes(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return ad.Size((*shape[:-2], size * (size - 1) // 2))


class LowerCholeskyTransform(_Same):
    """A matrix to its lower triangle with the exponential of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Same):
    """A matrix to L L', where L is what `LowerCholeskyTransform` makes of it."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        factor = ad.linalg.cholesky(y)
        return LowerCholeskyTransform().inv(factor)
