"""`autocast`: a context, or a decorator, in which ops choose the precision of their operands.

The state is in `adjoint._autocast`; ops are asked by C++ (src/dispatch/autocast.h).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from adjoint import _autocast, _core
from adjoint._autocast import DEVICE_TYPES, LOWER, device_type_of
from adjoint._core import Tensor, dtype

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])


def is_autocast_available(device_type: str) -> bool:
    """Return whether `autocast` knows a type of device, there or not."""
    return device_type_of(device_type) in DEVICE_TYPES


def autocast_decorator(autocast_instance: autocast, func: F) -> F:
    """Let a function run in a context each time it is called."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast  # type: ignore[return-value]


class autocast:
    """Products and convolutions in a lower precision, and what needs more in float32.

    Weights stay float32 and get float32 gradients. Run the forward pass and the loss inside, the
    backward pass outside.

    Parameters
    ----------
    device_type
        "cpu". Another one is warned about and does nothing: there is no other device here.
    dtype
        The lower precision: ``bfloat16`` (the default) or ``float16``.
    enabled
        False: ops take their operands as they are, inside a context where they do not.
    cache_enabled
        Whether a weight is cast once for all ops until the outermost context ends.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(3, 2)
    >>> with ad.autocast("cpu", dtype=ad.bfloat16):
    ...     y = layer(ad.ones(1, 3))
    >>> y.dtype
    torch.bfloat16
    >>> y.sum().backward()
    >>> layer.weight.grad.dtype
    torch.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.fast_dtype = _autocast.get_autocast_dtype(device_type) if dtype is None else dtype
        self.device = device_type
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        cached = _autocast.is_autocast_cache_enabled()
        self._cache_enabled = cached if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._is_possible()
        self._before: list[tuple[int, bool, Any]] = []

    def _is_possible(self) -> bool:
        if self.device == "cpu":
            if self.fast_dtype in LOWER:
                return True
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU "
                "Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=3,
            )
        elif self.device == "cuda":
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3
            )
        else:
            warnings.warn(
                f"There is no {self.device} device here. Disabling autocast.", stacklevel=3
            )
        return False

    def __enter__(self) -> autocast:
        elsewhere = self.device != "cpu"
        enabled = elsewhere and _autocast.is_autocast_enabled(self.device)
        kept = _autocast.get_autocast_dtype(self.device) if elsewhere else None
        self._before.append((_core._autocast_modes(), enabled, kept))
        _autocast.set_autocast_enabled(self.device, self._enabled)
        if elsewhere or self.fast_dtype in LOWER:
            _autocast.set_autocast_dtype(self.device, self.fast_dtype)
        _autocast.set_autocast_cache_enabled(self._cache_enabled)
        _autocast.autocast_increment_nesting()
        return self

    def __exit__(self, *exc: object) -> None:
        modes, enabled, kept = self._before.pop()
        if _autocast.autocast_decrement_nesting() == 0:
            _core.clear_autocast_cache()
        _core._set_autocast_modes(modes)
        if kept is not None:
            _autocast.set_autocast_enabled(self.device, enabled)
            _autocast.set_autocast_dtype(self.device, kept)

    def __call__(self, func: F) -> F:
        """Decorate a function."""
        return autocast_decorator(self, func)


def _enter_autocast(*vals: Any) -> autocast:
    """Enter a context that `_exit_autocast` leaves."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    mode.__exit__(None, None, None)


# -- custom functions ------------------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """All floating-point tensors of a structure in a dtype, those of float64 aside."""
    if isinstance(value, Tensor):
        return _autocast.cast(value, dtype) if value.device.type == device_type else value
    if isinstance(value, str) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, Iterable):
        items = [_cast(item, device_type, dtype) for item in value]
        return type(value)(items) if isinstance(value, list | tuple) else items
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtype | None = None,
) -> Any:
    """Decorate ``forward`` of a custom function for use under autocast.

    Parameters
    ----------
    fwd
        The method; without it a decorator is returned.
    device_type
        Whose autocast, "cpu".
    cast_inputs
        Under autocast, floating-point tensors are given in this dtype, and autocast is off inside.
        Without it ``forward`` runs as the code around it does.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Product(ad.autograd.Function):
    ...     @staticmethod
    ...     @ad.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, a, b):
    ...         ctx.save_for_backward(a, b)
    ...         return a @ b
    ...
    ...     @staticmethod
    ...     @ad.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         a, b = ctx.saved_tensors
    ...         return grad @ b.mT, a.mT @ grad
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        on = _autocast.is_autocast_enabled(device_type)
        args[0]._dtype = _autocast.get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return forward(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            given = _cast(args, device_type, cast_inputs)
            return forward(*given, **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate ``backward`` of a custom function: it runs under autocast if ``forward`` did."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return backward(*args, **kwargs)

    return decorate_bwd
