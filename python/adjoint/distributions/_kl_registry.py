"""`kl_divergence` and `register_kl`: which function belongs to two classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint import Tensor

from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]

_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}  # found by inheritance


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorate a function of two distributions that returns their divergence.

    Subclasses are served too, by the nearest function.

    Parameters
    ----------
    type_p, type_q
        The classes of the two.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Mine(ad.distributions.Normal):
    ...     pass
    >>> @ad.distributions.register_kl(Mine, Mine)
    ... def divergence(p, q):
    ...     return ad.zeros(p.batch_shape)
    >>> ad.distributions.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    tensor(0.)
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type) or not issubclass(given, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()  # the nearest one may be another now
        return function

    return decorator


def _nearest(matches: list[tuple[type, type]], first: int) -> tuple[type, type]:
    """The match whose classes are the most derived, the one at `first` before the other."""
    best = matches[0]
    for match in matches[1:]:
        ours, theirs = match[first], best[first]
        if ours is theirs:
            ours, theirs = match[1 - first], best[1 - first]
        if issubclass(ours, theirs):
            best = match
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    matches = [m for m in _KL_REGISTRY if issubclass(type_p, m[0]) and issubclass(type_q, m[1])]
    if not matches:
        return NotImplemented
    left, right = _nearest(matches, 0), _nearest(matches, 1)
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of q from p: the mean of log(p / q) under p.

    Parameters
    ----------
    p, q
        Two distributions whose batch shapes broadcast.

    Returns
    -------
    A tensor of the batch shape.

    Raises
    ------
    NotImplementedError
        If nothing is registered for the two classes.

    Examples
    --------
    >>> import adjoint as ad
    >>> Normal = ad.distributions.Normal
    >>> ad.distributions.kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = type(p), type(q)
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    function = _KL_MEMOIZE[kinds]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return function(p, q)
