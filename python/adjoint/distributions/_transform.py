"""`Transform`: a differentiable map with its inverse, and maps made of other maps.

A map gives `_call`, `_inverse` and the logarithm of its derivative's determinant. Read next:
_pointwise_transforms.py and _vector_transforms.py, the maps themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._values import sum_rightmost
from adjoint.distributions.constraints import Constraint

Sign = Tensor | int


class Transform:
    """A map y = f(x) between regions, which can be undone where it is `bijective`.

    Parameters
    ----------
    cache_size
        With 1, the last pair (x, y) is kept: its inverse is then exact and costs nothing.
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint
    # The map this one undoes, if it was made by `inv`; and what undoes this one, while it lives.
    _undoes: Transform | None = None
    _undone_by: weakref.ref[Transform] | None = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._pair: tuple[Tensor, Tensor] | None = None
        super().__init__()

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log |det dy/dx| at a pair of a value and its image."""
        raise NotImplementedError

    @property
    def sign(self) -> Sign:
        """1 where a map of numbers increases, -1 where it decreases."""
        raise NotImplementedError

    @property
    def event_dim(self) -> int:
        """How many axes one value has, before the map as after it."""
        before, after = self.domain.event_dim, self.codomain.event_dim
        if before != after:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return before

    # -- use ---------------------------------------------------------------------------------------

    def __call__(self, x: Tensor) -> Tensor:
        return self._remembered(x, 0, self._call)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._remembered(y, 1, self._inverse)

    def _remembered(self, value: Tensor, side: int, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """The other half of the pair kept, if `value` is this half of it; else compute it."""
        if self._cache_size and self._pair is not None and self._pair[side] is value:
            return self._pair[1 - side]
        other = compute(value)
        if self._cache_size:
            self._pair = (other, value) if side else (value, other)
        return other

    @property
    def inv(self) -> Transform:
        """The map back; its own `inv` is this object."""
        if self._undoes is not None:
            return self._undoes
        backward = None if self._undone_by is None else self._undone_by()
        if backward is None:
            backward = self._backward()
            backward._undoes = self
            self._undone_by = weakref.ref(backward)
        return backward

    def _backward(self) -> Transform:
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same map with a cache of this size."""
        return self if cache_size == self._cache_size else self._rebuilt(cache_size)

    def _rebuilt(self, cache_size: int) -> Transform:
        if type(self).__init__ is not Transform.__init__:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(cache_size=cache_size)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """The shape of the image of a value of this shape."""
        return shape  # type: ignore[return-value]

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """The shape of a value whose image has this shape."""
        return shape  # type: ignore[return-value]

    # -- text, equality, copies --------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pair": None, "_undone_by": None}


def need_axes(shape: Sequence[int], axes: int) -> None:
    """Refuse a shape without `axes` axes."""
    if len(shape) < axes:
        raise ValueError("Too few dimensions on input")


class _InverseTransform(Transform):
    """A map backwards."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._undoes: Transform = transform

    @property
    def _inv(self) -> Transform:  # what published libraries ask
        return self._undoes

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self._undoes.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self._undoes.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._undoes.bijective

    @property
    def sign(self) -> Sign:
        return self._undoes.sign

    def __call__(self, x: Tensor) -> Tensor:
        return self._undoes._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._undoes(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._undoes.log_abs_det_jacobian(y, x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._undoes.with_cache(cache_size).inv

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._undoes.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._undoes.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._undoes == other._undoes

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._undoes!r})"


def _widened(constraint: Constraint, axes: int) -> Constraint:
    """The constraint on values of `axes` axes, of which its own values are parts."""
    more = axes - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class ComposeTransform(Transform):
    """Several maps one after the other.

    Parameters
    ----------
    parts
        The maps, the first to be applied first.
    cache_size
        Whether each part keeps its last pair.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """Where the first part starts, wide enough for all parts."""
        if not self.parts:
            return constraints.real
        axes = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            change = part.domain.event_dim - part.codomain.event_dim
            axes = max(axes + change, part.domain.event_dim)
        return _widened(self.parts[0].domain, axes)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """Where the last part ends, wide enough for all parts."""
        if not self.parts:
            return constraints.real
        axes = self.parts[0].domain.event_dim
        for part in self.parts:
            change = part.codomain.event_dim - part.domain.event_dim
            axes = max(axes + change, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, axes)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether every part can be undone."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Sign:
        """The product of the signs of the parts."""
        product: Sign = 1
        for part in self.parts:
            product = product * part.sign
        return product

    def _backward(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def _rebuilt(self, cache_size: int) -> Transform:
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the parts, each at the value that reaches it."""
        if not self.parts:
            return ad.zeros_like(x)
        total: Tensor | None = None
        axes = self.domain.event_dim
        for part, before, after in self._steps(x, y):
            term = sum_rightmost(
                part.log_abs_det_jacobian(before, after), axes - part.domain.event_dim
            )
            total = term if total is None else total + term
            axes += part.codomain.event_dim - part.domain.event_dim
        assert total is not None
        return total

    def _steps(self, x: Tensor, y: Tensor) -> Iterator[tuple[Transform, Tensor, Tensor]]:
        """Each part with its value and image; `y` is the last image, not computed again."""
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            yield part, x, after
            x = after

    def forward_shape(self, shape: Sequence[int]) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape  # type: ignore[return-value]

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inner}\n)"


class IndependentTransform(Transform):
    """A map of which some batch axes count as axes of its values: its determinants multiply."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _rebuilt(self, cache_size: int) -> Self:
        return type(self)(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """Values of the map with more axes."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """Images of the map with more axes."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the map can be undone."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Sign:
        """The sign of the map."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        need_axes(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        need_axes(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the map's logarithms."""
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        inner = f"{self.base_transform!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({inner})"


identity_transform = ComposeTransform([])
