"""Maps of numbers: a function, its inverse and the logarithm of its slope."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._transform import Sign, Transform
from adjoint.distributions._values import log_one_plus_exp, sum_rightmost
from adjoint.distributions.constraints import Constraint


class Rule(NamedTuple):
    """A map of numbers without parameters."""

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor], Tensor]
    log_slope: Callable[[Tensor, Tensor], Tensor] | None = None


class Pointwise(Transform):
    """An increasing map of real numbers given by a `Rule`; all objects of a class are equal."""

    domain = constraints.real
    bijective = True
    rule: ClassVar[Rule]

    @property
    def sign(self) -> Sign:
        """1: it increases."""
        return 1

    def _call(self, x: Tensor) -> Tensor:
        return self.rule.forward(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.rule.backward(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the slope."""
        if self.rule.log_slope is None:
            raise NotImplementedError
        return self.rule.log_slope(x, y)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None


def inside_unit_interval(y: Tensor) -> Tensor:
    """Numbers kept between 0 and 1, both excluded."""
    info = ad.finfo(y.dtype)
    return y.clamp(min=info.tiny, max=1 - info.eps)


def clipped_sigmoid(x: Tensor) -> Tensor:
    """The logistic function, never 0 or 1."""
    return inside_unit_interval(x.sigmoid())


def _logit(y: Tensor) -> Tensor:
    y = inside_unit_interval(y)
    return y.log() - (-y).log1p()


class ExpTransform(Pointwise):
    """y = exp(x)."""

    codomain = constraints.positive
    rule = Rule(ad.exp, ad.log, lambda x, y: x)


class SigmoidTransform(Pointwise):
    """y = 1 / (1 + exp(-x)), kept between 0 and 1."""

    codomain = constraints.unit_interval
    rule = Rule(clipped_sigmoid, _logit, lambda x, y: -log_one_plus_exp(x) - log_one_plus_exp(-x))


class SoftplusTransform(Pointwise):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive
    rule = Rule(
        log_one_plus_exp, lambda y: y + (-(-y).expm1()).log(), lambda x, y: -log_one_plus_exp(-x)
    )


class TanhTransform(Pointwise):
    """y = tanh(x).

    Its inverse is inexact near -1 and 1; with ``cache_size=1`` the value itself comes back.
    """

    codomain = constraints.interval(-1.0, 1.0)
    rule = Rule(ad.tanh, ad.atanh, lambda x, y: 2 * (math.log(2) - x - log_one_plus_exp(-2 * x)))


class AbsTransform(Pointwise):
    """``y = |x|``. Two values have one image; the inverse gives the positive one."""

    codomain = constraints.positive
    bijective = False
    rule = Rule(ad.abs, lambda y: y)

    @property
    def sign(self) -> Sign:
        """There is none: it falls, then rises."""
        raise NotImplementedError


def _same(a: Tensor | float, b: Tensor | float) -> bool:
    """Whether two numbers or tensors are equal in every element."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return bool((ad.as_tensor(a) == ad.as_tensor(b)).all())
    return a == b


def _sign_of(value: Tensor | float) -> Sign:
    return value.sign() if isinstance(value, Tensor) else (value > 0) - (value < 0)


class _WithNumbers(Transform):
    """A map of numbers with numbers or tensors as its parameters, which broadcast."""

    bijective = True

    def _numbers(self) -> tuple[Tensor | float, ...]:
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Size:
        shapes = [n.shape for n in self._numbers() if isinstance(n, Tensor)]
        return Size(ad.broadcast_shapes(tuple(shape), *shapes))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return all(map(_same, self._numbers(), other._numbers()))

    __hash__ = None


class PowerTransform(_WithNumbers):
    """y = x ** exponent, of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else ad.tensor(exponent)

    def _numbers(self) -> tuple[Tensor | float, ...]:
        return (self.exponent,)

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.exponent, cache_size)

    @property
    def sign(self) -> Sign:
        """The sign of the exponent."""
        return _sign_of(self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log |exponent · y / x|."""
        return (self.exponent * y / x).abs().log()


class AffineTransform(_WithNumbers):
    """y = loc + scale · x.

    Parameters
    ----------
    loc, scale
        Numbers or tensors.
    event_dim
        How many axes of a value count as one: 0 for numbers, 1 for vectors.
    """

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        event_dim: int = 0,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    def _numbers(self) -> tuple[Tensor | float, ...]:
        return self.loc, self.scale

    def _rebuilt(self, cache_size: int) -> Transform:
        return type(self)(self.loc, self.scale, self._event_dim, cache_size)

    def _region(self) -> Constraint:
        if not self._event_dim:
            return constraints.real
        return constraints.independent(constraints.real, self._event_dim)

    @property
    def event_dim(self) -> int:
        """How many axes one value has."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """All values."""
        return self._region()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """All values."""
        return self._region()

    @property
    def sign(self) -> Sign:
        """The sign of the scale."""
        return _sign_of(self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log |scale|, once for each number of a value."""
        if isinstance(self.scale, Tensor):
            # A value may have axes that the scale lacks, and the other way round.
            each = self.scale.abs().log().expand(ad.broadcast_shapes(x.shape, self.scale.shape))
        else:
            each = ad.full_like(x, math.log(abs(self.scale)) if self.scale else -math.inf)
        return sum_rightmost(each, self._event_dim)
