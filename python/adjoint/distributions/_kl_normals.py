"""Divergences between multivariate normal distributions, of full and of low rank.

All are half of: the difference of log-determinants, the trace of q's precision times p's
covariance, the squared distance of the means, less the dimension.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor

from ._kl_registry import register_kl
from .lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis


def _log_det(d: Any) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        return _batch_lowrank_logdet(
            d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag, d._capacitance_tril
        )
    diagonal = d._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
    return 2 * diagonal.log().sum(-1)


def _roots(d: Any) -> list[Tensor]:
    """Matrices whose products with their transposes sum to the covariance."""
    if isinstance(d, LowRankMultivariateNormal):
        return [d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [d._unbroadcasted_scale_tril]


def _squares(matrix: Tensor) -> Tensor:
    """The trace of X X'."""
    return matrix.pow(2).sum((-2, -1))


def _trace(q: Any, root: Tensor) -> Tensor:
    """The trace of R' Q^-1 R."""
    if not isinstance(q, LowRankMultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        batch = ad.broadcast_shapes(factor.shape[:-2], root.shape[:-2])
        factor = factor.expand((*batch, -1, -1))
        root = root.expand((*batch, -1, -1))
        return _squares(ad.linalg.solve_triangular(factor, root, upper=False))
    diag = q._unbroadcasted_cov_diag
    inner = q._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
    small = ad.linalg.solve_triangular(q._capacitance_tril, inner, upper=False)
    return _squares(root * diag.rsqrt().unsqueeze(-1)) - _squares(small @ root)


def _distance(q: Any, away: Tensor) -> Tensor:
    if isinstance(q, LowRankMultivariateNormal):
        return _batch_lowrank_mahalanobis(
            q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, away, q._capacitance_tril
        )
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, away)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _normals(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event "
            f"shapes cannot be computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    trace: Any = sum(_trace(q, root) for root in _roots(p))
    distance = _distance(q, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])
