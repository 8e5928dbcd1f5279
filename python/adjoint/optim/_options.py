"""What options mean and which of them are refused; names that optimizers outside import too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import adjoint as ad
from adjoint import Tensor, _core

__all__ = [
    "check_betas",
    "check_fused",
    "check_rate",
    "check_sign",
    "refuse_capturable",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_params_doc = """params (iterable): iterable of parameters or named_parameters to optimize
            or iterable of dicts defining parameter groups"""
_foreach_doc = """foreach (bool, optional): accepted; all parameters are always updated in one
            native pass (default: None)"""
_fused_doc = """fused (bool, optional): accepted; all parameters are always updated in one
            native pass (default: None)"""
_capturable_doc = (
    """capturable (bool, optional): for CUDA graphs; True is refused (default: False)"""
)
_differentiable_doc = """differentiable (bool, optional): whether the step is recorded, so that
            gradients flow through it (default: False)"""
_maximize_doc = """maximize (bool, optional): maximize the objective with respect to the
            params, instead of minimizing (default: False)"""


def check_rate(lr: float | Tensor, message: str = "Invalid learning rate: {}") -> None:
    """A learning rate is not negative; as a tensor it has one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(message.format(lr))


def check_sign(name: str, value: float | Tensor) -> None:
    """Refuse negative numbers and NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Shares of running means that are kept lie in [0, 1)."""
    for index, beta in enumerate(betas[:2]):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """`foreach` and `fused` name two loops of PyTorch's; it has neither that is differentiable."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def refuse_capturable(capturable: bool) -> None:
    """Only the CPU is here."""
    if capturable:
        raise NotImplementedError("capturable=True is for CUDA graphs; adjoint computes on the CPU")


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element as one without axes; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> ad.dtype:
    """The dtype of step counters."""
    if not is_fused and ad.get_default_dtype() == ad.float64:
        return ad.float64
    return ad.float32


def _default_to_fused_or_foreach(
    params: Iterable[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    return False, False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    if p.is_meta or not p.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: ['cpu'] but {p.dtype} and {p.device.type}"
        )


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Put views with real and imaginary parts in the place of complex tensors."""
    for i, parameter in enumerate(params):
        if parameter.is_complex():
            for column in (params, *state_and_grads):
                column[i] = _core.view_as_real(column[i])


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., object] | None = None,
) -> Callable[[_F], _F]:
    return lambda function: function
