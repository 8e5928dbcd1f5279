"""`Parameter`: a tensor that a module lists among what is to be trained; `Buffer`: one it keeps.

Read next: `modules/module.py`, whose `__setattr__` registers parameters.
"""

from __future__ import annotations

from typing import Any, Self

import adjoint as ad
from adjoint import Tensor, _core

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "is_lazy",
]


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


# --- of a size that is not known yet ------------------------------------------------------------
def is_lazy(value: object) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(value, UninitializedTensorMixin)


class UninitializedTensorMixin:
    """A parameter or buffer without a shape: `materialize` gives it one."""

    cls_to_become: type
    data: Tensor
    requires_grad: bool
    # What may be asked of it.
    _allowed = frozenset(
        (
            *("__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float"),
            *("double", "char", "short", "int", "long", "cpu", "to", "__get__", "__set__"),
            "requires_grad_",
        )
    )

    def materialize(self, shape: Any, device: Any = None, dtype: ad.dtype | None = None) -> None:
        """Make memory for this shape; the tensor becomes an ordinary one."""
        self.data = ad.empty(shape, device=device, dtype=dtype or self.data.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """There is none."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """There is none to share."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in cls._allowed:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A `Parameter` whose shape is not known yet.

    Examples
    --------
    >>> import adjoint as ad
    >>> p = ad.nn.parameter.UninitializedParameter()
    >>> p.materialize((2,))
    >>> type(p).__name__, p.shape
    ('Parameter', torch.Size([2]))
    """

    cls_to_become = Parameter

    def __new__(  # noqa: D102
        cls, requires_grad: bool = True, device: Any = None, dtype: ad.dtype | None = None
    ) -> Self:
        data = ad.empty(0, device=device, dtype=dtype)
        made: Self = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            found: Self = memo[id(self)]
            return found
        copy = type(self)(self.requires_grad, dtype=self.data.dtype)
        memo[id(self)] = copy
        return copy


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __new__(  # noqa: D102
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: ad.dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        data = ad.empty(0, device=device, dtype=dtype)
        made: Self = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent  # type: ignore[attr-defined]
        made._is_buffer = True  # type: ignore[attr-defined]
        return made
