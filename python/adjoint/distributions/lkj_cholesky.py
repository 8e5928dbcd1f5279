"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .beta import Beta
from .distribution import _NO_SHAPE, Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """The lower factor L of a correlation matrix whose density is det(L L')^(concentration - 1).

    Lewandowski, Kurowicka and Joe, Journal of Multivariate Analysis 100 (2009).

    Parameters
    ----------
    dim
        The size of the matrices.
    concentration
        1: all correlation matrices alike; more: nearer to the identity.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # Row k has a beta variable for the length of what stands before the diagonal.
        marginal = self.concentration + 0.5 * (dim - 2)
        rows = ad.arange(dim - 1, dtype=self.concentration.dtype)
        offset = ad.cat([rows.new_zeros((1,)), rows])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), ad.Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(LKJCholesky, _instance)
        shape = ad.Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(shape)
        new._beta = self._beta.expand((*shape, self.dim))
        return self._finish(new, shape, self.event_shape)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples by the onion method."""
        with no_grad():
            lengths = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = ad.randn(shape, dtype=lengths.dtype, device=lengths.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0  # nothing stands before the first diagonal element
            rows = lengths.sqrt() * direction
            rest = (1 - (rows**2).sum(-1)).clamp(min=ad.finfo(rows.dtype).tiny)
            return rows + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a factor."""
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ad.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = (order * diagonal.log()).sum(-1)
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        constant = 0.5 * below * math.log(math.pi)
        return density - (constant + ad.mvlgamma(alpha - 0.5, below) - ad.lgamma(alpha) * below)
