"""Where parameters and samples may lie.

A constraint has `check`, and says how many axes one value has and whether it is discrete. Numbers
are here; matrices stand in _matrix_constraints.py, what is made from others in _constraint.py.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from adjoint import Tensor
from adjoint.distributions._constraint import Bound as _Bound
from adjoint.distributions._constraint import Constraint as Constraint
from adjoint.distributions._constraint import (
    MixtureSameFamilyConstraint as MixtureSameFamilyConstraint,
)
from adjoint.distributions._constraint import _Cat as _Cat
from adjoint.distributions._constraint import _Dependent as _Dependent
from adjoint.distributions._constraint import _DependentProperty as _DependentProperty
from adjoint.distributions._constraint import _IndependentConstraint as _IndependentConstraint
from adjoint.distributions._constraint import _Stack as _Stack
from adjoint.distributions._constraint import is_dependent as is_dependent
from adjoint.distributions._matrix_constraints import _CorrCholesky as _CorrCholesky
from adjoint.distributions._matrix_constraints import _LowerCholesky as _LowerCholesky
from adjoint.distributions._matrix_constraints import _LowerTriangular as _LowerTriangular
from adjoint.distributions._matrix_constraints import _PositiveDefinite as _PositiveDefinite
from adjoint.distributions._matrix_constraints import _PositiveSemidefinite as _PositiveSemidefinite
from adjoint.distributions._matrix_constraints import _Square as _Square
from adjoint.distributions._matrix_constraints import _Symmetric as _Symmetric

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

# Sums of probabilities are 1 up to this.
_SUM_TOLERANCE = 1e-6


class _Real(Constraint):
    """Every number, and not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Numbers on one side of a bound, or between two.

    A class names how a value compares with each bound; the bounds are numbers or tensors.
    """

    above: ClassVar[Any] = None
    below: ClassVar[Any] = None

    def _bound(self, **bounds: _Bound) -> None:
        self.__dict__.update(bounds)

    def check(self, value: Tensor) -> Tensor:
        inside = value % 1 == 0 if self.is_discrete else None
        for relation, name in ((self.above, "lower_bound"), (self.below, "upper_bound")):
            if relation is not None:
                holds = relation(value, getattr(self, name))
                inside = holds if inside is None else inside & holds
        assert inside is not None
        return inside

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _From(_Bounded):
    """Bounded from below."""

    lower_bound: _Bound

    def __init__(self, lower_bound: _Bound) -> None:
        self._bound(lower_bound=lower_bound)


class _UpTo(_Bounded):
    """Bounded from above."""

    upper_bound: _Bound

    def __init__(self, upper_bound: _Bound) -> None:
        self._bound(upper_bound=upper_bound)


class _Between(_Bounded):
    """Bounded from both sides."""

    lower_bound: _Bound
    upper_bound: _Bound

    def __init__(self, lower_bound: _Bound, upper_bound: _Bound) -> None:
        self._bound(lower_bound=lower_bound, upper_bound=upper_bound)


class _GreaterThan(_From):
    """Numbers above a bound."""

    above = operator.gt


class _GreaterThanEq(_From):
    """A bound and the numbers above it."""

    above = operator.ge


class _LessThan(_UpTo):
    """Numbers below a bound."""

    below = operator.lt


class _Interval(_Between):
    """Numbers between two bounds, both included."""

    above = operator.ge
    below = operator.le


class _HalfOpenInterval(_Between):
    """Numbers between two bounds, the upper one excluded."""

    above = operator.ge
    below = operator.lt


class _IntegerInterval(_Between):
    """Whole numbers between two bounds, both included."""

    is_discrete = True
    above = operator.ge
    below = operator.le


class _IntegerLessThan(_UpTo):
    """Whole numbers up to a bound, included."""

    is_discrete = True
    below = operator.le


class _IntegerGreaterThan(_From):
    """Whole numbers from a bound on, included."""

    is_discrete = True
    above = operator.ge


class _Simplex(Constraint):
    """Vectors of numbers from 0 on whose sum is 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        near = (value.sum(-1) - 1).abs() < _SUM_TOLERANCE
        return near & (value >= 0).all(-1)


class _OneHot(Constraint):
    """Vectors of zeros and a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return _Boolean().check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Vectors of counts with a sum of at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: _Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value.sum(-1) <= self.upper_bound) & (value >= 0).all(-1)


# Families, to be called with bounds or parts.
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
multinomial = _Multinomial
independent = _IndependentConstraint
cat = _Cat
stack = _Stack
dependent_property = _DependentProperty

# Regions.
real = _Real()
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = _Boolean()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real_vector = independent(real, 1)
simplex = _Simplex()
one_hot = _OneHot()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
dependent = _Dependent()
