"""Divergences between two distributions of one class."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F

from ._kl_registry import kl_divergence, register_kl
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    def part(of_p: Tensor, of_q: Tensor, sign: int) -> Tensor:
        term = of_p * (F.softplus(sign * q.logits) - F.softplus(sign * p.logits))
        term = term.masked_fill(of_q == 0, math.inf)
        return term.masked_fill(of_p == 0, 0)

    return part(p.probs, q.probs, -1) + part(1 - p.probs, 1 - q.probs, 1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    kl = p.total_count * each
    return kl.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    def constant(d: Any) -> Any:
        return d._cont_bern_log_norm() + ad.log1p(-d.probs)

    return p.mean * (p.logits - q.logits) + constant(p) - constant(q)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    constants = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    mean_logs = a.digamma() - total.digamma().unsqueeze(-1)
    return constants + ((a - b) * mean_logs).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Tensor:
    """What the normaliser of q lies above its tangent at p's parameters."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    params = [param.detach().requires_grad_() for param in p._natural_params]
    normaliser = p._log_normalizer(*params)
    gradients = ad.autograd.grad(normaliser.sum(), params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normaliser
    for here, there, gradient in zip(params, q._natural_params, gradients, strict=True):
        result = result - _sum_rightmost((there - here) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)
    return rates + ad.lgamma(b) - ad.lgamma(a) + (a - b) * ad.digamma(a)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, moved = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ((1 + ratio).lgamma() - moved).exp()
    return moved - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - ad.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return away / q.scale + ratio * (-away / p.scale).exp() - ratio.log() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    away = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    exponents = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - exponents.log() + exponents - 1
    return kl.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return kl.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    both = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return both.log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
