"""Maps side by side along an axis, and the map by a distribution function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions import constraints
from adjoint.distributions._transform import Sign, Transform
from adjoint.distributions._values import sum_rightmost
from adjoint.distributions.constraints import Constraint

if TYPE_CHECKING:
    from adjoint.distributions._base import Distribution


class _Joined(Transform):
    """A map for each part of a value along the axis `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        maps = list(tseq)
        if not all(isinstance(t, Transform) for t in maps):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in maps] if cache_size else maps
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether every map can be undone."""
        return all(t.bijective for t in self.transforms)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        """The parts of a value, after a check that there is one for each map."""
        raise NotImplementedError

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _require_axis(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"A value of {value.dim()} axes has no axis {self.dim}")

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return self._join([t(part) for t, part in pairs], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return self._join([t.inv(part) for t, part in pairs], self.dim)


class CatTransform(_Joined):
    """Maps for slices of the given `lengths` along the axis `dim`, each 1 by default."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"Expected a length for each of {len(self.transforms)} transforms but got "
                f"{len(self.lengths)}"
            )

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.transforms, self.dim, self.lengths, cache_size)

    @property
    def event_dim(self) -> int:
        """The most axes that a value of one of the maps has."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of the axis."""
        return sum(self.lengths)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._require_axis(value)
        if value.shape[self.dim] != self.length:
            raise AssertionError(
                f"The axis {self.dim} has size {value.shape[self.dim]}, the lengths add up to "
                f"{self.length}"
            )
        return value.split(self.lengths, self.dim)

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        return ad.cat(list(parts), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Side by side, or added up if the axis is part of one value."""
        terms = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
            for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return self._join(terms, dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """The domains of the maps side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """The codomains of the maps side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """The i-th map for the i-th slice along the axis `dim`."""

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.transforms, self.dim, cache_size)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._require_axis(value)
        if value.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"The axis {self.dim} has size {value.shape[self.dim]}, there are "
                f"{len(self.transforms)} transforms"
            )
        return value.unbind(self.dim)

    def _join(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        return ad.stack(list(parts), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Those of the maps side by side."""
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """The domains of the maps side by side."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """The codomains of the maps side by side."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = F(x), the distribution function of a distribution of numbers."""

    codomain = constraints.unit_interval
    bijective = True

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.distribution, cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The support of the distribution."""
        support = self.distribution.support
        assert support is not None
        return support

    @property
    def sign(self) -> Sign:
        """1: it increases."""
        return 1

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The slope of a distribution function is the density."""
        return self.distribution.log_prob(x)
