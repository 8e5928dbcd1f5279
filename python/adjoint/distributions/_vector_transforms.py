"""Maps of vectors and matrices: to simplices, correlations, Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._pointwise_transforms import TanhTransform, clipped_sigmoid
from adjoint.distributions._transform import Transform, need_axes
from adjoint.distributions._values import tril_matrix_to_vec, vec_to_tril_matrix
from adjoint.distributions.constraints import Constraint
from adjoint.nn.functional import logsigmoid, pad


class _Plain(Transform):
    """A map without parameters: all objects of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None


class ReshapeTransform(Transform):
    """Values of shape `in_shape` in the shape `out_shape`."""

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        super().__init__(cache_size=cache_size)

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.in_shape, self.out_shape, cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Values of shape `in_shape`."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Values of shape `out_shape`."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0: no number changes."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Sequence[int], old: Size, new: Size) -> Size:
    """The shape with `new` in place of `old` at its end."""
    need_axes(shape, len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size((*shape[:cut], *new))


class SoftmaxTransform(_Plain):
    """y = softmax(x). Adding a number to x changes nothing; the inverse is log(y)."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 1)
        return super().forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 1)
        return super().inverse_shape(shape)


class StickBreakingTransform(_Plain):
    """Vectors of n numbers to points of the simplex in n + 1, one to one.

    The k-th number decides what share of the rest of a stick is broken off; 0 means equal shares.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_parts(x: Tensor) -> Tensor:
        """log(n), …, log(1): how many parts still follow each break."""
        return ad.arange(x.shape[-1], 0, -1, dtype=x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        share = clipped_sigmoid(x - self._log_parts(x))
        rest = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1.0) * pad(rest, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        rest = (1 - broken.cumsum(-1)).clamp(min=ad.finfo(y.dtype).tiny)
        return broken.log() - rest.log() + self._log_parts(broken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """dy_k/dx_k = y_k (1 - share_k), of a triangular matrix."""
        at = x - self._log_parts(x)
        return (logsigmoid(-at) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors of n × n correlation matrices.

    Their hyperbolic tangents are partial correlations; in each row, every one takes its share of
    the length that is left, and the diagonal takes the rest.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        bound = 1 - ad.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-bound, bound), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        on_diagonal = ad.eye(partial.shape[-1], dtype=x.dtype)
        return (partial + on_diagonal) * pad(left[..., :-1], [1, 0], value=1.0)

    @staticmethod
    def _left(y: Tensor) -> Tensor:
        """The squared length that is left before each element of a row."""
        return pad(1 - y.square().cumsum(-1)[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(self._left(y), diag=-1)
        partial = tril_matrix_to_vec(y, diag=-1) / left.sqrt()
        return 0.5 * (partial.log1p() - (-partial).log1p())

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Each element is its tangent times the root of what is left."""
        left = tril_matrix_to_vec(self._left(y), diag=-1)
        slopes = TanhTransform().log_abs_det_jacobian(x, x)
        return (0.5 * left.log() + slopes).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 1)
        size = (1 + math.isqrt(1 + 8 * shape[-1])) // 2
        if size * (size - 1) != 2 * shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        need_axes(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class LowerCholeskyTransform(_Plain):
    """Matrices to Cholesky factors: the exponential of the diagonal, nothing above it."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    @staticmethod
    def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
        return x.tril(-1) + diagonal.diag_embed()

    def _call(self, x: Tensor) -> Tensor:
        return self._with_diagonal(x, x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return self._with_diagonal(y, y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(_Plain):
    """Matrices to positive definite ones: L Lᵀ of their `LowerCholeskyTransform` L."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ad.linalg.cholesky(y))
