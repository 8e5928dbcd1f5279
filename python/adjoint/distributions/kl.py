"""`kl_divergence` and `register_kl`: the divergence of one distribution from another, by classes.

Read next: _kl_same.py (pairs of one class), _kl_moments.py (pairs of two), _kl_composed.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from adjoint import Tensor
from adjoint.distributions._base import Distribution

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Tensor]
_F = TypeVar("_F", bound=Divergence)

_KL_REGISTRY: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_F], _F]:
    """Register a function of two distributions for a pair of classes and what derives from them.

    A decorator. Of several functions for a pair, the one for the nearest classes is used.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Cauchy, Normal, register_kl
    >>> @register_kl(Cauchy, Normal)
    ... def infinite(p, q):
    ...     return ad.full(p.batch_shape, float("inf"))
    """
    for argument, cls in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f"Expected {argument} to be a Distribution subclass but got {cls}")

    def add(function: _F) -> _F:
        _KL_REGISTRY[type_p, type_q] = function
        _nearest.cache_clear()
        return function

    return add


@lru_cache(maxsize=256)
def _nearest(type_p: Any, type_q: Any) -> Divergence | None:
    """The function for the classes nearest in the order of inheritance, those of p first."""
    distance = {
        (p, q): (type_p.__mro__.index(p), type_q.__mro__.index(q))
        for p, q in _KL_REGISTRY
        if issubclass(type_p, p) and issubclass(type_q, q)
    }
    if not distance:
        return None
    by_p = min(distance, key=lambda pair: distance[pair])
    by_q = min(distance, key=lambda pair: distance[pair][::-1])
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=4,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of `p` from `q`: the mean under p of log p(x) - log q(x).

    Parameters
    ----------
    p, q
        Distributions whose batches broadcast.

    Returns
    -------
    Tensor
        A number for each element of the batch.

    Raises
    ------
    NotImplementedError
        No function is registered for the two classes.

    Examples
    --------
    >>> from adjoint.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    classes: tuple[Any, Any] = type(p), type(q)
    divergence = _nearest(*classes)
    if divergence is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return divergence(p, q)
