"""PyTorch's module for each class: ``from adjoint.distributions.normal import Normal``.

PyTorch has a file for each class, adjoint one for each family. The names of those files are modules
made here, with nothing but the names of their classes.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from adjoint.distributions import _values, relaxed
from adjoint.distributions._base import Distribution

# Where the name is not that of the class in small letters, with _ between words.
_IRREGULAR = {
    "ExpRelaxedCategorical": "relaxed_categorical",
    "ExponentialFamily": "exp_family",
    "FisherSnedecor": "fishersnedecor",
    "LKJCholesky": "lkj_cholesky",
    "LogitRelaxedBernoulli": "relaxed_bernoulli",
    "LowRankMultivariateNormal": "lowrank_multivariate_normal",
    "OneHotCategoricalStraightThrough": "one_hot_categorical",
    "RelaxedOneHotCategorical": "relaxed_categorical",
    "StudentT": "studentT",
}

# What published libraries import from `utils` in spite of the underscore.
_PRIVATE_UTILITIES = {
    "_standard_normal": _values.standard_normal_of_dtype,
    "_sum_rightmost": _values.sum_rightmost,
}


def install(package: str) -> None:
    """Put the modules into `package`, for the distributions that it has."""
    home = sys.modules[package]
    for name, cls in (vars(relaxed) | vars(home)).items():
        if isinstance(cls, type) and issubclass(cls, Distribution) and not name.startswith("_"):
            words = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
            _module(home, _IRREGULAR.get(name, words)).__dict__[name] = cls
    names = {name: getattr(_values, name) for name in _values.__all__}
    _module(home, "utils").__dict__.update(names | _PRIVATE_UTILITIES)


def _module(home: ModuleType, name: str) -> ModuleType:
    """The module of this name, made if it is not there."""
    whole = f"{home.__name__}.{name}"
    if whole not in sys.modules:
        module = ModuleType(whole, f"Names of `torch.distributions.{name}`.")
        module.__spec__ = ModuleSpec(whole, None)
        sys.modules[whole] = module
        setattr(home, name, module)
    return sys.modules[whole]
