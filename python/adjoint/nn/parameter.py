"""`Parameter`: a tensor that a module lists among what is to be trained; `Buffer`: one it keeps.

`UninitializedParameter` and `UninitializedBuffer` take their places in a lazy module until its
first input tells their shapes. Read next: `modules/_registration.py`, whose `__setattr__` registers
parameters, and `modules/lazy.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import adjoint as ad
from adjoint import Tensor, _core

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


def _is_marked(tensor: Any) -> bool:
    return bool(getattr(tensor, "_is_param", False))


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """A tensor of another class that was made a parameter counts as one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Parameter and isinstance(instance, Tensor) and _is_marked(instance):
            return True
        return bool(super().__instancecheck__(instance))


class Parameter(Tensor, metaclass=_ParameterMeta):
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
        if type(data) is Tensor or type(data) is Parameter or not isinstance(data, Tensor):
            made: Self = Tensor._make_subclass(cls, _core._parameter_source(data), requires_grad)
            return made
        marked: Self = cls._of_other_class(data, requires_grad)
        return marked

    @classmethod
    def _of_other_class(cls, data: Any, requires_grad: bool) -> Any:
        """A tensor of a subclass keeps its class and is marked."""
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but return type "
                f"{type(made).__name__} was found instead. To use the type as a Parameter, please "
                "correct the detach() semantics defined by its __torch_dispatch__() implementation."
            )
        made._is_param = True
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


class UninitializedTensorMixin:
    """What a parameter and a buffer without a shape share: they refuse to be computed with."""

    cls_to_become: type[Tensor]

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of the given shape, with values that are not set yet."""
        self.data = ad.empty(
            shape, device=device, dtype=self.data.dtype if dtype is None else dtype
        )
        self.__class__ = self.cls_to_become
        _core._refresh_class(self)

    @property
    def shape(self) -> Any:
        """Raises: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """Raises: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        # The reading of an attribute arrives as the bound `__get__` of its descriptor.
        if func in _allowed() or type(func).__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )


@lru_cache(maxsize=1)
def _allowed() -> frozenset[Any]:
    """The methods that make sense before there is a shape: casts, and what asks for the dtype."""
    names = (
        "__hash__ size copy_ is_complex is_floating_point half float double char short int long "
        "bfloat16 cuda cpu to get_device detach requires_grad_"
    )
    return frozenset(getattr(Tensor, name) for name in names.split() if hasattr(Tensor, name))


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is told later, by `materialize`.

    Parameters
    ----------
    requires_grad : bool, default True
        Whether gradients will be computed for it.
    device, dtype : optional
        Where and in which dtype it will be made.

    Examples
    --------
    >>> import adjoint as ad
    >>> p = ad.nn.UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> type(p).__name__, list(p.shape)
    ('Parameter', [2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Self:  # noqa: D102
        data = ad.empty(0, device=device, dtype=dtype)
        made: Self = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, dtype=self.data.dtype)
        found: Self = memo[id(self)]
        return found


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is told later, by `materialize`."""

    cls_to_become = Tensor

    def __new__(  # noqa: D102
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        data = ad.empty(0, device=device, dtype=dtype)
        made: Any = Tensor._make_subclass(cls, data, requires_grad)
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
