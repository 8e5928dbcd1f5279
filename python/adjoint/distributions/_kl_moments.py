"""Divergences between two classes: the entropy of p, and the mean of log q under p.

That mean needs a few moments of p only: of x, x², log x, log(1 - x), exp(-t x), |x - c|. Each class
gives its moments once, each density says which it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions._base import Distribution
from adjoint.distributions._kl_same import infinite_where
from adjoint.distributions._values import euler_constant
from adjoint.distributions.counts import Binomial, Poisson
from adjoint.distributions.discrete import Bernoulli, ContinuousBernoulli, log_likelihood
from adjoint.distributions.from_normal import Gumbel
from adjoint.distributions.gamma_family import Exponential, Gamma
from adjoint.distributions.kl import register_kl
from adjoint.distributions.location_scale import Laplace, Normal, Uniform
from adjoint.distributions.power_laws import Pareto
from adjoint.distributions.simplex import Beta


def _x_log_x(x: Tensor) -> Tensor:
    return ad.xlogy(x, x)


# The mean of log x.
MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -p.rate.log() - euler_constant,
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1,
}

# The mean of exp(-t x), t > 0.
MEAN_EXP: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (-p.concentration * (t / p.rate).log1p()).exp(),
    Normal: lambda p, t: (0.5 * (p.scale * t).square() - p.loc * t).exp(),
    Uniform: lambda p, t: ((-p.low * t).exp() - (-p.high * t).exp()) / ((p.high - p.low) * t),
}


def _mean_log(p: Distribution) -> Tensor:
    return next(MEAN_LOG[cls] for cls in type(p).__mro__ if cls in MEAN_LOG)(p)


def _mean_exp(p: Distribution, t: Tensor) -> Tensor:
    return next(MEAN_EXP[cls] for cls in type(p).__mro__ if cls in MEAN_EXP)(p, t)


# -- the mean of log q under p ---------------------------------------------------------------------


def _under_normal(p: Distribution, q: Normal) -> Tensor:
    squared = p.variance + (p.mean - q.loc).square()
    # A mean that is infinite, as Pareto's may be, leaves an infinite square.
    squared = ad.where(p.mean.isinf(), math.inf, squared)
    return -0.5 * squared / q.scale.square() - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _under_exponential(p: Distribution, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _under_gamma(p: Distribution, q: Gamma) -> Tensor:
    a, b = q.concentration, q.rate
    return (a - 1) * _mean_log(p) - b * p.mean + a * b.log() - a.lgamma()


def _under_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    decay = q.scale.reciprocal()
    tail = _mean_exp(p, decay) * (q.loc * decay).exp()
    return -(p.mean - q.loc) * decay - tail - q.scale.log()


def _under_laplace(p: Normal, q: Laplace) -> Tensor:
    off = (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * (-0.5 * off.square()).exp()
    distance = p.scale * (folded + off * (off * math.sqrt(0.5)).erf())
    return -distance / q.scale - (2 * q.scale).log()


def _under_uniform(p: Distribution, q: Uniform) -> Tensor:
    return -(q.high - q.low).log()


def _under_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    return log_likelihood(q.logits, p.mean) + q._log_norm()


def _under_beta(p: Uniform, q: Beta) -> Tensor:
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    ones = (q.concentration1 - 1) * MEAN_LOG[Uniform](p)
    zeros = (q.concentration0 - 1) * MEAN_LOG[Uniform](mirrored)
    return ones + zeros - q._log_normalizer(*q._natural_params)


def _under_pareto(p: Uniform, q: Pareto) -> Tensor:
    tail = (q.alpha + 1) * MEAN_LOG[Uniform](p)
    return q.alpha.log() + q.alpha * q.scale.log() - tail


def _under_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return ad.xlogy(p.probs, q.rate) - q.rate


# -- the table -------------------------------------------------------------------------------------

Mean = Callable[[Any, Any], Tensor]


def _register(p: type, q: type, mean: Mean, outside: Mean | None = None) -> None:
    """Register the pair; `outside` tells where p goes beyond q, and the divergence is infinite."""

    def divergence(one: Any, other: Any) -> Tensor:
        value = -one.entropy() - mean(one, other)
        return value if outside is None else infinite_where(outside(one, other), value)

    register_kl(p, q)(divergence)


_p: type
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    _register(_p, Normal, _under_normal)
for _p in (Beta, ContinuousBernoulli, Gamma, Pareto):
    _register(_p, Exponential, _under_exponential)
for _p in (Beta, Exponential, Pareto):
    _register(_p, Gamma, _under_gamma)
for _p in (Exponential, Gamma, Normal, Uniform):
    _register(_p, Gumbel, _under_gumbel)
for _p in (Beta, ContinuousBernoulli):
    _register(_p, Uniform, _under_uniform, lambda p, q: (q.low > 0) | (q.high < 1))
_register(Normal, Laplace, _under_laplace)
_register(Beta, ContinuousBernoulli, _under_continuous_bernoulli)
_register(Bernoulli, Poisson, _under_poisson)


def _leaves_unit(p: Uniform, q: Any) -> Tensor:
    return (p.low < 0) | (p.high > 1)


def _is_negative(p: Uniform, q: Any) -> Tensor:
    return p.low < 0


_register(Uniform, Beta, _under_beta, _leaves_unit)
_register(Uniform, ContinuousBernoulli, _under_continuous_bernoulli, _leaves_unit)
_register(Uniform, Exponential, _under_exponential, _is_negative)
_register(Uniform, Gamma, _under_gamma, _is_negative)
_register(Uniform, Pareto, _under_pareto, lambda p, q: p.low < q.scale)

# Draws of the first lie outside the support of the others.
_LEAVES: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    shape = ad.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ad.full(shape, math.inf, dtype=p.mean.dtype)


for _p, _others in _LEAVES.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
