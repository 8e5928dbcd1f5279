"""Divergences of normal vectors, of exponential families, and of what is made of others."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._values import sum_rightmost
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_determinant,
    squared_length,
)
from adjoint.distributions.transformed import Independent, TransformedDistribution

# -- normal vectors --------------------------------------------------------------------------------


_NormalVector = MultivariateNormal | LowRankMultivariateNormal


class _View:
    """What a divergence asks of a normal vector, whichever way its covariance is stored."""

    def __init__(self, d: Any) -> None:
        self.loc: Tensor = d.loc
        self.whole = d
        self.low_rank = isinstance(d, LowRankMultivariateNormal)

    def half_log_det(self) -> Tensor:
        if self.low_rank:
            half: Tensor = self.whole._half_log_determinant()
            return half
        return half_log_determinant(self.whole._unbroadcasted_scale_tril)

    def squared(self, vectors: Tensor) -> Tensor:
        """xᵀ Σ⁻¹ x."""
        if self.low_rank:
            length: Tensor = self.whole._squared_length(vectors)
            return length
        return squared_length(self.whole._unbroadcasted_scale_tril, vectors)

    def inverse_diagonal(self) -> Tensor:
        """The diagonal of Σ⁻¹."""
        if self.low_rank:
            diagonal: Tensor = self.whole._inverse_diagonal()
            return diagonal
        matrix: Tensor = self.whole.precision_matrix
        return matrix.diagonal(dim1=-2, dim2=-1)

    def diagonal(self) -> Tensor:
        """D of a covariance A Aᵀ + D."""
        numbers: Tensor = self.whole.cov_diag
        return numbers

    def root(self) -> Tensor:
        """A matrix A, of a covariance A Aᵀ or A Aᵀ + D."""
        matrix: Tensor = self.whole.cov_factor if self.low_rank else self.whole.scale_tril
        return matrix


def _trace(p: _View, q: _View) -> Tensor:
    """tr(Σq⁻¹ Σp): the squared lengths of the columns of a root of Σp."""
    batch = ad.broadcast_shapes(p.whole.batch_shape, q.whole.batch_shape)
    root = p.root()
    columns = root.expand((*batch, *root.shape[-2:])).movedim(-1, 0)
    total = q.squared(columns).sum(0)
    if p.low_rank:
        total = total + (q.inverse_diagonal() * p.diagonal()).sum(-1)
    return total


def _normal_vectors(p: _NormalVector, q: _NormalVector) -> Tensor:
    if p.event_shape != q.event_shape:
        low = [isinstance(d, LowRankMultivariateNormal) for d in (p, q)]
        kind = "Low Rank " if all(low) else "(Low Rank) " if any(low) else ""
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with different event shapes "
            f"cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    mine, other = _View(p), _View(q)
    spread = _trace(mine, other) + other.squared(mine.loc - other.loc) - p.event_shape[0]
    return other.half_log_det() - mine.half_log_det() + 0.5 * spread


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_normal_vectors)

# -- exponential families --------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _bregman(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """A(ηq) - A(ηp) - ⟨ηq - ηp, ∇A(ηp)⟩, within one class."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    natural, normalizer, means = p._mean_statistics()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for mine, other, mean in zip(natural, others, means, strict=True):
        term = (other - mine) * mean
        result = result - sum_rightmost(term, term.dim() - result.dim())
    return result


# -- what is made of others ------------------------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """Of the bases: a map that both have in common changes nothing."""
    if p.transforms != q.transforms:
        raise NotImplementedError(
            f"No KL(p || q) for p with transforms {p.transforms} and q with {q.transforms}"
        )
    if p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"No KL(p || q) for p with event_shape {p.event_shape} and q with {q.event_shape}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(each, len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(Independent, Independent)
def _independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "No KL(p || q) for p with reinterpreted_batch_ndims "
            f"{p.reinterpreted_batch_ndims} and q with {q.reinterpreted_batch_ndims}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(each, p.reinterpreted_batch_ndims)
