"""Divergences between distributions of different classes.

KL(p, q) = -H(p) - E_p[log q], and log q is linear in a few functions of x: for a normal q in x and
x^2, for a gamma q in x and log x, for a Gumbel q in x and exp(-x / scale). So each q has one
formula, and each p its means of these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import Tensor

from ._kl_registry import register_kl
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

# Where q is zero and p is not: p reaches further, whatever the parameters.
_FURTHER: dict[type, tuple[tuple[type, ...], str]] = {
    Beta: ((Pareto,), "concentration1"),
    ContinuousBernoulli: ((Pareto,), "probs"),
    Exponential: ((Beta, ContinuousBernoulli, Pareto, Uniform), "rate"),
    Gamma: ((Beta, ContinuousBernoulli, Pareto, Uniform), "concentration"),
    Gumbel: ((Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc"),
    Laplace: ((Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc"),
    Normal: ((Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc"),
    Pareto: ((Beta, ContinuousBernoulli, Uniform), "scale"),
    Poisson: ((Bernoulli, Binomial), "rate"),
}


def _infinite(name: str) -> Callable[[Any, Any], Tensor]:
    return lambda p, q: ad.full_like(getattr(p, name), math.inf)


for _p, (_qs, _name) in _FURTHER.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite(_name))


def _where_outside(kl: Tensor, outside: Any) -> Tensor:
    return kl.masked_fill(outside, math.inf)


def _mean_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return p.concentration1.digamma() - total.digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    assert isinstance(p, Uniform)
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    width = high - low
    return (ad.xlogy(high, high) - ad.xlogy(low, low) - width) / width


def _mean_falling(p: Any, scale: Tensor) -> Tensor:
    """The mean of exp(-x / scale)."""
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return (1 + (p.rate * scale).reciprocal()).pow(-p.concentration)
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).pow(2)).exp()
    assert isinstance(p, Uniform)
    return scale / (p.high - p.low) * ((-p.low / scale).exp() - (-p.high / scale).exp())


# -- to a normal distribution ----------------------------------------------------------------------


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Tensor:
    spread = p.variance + (p.mean - q.loc).pow(2)
    variance = q.scale.pow(2)
    return 0.5 * (2 * math.pi * variance).log() + 0.5 * spread / variance - p.entropy()


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_normal(p, q), p.alpha <= 2)


# -- to an exponential or a gamma distribution -----------------------------------------------------


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Any) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def _to_gamma(p: Any, q: Any) -> Tensor:
    constant = q.concentration.lgamma() - q.concentration * q.rate.log()
    logs = (q.concentration - 1) * _mean_log(p)
    return constant - logs + q.rate * p.mean - p.entropy()


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_exponential(p, q), p.alpha <= 1)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_gamma(p, q), p.alpha <= 1)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_exponential(p, q), p.low < 0)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_gamma(p, q), p.low < 0)


# -- to a Gumbel distribution ----------------------------------------------------------------------


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _to_gumbel(p: Any, q: Any) -> Tensor:
    moved = (p.mean - q.loc) / q.scale
    tail = (q.loc / q.scale).exp() * _mean_falling(p, q.scale)
    return q.scale.log() + moved + tail - p.entropy()


# -- others ----------------------------------------------------------------------------------------


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    away = p.loc - q.loc
    ratio = away / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.pow(2)).exp()
    distance = near + away * ad.erf(math.sqrt(0.5) * ratio)
    return (2 * q.scale).log() + distance / q.scale - p.entropy()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    constant = q._cont_bern_log_norm() + ad.log1p(-q.probs)
    return -p.mean * q.logits - constant - p.entropy()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return _where_outside(_to_continuous_bernoulli(p, q), (p.low < 0) | (p.high > 1))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Any, q: Any) -> Tensor:
    kl = (q.high - q.low).log() - p.entropy()
    return _where_outside(kl, (q.low > 0) | (q.high < 1))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean_log_between(p.low, p.high)
    other_logs = (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    constant = a.lgamma() + b.lgamma() - (a + b).lgamma()
    kl = constant - logs - other_logs - p.entropy()
    return _where_outside(kl, (p.high > 1) | (p.low < 0))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    constant = q.alpha.log() + q.alpha * q.scale.log()
    kl = (q.alpha + 1) * _mean_log(p) - constant - p.entropy()
    return _where_outside(kl, p.low < q.scale)
