"""PyTorch's module for each class: ``from adjoint.distributions.normal import Normal``.

PyTorch has a file for each class, adjoint one for each family. The names of those files are modules
made here, with nothing but the names of their classes.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from adjoint.distributions import _values, relaxed

# The classes of each module.
CLASSES = {
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "binomial": "Binomial",
    "categorical": "Categorical",
    "cauchy": "Cauchy",
    "chi2": "Chi2",
    "continuous_bernoulli": "ContinuousBernoulli",
    "dirichlet": "Dirichlet",
    "distribution": "Distribution",
    "exp_family": "ExponentialFamily",
    "exponential": "Exponential",
    "fishersnedecor": "FisherSnedecor",
    "gamma": "Gamma",
    "generalized_pareto": "GeneralizedPareto",
    "geometric": "Geometric",
    "gumbel": "Gumbel",
    "half_cauchy": "HalfCauchy",
    "half_normal": "HalfNormal",
    "independent": "Independent",
    "inverse_gamma": "InverseGamma",
    "kumaraswamy": "Kumaraswamy",
    "laplace": "Laplace",
    "lkj_cholesky": "LKJCholesky",
    "log_normal": "LogNormal",
    "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal",
    "mixture_same_family": "MixtureSameFamily",
    "multinomial": "Multinomial",
    "multivariate_normal": "MultivariateNormal",
    "negative_binomial": "NegativeBinomial",
    "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "pareto": "Pareto",
    "poisson": "Poisson",
    "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
    "studentT": "StudentT",
    "transformed_distribution": "TransformedDistribution",
    "uniform": "Uniform",
    "von_mises": "VonMises",
    "weibull": "Weibull",
    "wishart": "Wishart",
}

# Names that only their module has.
_ELSEWHERE = {name: getattr(relaxed, name) for name in relaxed.__all__}


def install(package: str) -> None:
    """Put the modules into `package`, which has the classes."""
    home = sys.modules[package]
    for name, classes in CLASSES.items():
        found = {
            cls: getattr(home, cls) if hasattr(home, cls) else _ELSEWHERE[cls]
            for cls in classes.split()
        }
        _add(home, name, found)
    _add(home, "utils", {name: getattr(_values, name) for name in _values.__all__})
    # What published libraries import in spite of the underscore.
    home.__dict__["utils"]._standard_normal = _values.standard_normal_of_dtype
    home.__dict__["utils"]._sum_rightmost = _values.sum_rightmost


def _add(home: ModuleType, name: str, names: dict[str, object]) -> None:
    whole = f"{home.__name__}.{name}"
    module = ModuleType(whole, f"Names of `torch.distributions.{name}`.")
    module.__dict__.update(names, __all__=list(names))
    module.__spec__ = ModuleSpec(whole, None)
    sys.modules[whole] = module
    setattr(home, name, module)
