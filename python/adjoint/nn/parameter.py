"""`Parameter`: a tensor that a module lists among what is to be trained; `Buffer`: one it keeps.

Read next: `modules/module.py`, whose `__setattr__` registers parameters.
"""

from __future__ import annotations

from typing import Any, Self

import adjoint as ad
from adjoint import Tensor, _core

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A leaf tensor that a `Module` registers when it is assigned as an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values; shared, not copied. An empty tensor if not given.
    requires_grad : bool, default True
        Whether gradients are computed for it.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.Parameter(ad.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    # What is computed from a parameter is a plain tensor.
    __torch_function__ = _core._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:  # noqa: D102
        if data is None:
            data = ad.empty(0)
        made: Self = Tensor._make_subclass(cls, _core._parameter_source(data), requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            found: Self = memo[id(self)]
            return found
        copy = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy


_core._set_parameter_class(Parameter)


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """A buffer is a plain tensor with a mark: its class is `Tensor`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a `Module` registers as a buffer when it is assigned as an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values; shared, not copied. An empty tensor if not given.
    persistent : bool, default True
        Whether `Module.state_dict` includes it.

    Examples
    --------
    >>> import adjoint as ad
    >>> module = ad.nn.Module()
    >>> module.mean = ad.nn.Buffer(ad.zeros(2))
    >>> dict(module.named_buffers())
    {'mean': tensor([0., 0.])}
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:  # noqa: D102
        if data is None:
            data = ad.empty(0)
        made: Any = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, attributes: dict[str, Any]
) -> Parameter:
    parameter = cls(data, requires_grad)
    for name, value in attributes.items():
        setattr(parameter, name, value)
    return parameter
