"""Changing the dtype (and checking the device) of everything a module owns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import adjoint as ad
from adjoint import Tensor
from adjoint import __future__ as future
from adjoint._tensor.device import device as Device
from adjoint._tensor.device import require_cpu
from adjoint.nn.parameter import Parameter, is_lazy
from adjoint.utils._swapping import swap_tensors

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module


class Conversion:
    """The part of `Module` that casts parameters and buffers in place."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if recurse:
            for module in self._modules.values():
                if module is not None:
                    module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._convert_parameter(name, parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _convert_parameter(
        self, name: str, parameter: Parameter, fn: Callable[[Tensor], Tensor]
    ) -> None:
        with ad.no_grad():
            converted = fn(parameter)
        grad = parameter.grad
        parameter.grad = None
        place = parameter
        if future.get_swap_module_params_on_conversion():
            try:
                swap_tensors(parameter, Parameter(converted, parameter.requires_grad))
            except Exception as error:
                parameter.grad = grad
                raise RuntimeError(
                    f"_apply(): Couldn't swap {type(self).__name__}.{name}"
                ) from error
        elif future.get_overwrite_module_params_on_conversion() or _of_other_kind(
            parameter, converted
        ):
            place = self._parameters[name] = Parameter(converted, parameter.requires_grad)
        else:
            # Into .data, so that an optimizer that holds the parameter keeps the same object.
            parameter.data = converted
        if grad is not None:
            with ad.no_grad():
                place.grad = fn(grad).detach().requires_grad_(grad.requires_grad)
            if place is not parameter:
                parameter.grad = grad

    def share_memory(self) -> Self:
        """Move parameters, their gradients and buffers to memory that processes share.

        See `Tensor.share_memory_`.
        """
        for module in self._modules.values():
            if module is not None:
                module.share_memory()
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if tensor is not None:
                tensor.share_memory_()
                if tensor.is_leaf and tensor.grad is not None:
                    tensor.grad.share_memory_()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Cast floating-point parameters and buffers: `to(dtype)`, `to(device)`, `to(tensor)`.

        Integer buffers keep their dtype. With ``memory_format=`` the tensors of four or five axes
        are laid out in that order.
        """
        device, dtype, layout = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors "
                "as parameters or buffers.",
                stacklevel=2,
            )
        if device is None and dtype is None and layout is None:
            return self

        def convert(t: Tensor) -> Tensor:
            kept = t.is_floating_point() or t.is_complex()
            if is_lazy(t) or layout is None or t.dim() not in (4, 5):
                return t.to(device or t.device, dtype if kept else None)
            return t.to(device or t.device, dtype if kept else None, memory_format=layout)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give parameters and buffers new memory on a device, with values that are not set.

        What comes after is the initialisation: `module.apply(...)` or `load_state_dict`.
        """
        return self._apply(lambda t: ad.empty_like(t, device=device), recurse=recurse)

    def _cast(self, dtype: ad.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type: ad.dtype) -> Self:
        """Cast every parameter and buffer, integer ones too."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast(ad.float32)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast(ad.float64)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast(ad.float16)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._cast(ad.bfloat16)

    def cpu(self) -> Self:
        """Return self: everything is on the CPU."""
        return self

    def cuda(self, device: object = None) -> Self:
        """Raise: adjoint computes on the CPU."""
        require_cpu("cuda")
        return self

    def ipu(self, device: object = None) -> Self:
        """Raise: adjoint computes on the CPU."""
        require_cpu("ipu")
        return self

    def xpu(self, device: object = None) -> Self:
        """Raise: adjoint computes on the CPU."""
        require_cpu("xpu")
        return self

    def mtia(self, device: object = None) -> Self:
        """Raise: adjoint computes on the CPU."""
        require_cpu("mtia")
        return self


def _of_other_kind(parameter: Tensor, converted: Tensor) -> bool:
    """Whether memory cannot be handed from one to the other: only one of them has any."""
    return parameter.is_meta != converted.is_meta


def _parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ad.dtype | None, ad.memory_format | None]:
    """The device, the dtype and the order of axes that the arguments of `to` name."""
    given = dict(kwargs)
    layout = given.pop("memory_format", None)
    for unused in ("non_blocking", "copy"):
        given.pop(unused, None)
    unknown = set(given) - {"device", "dtype", "tensor", "other"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{sorted(unknown)[0]}'")
    device: Any = None
    dtype: ad.dtype | None = None
    for value in (*args, *given.values()):
        if isinstance(value, ad.dtype):
            dtype = value
        elif isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, str | int | Device):
            device = Device(value)
            if device.type != "meta":
                require_cpu(device)
        else:
            raise TypeError(
                "to() received an invalid combination of arguments: expected a dtype, a device or "
                f"a tensor, got {type(value).__name__}"
            )
    return device, dtype, layout
