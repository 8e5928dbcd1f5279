"""Probability distributions with differentiable samples: `torch.distributions`.

A class per distribution, by family in one file each; `constraints`, `transforms`, `kl`. PyTorch's
names of modules (`distributions.normal` and so on) stand in _module_names.py. Where to start:
_base.py, then _family.py and location_scale.py.
"""

from __future__ import annotations

from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint.distributions import _kl_composed as _kl_composed
from adjoint.distributions import _kl_moments as _kl_moments
from adjoint.distributions import _kl_same as _kl_same
from adjoint.distributions import _module_names as _module_names
from adjoint.distributions import constraints as constraints
from adjoint.distributions import transforms as transforms
from adjoint.distributions._base import Distribution as Distribution
from adjoint.distributions._base import ExponentialFamily as ExponentialFamily
from adjoint.distributions.categories import Categorical as Categorical
from adjoint.distributions.categories import Multinomial as Multinomial
from adjoint.distributions.categories import OneHotCategorical as OneHotCategorical
from adjoint.distributions.categories import (
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from adjoint.distributions.circular import VonMises as VonMises
from adjoint.distributions.constraint_registry import biject_to as biject_to
from adjoint.distributions.constraint_registry import transform_to as transform_to
from adjoint.distributions.counts import Binomial as Binomial
from adjoint.distributions.counts import NegativeBinomial as NegativeBinomial
from adjoint.distributions.counts import Poisson as Poisson
from adjoint.distributions.discrete import Bernoulli as Bernoulli
from adjoint.distributions.discrete import ContinuousBernoulli as ContinuousBernoulli
from adjoint.distributions.discrete import Geometric as Geometric
from adjoint.distributions.from_normal import Gumbel as Gumbel
from adjoint.distributions.from_normal import HalfCauchy as HalfCauchy
from adjoint.distributions.from_normal import HalfNormal as HalfNormal
from adjoint.distributions.from_normal import LogisticNormal as LogisticNormal
from adjoint.distributions.from_normal import LogNormal as LogNormal
from adjoint.distributions.gamma_family import Chi2 as Chi2
from adjoint.distributions.gamma_family import Exponential as Exponential
from adjoint.distributions.gamma_family import FisherSnedecor as FisherSnedecor
from adjoint.distributions.gamma_family import Gamma as Gamma
from adjoint.distributions.gamma_family import InverseGamma as InverseGamma
from adjoint.distributions.gamma_family import StudentT as StudentT
from adjoint.distributions.kl import kl_divergence as kl_divergence
from adjoint.distributions.kl import register_kl as register_kl
from adjoint.distributions.location_scale import Cauchy as Cauchy
from adjoint.distributions.location_scale import Laplace as Laplace
from adjoint.distributions.location_scale import Normal as Normal
from adjoint.distributions.location_scale import Uniform as Uniform
from adjoint.distributions.matrices import LKJCholesky as LKJCholesky
from adjoint.distributions.matrices import Wishart as Wishart
from adjoint.distributions.mixtures import MixtureSameFamily as MixtureSameFamily
from adjoint.distributions.multivariate import (
    LowRankMultivariateNormal as LowRankMultivariateNormal,
)
from adjoint.distributions.multivariate import MultivariateNormal as MultivariateNormal
from adjoint.distributions.power_laws import GeneralizedPareto as GeneralizedPareto
from adjoint.distributions.power_laws import Kumaraswamy as Kumaraswamy
from adjoint.distributions.power_laws import Pareto as Pareto
from adjoint.distributions.power_laws import Weibull as Weibull
from adjoint.distributions.relaxed import RelaxedBernoulli as RelaxedBernoulli
from adjoint.distributions.relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from adjoint.distributions.simplex import Beta as Beta
from adjoint.distributions.simplex import Dirichlet as Dirichlet
from adjoint.distributions.transformed import Independent as Independent
from adjoint.distributions.transformed import TransformedDistribution as TransformedDistribution
from adjoint.distributions.transforms import AbsTransform as AbsTransform
from adjoint.distributions.transforms import AffineTransform as AffineTransform
from adjoint.distributions.transforms import CatTransform as CatTransform
from adjoint.distributions.transforms import ComposeTransform as ComposeTransform
from adjoint.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
from adjoint.distributions.transforms import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from adjoint.distributions.transforms import ExpTransform as ExpTransform
from adjoint.distributions.transforms import IndependentTransform as IndependentTransform
from adjoint.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
from adjoint.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from adjoint.distributions.transforms import PowerTransform as PowerTransform
from adjoint.distributions.transforms import ReshapeTransform as ReshapeTransform
from adjoint.distributions.transforms import SigmoidTransform as SigmoidTransform
from adjoint.distributions.transforms import SoftmaxTransform as SoftmaxTransform
from adjoint.distributions.transforms import SoftplusTransform as SoftplusTransform
from adjoint.distributions.transforms import StackTransform as StackTransform
from adjoint.distributions.transforms import StickBreakingTransform as StickBreakingTransform
from adjoint.distributions.transforms import TanhTransform as TanhTransform
from adjoint.distributions.transforms import Transform as Transform
from adjoint.distributions.transforms import identity_transform as identity_transform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

_module_names.install(__name__)


def __getattr__(name: str) -> _NoReturn:
    raise _missing(__name__, name)
