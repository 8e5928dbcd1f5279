"""`Independent`: batch axes that belong to the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .constraints import Constraint
from .distribution import _NO_SHAPE, Distribution
from .utils import _sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """The last batch axes of a distribution as axes of its event.

    Parameters
    ----------
    base_distribution
        The distribution.
    reinterpreted_batch_ndims
        How many axes.
    validate_args
        Whether values are checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> base = ad.distributions.Normal(ad.zeros(2, 3), 1.0)
    >>> d = ad.distributions.Independent(base, 1)
    >>> d.batch_shape, d.event_shape
    (torch.Size([2]), torch.Size([3]))
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        shape = batch + base_distribution.event_shape
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(ad.Size(shape[:cut]), ad.Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Independent, _instance)
        shape = ad.Size(batch_shape)
        taken = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(ad.Size((*shape, *taken)))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish(new, shape, self.event_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has gradients of samples."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the base, for all elements of an event."""
        base, axes = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, axes) if axes else base

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples without a history."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of the logarithms over the axes of the event."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the sum of the entropies over the axes of the event."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values along a new first axis."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
