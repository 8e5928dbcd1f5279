"""Changing the dtype (and checking the device) of everything a module owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import adjoint as ad
from adjoint import Tensor
from adjoint._tensor.device import device as Device
from adjoint._tensor.device import require_cpu
from adjoint.nn.parameter import Parameter

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
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            # Into .data, so that an optimizer that holds the parameter keeps the same object.
            grad = parameter.grad
            parameter.grad = None
            with ad.no_grad():
                parameter.data = fn(parameter.data)
                if grad is not None:
                    parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

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

        The device must be the CPU. Integer buffers keep their dtype.
        """
        dtype = _parse_to(args, kwargs)
        if dtype is None:
            return self
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={dtype}"
            )
        return self._cast(dtype)

    def _cast(self, dtype: ad.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() or t.is_complex() else t)

    def _cast_real(self, dtype: ad.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type: ad.dtype) -> Self:
        """Cast every parameter and buffer, integer ones too."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast_real(ad.float32)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast_real(ad.float64)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast_real(ad.float16)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._cast_real(ad.bfloat16)

    def cpu(self) -> Self:
        """Return self: everything is on the CPU."""
        return self

    def cuda(self, device: object = None) -> Self:
        """Raise: adjoint computes on the CPU."""
        require_cpu("cuda")
        return self


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ad.dtype | None:
    given = dict(kwargs)
    for unused in ("non_blocking", "copy", "memory_format"):
        given.pop(unused, None)
    unknown = set(given) - {"device", "dtype", "tensor"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{sorted(unknown)[0]}'")
    dtype: ad.dtype | None = None
    for value in (*args, *given.values()):
        if isinstance(value, ad.dtype):
            dtype = value
        elif isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, str | int | Device):
            require_cpu(value)
        else:
            raise TypeError(
                "to() received an invalid argument: expected a dtype, a device or a tensor, "
                f"got {type(value).__name__}"
            )
    return dtype
