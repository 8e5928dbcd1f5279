"""Transforms side by side: `CatTransform` and `StackTransform`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from ._transform import Transform
from .utils import _sum_rightmost

__all__ = ["CatTransform", "StackTransform"]


class _Joined(Transform):
    transforms: list[Transform]
    dim: int

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(f"all of tseq must be Transforms, but it is {tseq!r}")
        parts = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = parts
        self.dim = dim

    def _check_axis(self, x: Tensor) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim={self.dim} is not an axis of a value of {x.dim()} axes")

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)


class CatTransform(_Joined):
    """Each transform on its own part of an axis.

    Parameters
    ----------
    tseq
        The transforms.
    dim
        The axis.
    lengths
        How many elements each has; 1 by default.
    """

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
            raise AssertionError(f"{len(self.transforms)} transforms, {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        """The most axes that an event of a part has."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """How many elements the axis has."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache of a size."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._check_axis(x)
        if x.size(self.dim) != self.length:
            raise AssertionError(
                f"the axis has {x.size(self.dim)} elements, the transforms have {self.length}"
            )
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(x), strict=True)
        return ad.cat([t(part) for t, part in parts], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return ad.cat([t.inv(part) for t, part in parts], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the parts, side by side, or their sum if the axis is of the event."""
        terms = []
        for t, xs, ys in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(xs, ys)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return ad.cat(terms, dim=dim) if dim < 0 else sum(terms)  # type: ignore[return-value]

    @constraints.dependent_property
    def domain(self) -> Any:
        """The domains side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The codomains side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """Each transform on one slice of an axis."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache of a size."""
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> list[Tensor]:
        self._check_axis(z)
        if z.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"the axis has {z.size(self.dim)} slices for {len(self.transforms)} transforms"
            )
        return [z.select(self.dim, i) for i in range(z.size(self.dim))]

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slice(x), strict=True)
        return ad.stack([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slice(y), strict=True)
        return ad.stack([t.inv(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the slices."""
        parts = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        terms = [t.log_abs_det_jacobian(xs, ys) for t, xs, ys in parts]
        return ad.stack(terms, self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The domains, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The codomains, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
