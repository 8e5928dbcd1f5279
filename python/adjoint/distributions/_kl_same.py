"""Divergences within one class of numbers, counts or categories, in forms that do not cancel."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions._values import euler_constant, log_one_plus_exp
from adjoint.distributions.categories import Categorical, OneHotCategorical
from adjoint.distributions.counts import Binomial, Poisson
from adjoint.distributions.discrete import Bernoulli, ContinuousBernoulli, Geometric
from adjoint.distributions.from_normal import Gumbel, HalfNormal
from adjoint.distributions.gamma_family import Exponential, Gamma
from adjoint.distributions.kl import register_kl
from adjoint.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from adjoint.distributions.power_laws import Pareto
from adjoint.distributions.simplex import Beta, Dirichlet


def infinite_where(condition: Tensor, value: Tensor) -> Tensor:
    """The value, and infinity where q cannot be what p is."""
    return ad.where(condition, math.inf, value)


def _surplus(ratio: Tensor) -> Tensor:
    """Ratio - 1 - log(ratio), which is 0 at 1 and positive elsewhere."""
    return ratio - 1 - ratio.log()


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    off = (p.loc - q.loc) / q.scale
    return 0.5 * (_surplus((p.scale / q.scale).square()) + off.square())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return 0.5 * _surplus((p.scale / q.scale).square())


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    apart, ratio = (p.loc - q.loc).abs(), p.scale / q.scale
    return ratio * (-apart / p.scale).exp() + apart / q.scale - 1 - ratio.log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ((1 + ratio).lgamma() - off).exp()
    return off - ratio.log() + euler_constant * (ratio - 1) + tail - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return infinite_where(outside, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    moved = q.alpha * (p.scale / q.scale).log()
    return infinite_where(p.scale < q.scale, moved + _surplus(q.alpha / p.alpha))


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    return _surplus(q.rate / p.rate)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    shapes = b.lgamma() - a.lgamma() + (a - b) * a.digamma()
    ratio = q.rate / p.rate
    return shapes + a * (ratio - 1) - b * ratio.log()


def _by_concentrations(a: Tensor, b: Tensor) -> Tensor:
    """From concentrations along the last axis."""
    total = a.sum(-1)
    normalizers = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return normalizers + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    return _by_concentrations(p.concentration, q.concentration)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _by_concentrations(p._both(), q._both())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = log_one_plus_exp(-q.logits) - log_one_plus_exp(-p.logits)
    zeros = log_one_plus_exp(q.logits) - log_one_plus_exp(p.logits)
    return _weighted(p.probs, q.probs, ones) + _weighted(1 - p.probs, 1 - q.probs, zeros)


def _weighted(p: Tensor, q: Tensor, log_ratio: Tensor) -> Tensor:
    """P · log(p / q) with its limits at 0."""
    return ad.where(p == 0, 0.0, infinite_where(q == 0, p * log_ratio))


def _by_categories(p: Any, q: Any) -> Tensor:
    return _weighted(p.probs, q.probs, p.logits - q.logits).sum(-1)


register_kl(Categorical, Categorical)(_by_categories)
register_kl(OneHotCategorical, OneHotCategorical)(_by_categories)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return infinite_where(p.total_count > q.total_count, p.total_count * trial)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    at_zero = p._log_norm() - q._log_norm() + (-p.probs).log1p() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + at_zero
