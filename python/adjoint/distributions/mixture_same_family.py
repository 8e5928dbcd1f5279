"""`MixtureSameFamily`: one of several components of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .categorical import Categorical
from .constraints import Constraint, MixtureSameFamilyConstraint
from .distribution import _NO_SHAPE, Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A draw of a component, and then of a sample from it.

    Parameters
    ----------
    mixture_distribution
        A `Categorical` that chooses the component.
    component_distribution
        The components, along the last axis of the batch.
    validate_args
        Whether values are checked.
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        of_mixture = mixture_distribution.batch_shape
        of_components = component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(of_mixture), reversed(of_components), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({of_mixture}) is not compatible with "
                    f"`component_distribution.batch_shape`({of_components})"
                )
        km = mixture_distribution.logits.shape[-1]
        kc = component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(of_components, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        shape = ad.Size(batch_shape)
        components = self._component_distribution.expand((*shape, self._num_component))
        new._component_distribution = components
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        return self._finish(new, shape, components.event_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """What all components have in common."""
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _mean_over_components(self, values: Tensor) -> Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._mean_over_components(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The variance within components, and between them."""
        between = (self.component_distribution.mean - self._pad(self.mean)).pow(2.0)
        within = self.component_distribution.variance
        return self._mean_over_components(within) + self._mean_over_components(between)

    def cdf(self, x: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        below = self.component_distribution.cdf(self._pad(x))
        return (below * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(x)
        of_components = self.component_distribution.log_prob(self._pad(x))
        weights = self.mixture_distribution.logits.log_softmax(-1)
        return (of_components + weights).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples: of all components, of which one is kept."""
        with no_grad():
            axis = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            events = self.event_shape
            index = chosen.reshape((*chosen.shape, *[1] * (len(events) + 1)))
            index = index.expand((*chosen.shape, 1, *events))
            index = index.expand((*drawn.shape[:axis], 1, *events))
            return drawn.gather(axis, index).squeeze(axis)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = (*x.shape[:-1], *[1] * missing, x.shape[-1], *[1] * self._event_ndims)
        return x.reshape(shape)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
