"""Distributions made of another one: `TransformedDistribution` and `Independent`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import same_as
from adjoint.distributions._values import sum_rightmost
from adjoint.distributions.transforms import ComposeTransform, Transform

__all__ = ["Independent", "TransformedDistribution"]


class TransformedDistribution(Family):
    """The distribution of f(x), x drawn from `base_distribution` and f a chain of transforms.

    A class of this package may be declared by parameters and derive from this one: `_recipe` then
    gives the base and the chain.

    Parameters
    ----------
    base_distribution
        What draws; batch axes that the transforms need become part of its events.
    transforms
        A transform or a list of them, the first to be applied first.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import distributions as D
    >>> D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).cdf(ad.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: Any = {}  # noqa: RUF012 no parameters of its own
    base_dist: Distribution
    transforms: list[Transform]

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        shape = self._combine(base_distribution, _as_list(transforms))
        cut = len(shape) - self._event_axes()
        Distribution.__init__(self, shape[:cut], shape[cut:], validate_args)

    def _combine(self, base: Distribution, chain: list[Transform]) -> Size:
        """Store a base that is wide enough for the chain, and the chain; the shape of draws."""
        whole = ComposeTransform(chain)
        shape = base._extended_shape()
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {shape}."
            )
        drawn = Size(whole.forward_shape(shape))
        wide = Size(whole.inverse_shape(drawn))
        if wide != shape:
            base = base.expand(wide[: len(wide) - len(base.event_shape)])
        joined = whole.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, joined) if joined > 0 else base
        self.transforms = chain
        return drawn

    def _event_axes(self) -> int:
        """How many axes one draw has: an event of the base, changed by the chain."""
        whole = ComposeTransform(self.transforms)
        change = whole.codomain.event_dim - whole.domain.event_dim
        return len(self.base_dist.event_shape) + change

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        """The base and the chain, of declared parameters."""
        raise NotImplementedError

    def _prepare(self) -> None:
        self.base_dist, self.transforms = self._recipe()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """A distribution with its base expanded to `batch_shape`, without copies."""
        if self._parameters:
            return super().expand(batch_shape, _instance)
        new = self._get_checked_instance(TransformedDistribution, _instance)
        before = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        base_batch = before[: len(before) - len(self.base_dist.event_shape)]
        new.base_dist = self.base_dist.expand(base_batch)
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    has_rsample = same_as("base_dist.has_rsample")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Where the last transform leads."""
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base, differentiably, and transform."""
        return self._transformed(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base and transform, without gradients."""
        with ad.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _log_density(self, value: Tensor) -> Tensor:
        # The density of the base at the preimage, over how much the chain stretches there.
        stretched: Tensor | float = 0.0
        axes = len(self.event_shape)
        for transform in reversed(self.transforms):
            before = transform.inv(value)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            each = transform.log_abs_det_jacobian(before, value)
            stretched = stretched + sum_rightmost(each, axes - transform.domain.event_dim)
            value = before
        density = self.base_dist.log_prob(value)
        return sum_rightmost(density, axes - len(self.base_dist.event_shape)) - stretched

    def _mirrored(self, probability: Tensor) -> Tensor:
        """1 - p where the chain decreases; its own inverse."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def _cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._mirrored(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which draws have the probability `value`."""
        return self._transformed(self.base_dist.icdf(self._mirrored(value)))


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms


_D = TypeVar("_D", bound=Distribution)


class Independent(Distribution, Generic[_D]):
    """A distribution whose last batch axes count as axes of its events.

    Parameters
    ----------
    base_distribution
        The distribution.
    reinterpreted_batch_ndims
        How many of its batch axes.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Independent, Normal
    >>> Independent(Normal(ad.zeros(4, 3), 1.0), 1).log_prob(ad.zeros(4, 3)).shape
    torch.Size([4])
    """

    arg_constraints: Any = {}  # noqa: RUF012 no parameters of its own
    base_dist: _D

    def __init__(
        self,
        base_distribution: _D,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        shape = base_distribution._extended_shape()
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """A distribution with its base expanded, without copies."""
        new = self._get_checked_instance(Independent, _instance)
        joined = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *joined))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    has_rsample = same_as("base_dist.has_rsample")

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the values can be listed: not those of several axes together."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The support of the base with more axes."""
        inner: Any = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(inner, count) if count else inner

    mean = same_as("base_dist.mean")
    mode = same_as("base_dist.mode")
    variance = same_as("base_dist.variance")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base, without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base, differentiably."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum over the axes of an event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum over the axes of an event."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of the base, if it is looked at as it is."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        inner = f"{self.base_dist!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({inner})"
