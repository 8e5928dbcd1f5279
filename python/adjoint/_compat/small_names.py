"""Names of PyTorch's top level that are a line or two each."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._tensor.arguments import require_tensor
from adjoint._tensor.formats import contiguous_format

__all__ = ["typename"]

has_lapack = has_spectral = has_openmp = True
has_mkl = has_mkldnn = has_cuda = has_mps = has_cudnn = False
legacy_contiguous_format = contiguous_format
spmm = dsmm = _core.mm  # old names, for products with sparse matrices


class OutOfMemoryError(RuntimeError):
    """PyTorch's error of GPUs; on CPUs memory that is out raises a RuntimeError, as there."""


class AcceleratorError(RuntimeError):
    """PyTorch's error of GPUs."""


class DisableTorchFunctionSubclass:
    """A ``with`` block in which tensors of subclasses are treated as plain tensors."""

    def __enter__(self) -> None:
        self._before = _core._plain_tensors(True)

    def __exit__(self, *_: object) -> None:
        _core._plain_tensors(self._before)


DisableTorchFunction = DisableTorchFunctionSubclass


def typename(obj: Any, /) -> str:
    """The name of an object's type; of a tensor, with its dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.typename(ad.ones(2)), ad.typename(ad.nn.Linear(1, 1))
    ('torch.FloatTensor', 'torch.nn.modules.linear.Linear')
    """
    if isinstance(obj, ad.Tensor):
        return str(obj.type())
    kind = type(obj)
    name = getattr(obj, "__qualname__", None) or kind.__qualname__
    module = getattr(obj, "__module__", "") or ""
    module = "torch" + module.removeprefix("adjoint") if module.startswith("adjoint") else module
    return name if module in ("", "builtins") else f"{module}.{name}"


# -- settings -------------------------------------------------------------------------------------

_settings = {"interop": 1, "warn": False}


def get_num_interop_threads() -> int:
    """How many threads run operations side by side: calls come one after the other here."""
    return _settings["interop"]


def set_num_interop_threads(num_threads: int, /) -> None:
    """Accepted: calls come one after the other."""
    if not isinstance(num_threads, int):
        raise RuntimeError(
            f"set_num_interop_threads expects an int, but got {type(num_threads).__name__}"
        )
    if num_threads <= 0:
        raise RuntimeError(
            f"set_num_interop_threads: expected a positive number, got {num_threads}"
        )
    _settings["interop"] = num_threads


def set_warn_always(b: bool, /) -> None:
    """Accepted: whether warnings repeat is Python's ``warnings.filterwarnings`` here."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _settings["warn"] = b


def is_warn_always_enabled() -> bool:
    """What was set."""
    return bool(_settings["warn"])


def set_flush_denormal(mode: bool, /) -> bool:
    """False: numbers below the normal range are kept, and this cannot be changed."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def compiled_with_cxx11_abi() -> bool:
    """True."""
    return True


def is_vulkan_available() -> bool:
    """False."""
    return False


def is_distributed(input: Any) -> bool:
    """False: tensors are in one process."""
    return False


def get_device_module(device: Any = None) -> Any:
    """The module of a device: `cpu`."""
    return ad.cpu


# -- numbers that PyTorch's tracer may not know yet: Python's own here ----------------------------


def sym_int(a: Any) -> int:
    """``int(a)``."""
    whole: int = math.trunc(a)
    return whole


def sym_float(a: Any) -> float:
    """``float(a)``."""
    return float(a)


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float if one of them is."""
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float if one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t if b else f``."""
    return t if b else f


# -- control flow ---------------------------------------------------------------------------------


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Call one of two functions: `true_fn` if `pred` holds.

    In a compiled function, and in the step of a loop, both are recorded, and each run takes one of
    them; so they must be free of effects, and give results of the same form. Inside `vmap`, where
    samples differ in `pred`, both are called, and each sample gets the result of one, and its
    gradient by `operands`.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(2.0)
    >>> ad.cond(x > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    tensor(0.9093)
    """
    if isinstance(pred, ad.Tensor) and ad._core._batch_level((pred,)):
        from adjoint.loops._cond import cond_by_sample

        return cond_by_sample(pred, true_fn, false_fn, tuple(operands))
    if isinstance(pred, ad.Tensor) and ad._core._is_recording():
        from adjoint.loops._cond import recorded_cond

        return recorded_cond(pred, true_fn, false_fn, tuple(operands))
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


# -- old functions --------------------------------------------------------------------------------


def range(start: Any, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """Numbers up to and including the end; `arange` leaves the end out."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    dtype = options.pop("dtype", None)
    count = math.floor((end - start) / step) + 1
    if count <= 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    steps = ad.arange(count, dtype=ad.float64)
    kind = ad.get_default_dtype() if dtype is None else dtype
    return (start + step * steps).to(kind).requires_grad_(options.pop("requires_grad", False))


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all axes but one."""
    require_tensor("norm_except_dim", "v", 1, v)
    if dim == -1:
        return v.norm(pow)
    axes = tuple(i for i in builtins.range(v.dim()) if i != dim % v.dim())
    return v.norm(pow, axes, keepdim=True) if axes else v.abs()


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Any:
    """The root of the sum of squares."""
    return ad.linalg.vector_norm(input, 2, dim if dim != () else None, keepdim, out=out)
