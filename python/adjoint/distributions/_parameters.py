"""`Parameter`: how a class declares what it is made of.

``loc = Parameter(constraints.real)`` in a class body says that instances hold a tensor of this name
and where it may lie. The rest follows from the declarations: see _family.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, overload

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions._constraint import Constraint
from adjoint.distributions._values import as_tensors


class Parameter:
    """A tensor of a distribution and its constraint.

    Parameters
    ----------
    constraint
        Where it may lie; its `event_dim` says how many axes on the right are not batch axes.
    derive
        How to compute it from the other parameters, where a user may give one of several forms.
        Computed at its first use, with its history, and kept.
    axes
        How many axes on the right are not batch axes, if the constraint does not say.
    """

    def __init__(
        self,
        constraint: Constraint,
        derive: Callable[[Any], Tensor] | None = None,
        axes: int | None = None,
    ) -> None:
        self.constraint = constraint
        self.derive = derive
        self.axes = constraint.event_dim if axes is None else axes
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Parameter: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Tensor: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # The value itself stands in the instance's dict, where it is found before this is asked.
        if instance is None:
            return self
        if self.derive is None:
            raise AttributeError(
                f"'{type(instance).__name__}' object has no attribute '{self.name}'"
            )
        with ad.enable_grad():
            value = self.derive(instance)
        instance.__dict__[self.name] = value
        return value

    def batch_of(self, value: Tensor) -> Size:
        """The batch axes of a value."""
        return Size(value.shape[: value.dim() - self.axes])

    def expanded(self, value: Tensor, batch: tuple[int, ...]) -> Tensor:
        """The value for a batch of the given shape."""
        if self.batch_of(value) == batch:
            return value
        return value.expand((*batch, *value.shape[value.dim() - self.axes :]))


def same_as(name: str) -> Any:
    """A property that is another attribute: ``mean = same_as("loc")``."""
    return property(attrgetter(name), doc=f"The same as `{name}`.")


def declared(cls: type) -> dict[str, Parameter]:
    """The parameters in the body of `cls` itself."""
    return {name: p for name, p in vars(cls).items() if isinstance(p, Parameter)}


def broadcast(
    parameters: Mapping[str, Parameter], given: Mapping[str, Any]
) -> tuple[dict[str, Tensor], Size]:
    """Numbers and tensors as tensors with one batch shape, and that shape."""
    tensors = dict(zip(given, as_tensors(list(given.values())), strict=True))
    batch = Size(
        ad.broadcast_shapes(*(parameters[name].batch_of(t) for name, t in tensors.items()))
    )
    return {name: parameters[name].expanded(t, batch) for name, t in tensors.items()}, batch
