"""`MixtureSameFamily`: one of several distributions of a kind, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution
from adjoint.distributions.categories import Categorical

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of distributions, which are the last batch axis of one object.

    Parameters
    ----------
    mixture_distribution
        The weights of the components.
    component_distribution
        The components, along the last batch axis.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(ad.tensor([0.3, 0.7]))
    >>> MixtureSameFamily(weights, Normal(ad.tensor([0.0, 10.0]), 1.0)).mean
    tensor(7.)
    """

    arg_constraints: Any = {}  # noqa: RUF012 no parameters of its own

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        _check(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(
            component_distribution.batch_shape[:-1],
            component_distribution.event_shape,
            validate_args,
        )

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """A mixture with its components expanded, without copies."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        components = self._component_distribution
        new._component_distribution = components.expand((*batch_shape, components.batch_shape[-1]))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    @constraints.dependent_property
    def support(self) -> Any:
        """What every component can be."""
        inner: Any = self._component_distribution.support
        return constraints.MixtureSameFamilyConstraint(inner)

    def _axis(self) -> int:
        """The axis of the components among the axes of their values, from the right."""
        return -1 - len(self._event_shape)

    def _averaged(self, of_components: Tensor) -> Tensor:
        """The mean over the components, weighted."""
        weights = self._mixture_distribution.probs
        weights = weights.reshape(weights.shape + (1,) * len(self._event_shape))
        return (weights * of_components).sum(self._axis())

    @property
    def mean(self) -> Tensor:
        """The weighted mean of the means."""
        return self._averaged(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        off = self._component_distribution.mean - self.mean.unsqueeze(self._axis())
        return self._averaged(self._component_distribution.variance + off.square())

    def log_prob(self, x: Tensor) -> Tensor:
        """The logarithm of the weighted mean of the densities."""
        if self._validate_args:
            self._validate_sample(x)
        each = self._component_distribution.log_prob(x.unsqueeze(self._axis()))
        return (each + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, x: Tensor) -> Tensor:
        """The weighted mean of the distribution functions."""
        each = self._component_distribution.cdf(x.unsqueeze(self._axis()))
        return (each * self._mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw of each component, and take the one whose number is drawn."""
        with ad.no_grad():
            number = self._mixture_distribution.sample(sample_shape)
            each = self._component_distribution.sample(sample_shape)
            index = number.reshape(number.shape + (1,) * (1 + len(self._event_shape)))
            axis = self._axis()
            index = index.expand((*number.shape, 1, *self._event_shape))
            return each.gather(each.dim() + axis, index).squeeze(axis)

    def __repr__(self) -> str:
        parts = f"{self._mixture_distribution!r},\n  {self._component_distribution!r}"
        return f"MixtureSameFamily(\n  {parts})"


def _check(weights: Any, components: Any) -> None:
    """Refuse what does not fit together."""
    if not isinstance(weights, Categorical):
        raise ValueError(
            " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
        )
    if not isinstance(components, Distribution):
        raise ValueError(
            "The Component distribution needs to be an instance of torch.distributions.Distribution"
        )
    outer, inner = weights.batch_shape, components.batch_shape
    for mine, other in zip(reversed(outer), reversed(inner[:-1]), strict=False):
        if mine != other and 1 not in (mine, other):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({outer}) is not compatible with "
                f"`component_distribution.batch_shape`({inner[:-1]})"
            )
    count = weights.logits.shape[-1]
    if inner and count != inner[-1]:
        raise ValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({inner[-1]})"
        )
