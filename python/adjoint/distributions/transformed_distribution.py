"""`TransformedDistribution`: a random variable after a chain of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .constraints import Constraint
from .distribution import _NO_SHAPE, Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What a random variable becomes by transforms, one after the other.

    Parameters
    ----------
    base_distribution
        The distribution of the variable.
    transforms
        A transform, or a list of them.
    validate_args
        Whether values are checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> base = ad.distributions.Normal(0.0, 1.0)
    >>> d = ad.distributions.TransformedDistribution(base, ad.distributions.ExpTransform())
    >>> d.log_prob(ad.tensor(1.0))  # that of a lognormal variable
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        chain = ComposeTransform(self.transforms)
        self.base_dist = self._prepared(base_distribution, chain)
        # The event has at least the axes of the chain's values, and of the base's samples.
        shape = self.base_dist.batch_shape + self.base_dist.event_shape
        forward = chain.forward_shape(shape)
        codomain, domain = chain.codomain.event_dim, chain.domain.event_dim
        axes = codomain + max(len(self.base_dist.event_shape) - domain, 0)
        cut = len(forward) - axes
        super().__init__(
            ad.Size(forward[:cut]), ad.Size(forward[cut:]), validate_args=validate_args
        )

    @staticmethod
    def _prepared(base: Any, chain: ComposeTransform) -> Any:
        """The base expanded to what the chain broadcasts it to, with events of its domain."""
        shape = base.batch_shape + base.event_shape
        domain = chain.domain.event_dim
        if len(shape) < domain:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {domain}, but got "
                f"{ad.Size(shape)}."
            )
        expanded = chain.inverse_shape(chain.forward_shape(shape))
        if tuple(shape) != tuple(expanded):
            base = base.expand(expanded[: len(expanded) - len(base.event_shape)])
        missing = domain - len(base.event_shape)
        return Independent(base, missing) if missing > 0 else base

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch = ad.Size(batch_shape)
        chain = ComposeTransform(self.transforms)
        shape = chain.inverse_shape(ad.Size((*batch, *self.event_shape)))
        # One that could not be expanded further is part of a new, larger one.
        base_batch = shape[: len(shape) - len(self.base_dist.event_shape)]
        new.base_dist = self.base_dist.expand(base_batch)
        new.transforms = self.transforms
        return self._finish(new, batch, self.event_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """What the chain maps to."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has gradients of samples."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples without a history."""
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value: all transforms are inverted."""
        self._checked(value)
        event_dim = len(self.event_shape)
        log_prob: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            log_prob = log_prob - _sum_rightmost(
                transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim
            )
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """The probability of the other side, where the transforms turn values round."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
