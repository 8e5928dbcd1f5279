"""`Family`: the work that the classes of this package share.

A class declares its parameters; `_take` stores them, broadcast, and checks them, `expand` and
`arg_constraints` follow. It gives `_draw` and `_log_density` (and `_cdf`), and gets `sample`,
`rsample`, `log_prob` and `cdf` with their checks. Read next: location_scale.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import adjoint as ad
from adjoint import Size, Tensor
from adjoint._homes import home
from adjoint.distributions._base import Distribution
from adjoint.distributions._parameters import Parameter, broadcast, declared


class Family(Distribution):
    """Distributions with declared parameters."""

    _parameters: ClassVar[dict[str, Parameter]] = {}
    # PyTorch shows no parameters of the classes that it builds from another one.
    _shows_parameters: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = declared(cls)
        if not own:
            return
        cls._parameters = own | {n: p for n, p in cls._parameters.items() if n not in own}
        if "arg_constraints" not in vars(cls):
            wanted = {name: p.constraint for name, p in cls._parameters.items()}
            cls.arg_constraints = wanted  # type: ignore[method-assign, assignment]

    def _take(self, validate_args: bool | None, **given: Any) -> None:
        """Store the parameters that are not None, of one batch shape, and check them."""
        given = {name: value for name, value in given.items() if value is not None}
        tensors, batch_shape = broadcast(self._parameters, given)
        self.__dict__.update(tensors)
        self._prepare()
        Distribution.__init__(self, batch_shape, self._event_of(), validate_args)

    def _event_of(self) -> Sequence[int]:
        """The shape of one draw, of stored parameters."""
        return ()

    def _prepare(self) -> None:
        """Compute what is kept besides parameters, after they are stored or expanded."""

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """A distribution with its parameters expanded to `batch_shape`, without copies."""
        ours = next(c for c in type(self).__mro__ if home(c).startswith(f"{__package__}."))
        new = self._get_checked_instance(ours, _instance)
        batch_shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            parameter = self._parameters.get(name)
            new.__dict__[name] = parameter.expanded(value, batch_shape) if parameter else value
        new._batch_shape = batch_shape
        new._prepare()
        return new  # type: ignore[no-any-return]

    # -- draws and densities -----------------------------------------------------------------------

    def _draw(self, shape: Size) -> Tensor:
        """Draw numbers of the given shape, batch and event included."""
        raise NotImplementedError

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples that are differentiable functions of the parameters."""
        if not self.has_rsample:
            raise NotImplementedError
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples, without gradients."""
        with ad.no_grad():
            if self.has_rsample:
                return self.rsample(sample_shape)
            return self._draw(self._extended_shape(sample_shape))

    def _log_density(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(value)

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of draws up to `value`."""
        if type(self)._cdf is Family._cdf:
            raise NotImplementedError
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def __repr__(self) -> str:
        return super().__repr__() if self._shows_parameters else f"{type(self).__name__}()"
