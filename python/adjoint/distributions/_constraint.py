"""What a constraint is, and those that are made from others or decided by an instance.

Read next: constraints.py, which has the public names and the constraints on numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import Tensor

Bound = Tensor | float


class Constraint:
    """A region of values: where a parameter may lie, or the support of a distribution.

    Attributes
    ----------
    is_discrete : bool
        Whether the region consists of separate points.
    event_dim : int
        How many axes on the right make up one value; `check` answers once for all of them.
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Tell of each value of a batch whether it lies in the region."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{_shown_name(self)}()"


def _shown_name(constraint: Constraint) -> str:
    return type(constraint).__name__.removeprefix("_")


def all_of_rightmost(inside: Tensor, axes: int) -> Tensor:
    """Whether all elements along the last `axes` axes are true."""
    return inside.flatten(-axes).all(-1) if axes else inside


class _Dependent(Constraint):
    """A region that depends on other things; what is known of it may be given."""

    def __init__(
        self, *, is_discrete: bool | Any = NotImplemented, event_dim: int | Any = NotImplemented
    ) -> None:
        self._known = {"is_discrete": is_discrete, "event_dim": event_dim}
        super().__init__()

    def _fact(self, name: str) -> Any:
        fact = self._known[name]
        if fact is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return fact

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the region consists of separate points, where that is known."""
        return bool(self._fact("is_discrete"))

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many axes make up one value, where that is known."""
        return int(self._fact("event_dim"))

    def __call__(self, **facts: Any) -> Any:
        """The same with more known about it: ``dependent(is_discrete=False, event_dim=1)``."""
        return _Dependent(**(self._known | facts))

    def check(self, value: Tensor) -> Tensor:
        """Refuse: the region is not known."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; asked of the class, it is a dependent constraint.

    A decorator, plain or with what is known: ``@dependent_property(event_dim=1)``.
    """

    def __init__(self, fget: Callable[[Any], Any] | None = None, **facts: Any) -> None:
        property.__init__(self, fget)
        _Dependent.__init__(self, **facts)

    def __call__(self, fget: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fget, **self._known)


def is_dependent(constraint: object) -> bool:
    """Whether a constraint depends on an instance, and so cannot check a value by itself."""
    return isinstance(constraint, _Dependent)


class _Wrapping(Constraint):
    """One constraint looked at in another way."""

    base_constraint: Constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    def _require_axes(self, value: Tensor, axes: int) -> None:
        if value.dim() < axes:
            raise ValueError(f"Expected value.dim() >= {axes} but got {value.dim()}")


class _IndependentConstraint(_Wrapping):
    """Some batch axes of a constraint count as axes of its values."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected a Constraint but got {type(base_constraint).__name__}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"Expected a count of axes but got reinterpreted_batch_ndims="
                f"{reinterpreted_batch_ndims!r}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            self._require_axes(value, self.event_dim)
        return all_of_rightmost(inside, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        inner = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{_shown_name(self)}({inner})"


class MixtureSameFamilyConstraint(_Wrapping):
    """The values that every component of a mixture can take.

    The support of the components has one batch axis more than a value of the mixture.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected a Constraint but got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many axes one value of a component has."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Tell of each value whether all components have it in their support."""
        self._require_axes(value, self.event_dim)
        by_component = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return all_of_rightmost(by_component, by_component.dim() - value.dim() + self.event_dim)

    def __repr__(self) -> str:
        return f"{_shown_name(self)}({self.base_constraint!r})"


class _Joined(Constraint):
    """Several constraints side by side along the axis `dim`."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq: list[Constraint] = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("Expected a sequence of Constraints")
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    def _require_axis(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"A value of {value.dim()} axes has no axis {self.dim}")


class _Cat(_Joined):
    """Slices of the given `lengths`, each with a constraint of its own."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"Expected a length for each of {len(self.cseq)} constraints but got "
                f"{len(self.lengths)}"
            )

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        import adjoint as ad

        self._require_axis(value)
        slices = value.split(self.lengths, self.dim)
        inside = [c.check(part) for c, part in zip(self.cseq, slices, strict=True)]
        return ad.cat(inside, self.dim)


class _Stack(_Joined):
    """The i-th slice has the i-th constraint."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        inner = max(c.event_dim for c in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value: Tensor) -> Tensor:
        import adjoint as ad

        self._require_axis(value)
        slices = value.unbind(self.dim)
        inside = [c.check(part) for c, part in zip(self.cseq, slices, strict=True)]
        return ad.stack(inside, self.dim)
