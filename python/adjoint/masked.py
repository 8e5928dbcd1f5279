"""Reductions and normalisations of what a mask chooses, under the names of ``torch.masked``.

A masked element counts as the identity of the operation: 0 in a sum, -inf in a maximum. The mask
broadcasts to the input; without one, everything counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as _Any

import adjoint as _ad
from adjoint._core import Tensor as _Tensor
from adjoint._core import dtype as _dtype
from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch
from adjoint._tensor.arguments import require_tensor as _require_tensor

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_Axes = int | Sequence[int] | None


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name)


def _axes(dim: _Axes, ndim: int) -> tuple[int, ...]:
    """The axes to reduce in order; all of them for None or ()."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    found: list[int] = []
    ndim = max(ndim, 1)
    for axis in (dim,) if isinstance(dim, int) else dim:
        if not -ndim <= axis < ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[{-ndim}, {ndim - 1}], but got {axis})"
            )
        if axis % ndim in found:
            raise RuntimeError(f"dim={axis} appears multiple times in the list of dims")
        found.append(axis % ndim)
    return tuple(sorted(found))


def _mask_of(name: str, input: _Tensor, mask: _Tensor | None) -> _Tensor | None:
    """The mask in the shape of the input, as truth values."""
    _require_tensor(name, "input", 1, input)
    if mask is None:
        return None
    if mask.dim() > input.dim():
        raise IndexError(
            f"{name} expected broadcastable mask (got mask dimensionality higher than of the "
            f"input: {list(mask.shape)} and {list(input.shape)})"
        )
    return _ad.broadcast_to(mask, tuple(input.shape)).to(_ad.bool)


def _chosen(name: str, input: _Tensor, mask: _Tensor | None, identity: float) -> _Tensor:
    """The input with the identity in place of what the mask leaves out."""
    whole = _mask_of(name, input, mask)
    if whole is None:
        return input
    return _ad.where(whole, input, _ad.full((), identity, dtype=input.dtype))


def _least(dtype: _dtype) -> float:
    """What no element is less than."""
    if dtype.is_floating_point or dtype.is_complex:
        return -float("inf")
    return False if dtype == _ad.bool else _ad.iinfo(dtype).min


def _greatest(dtype: _dtype) -> float:
    if dtype.is_floating_point or dtype.is_complex:
        return float("inf")
    return True if dtype == _ad.bool else _ad.iinfo(dtype).max


def _sum_dtype(input: _Tensor, dtype: _dtype | None) -> _dtype:
    """Integers add up to int64."""
    if dtype is not None:
        return dtype
    whole = not (input.dtype.is_floating_point or input.dtype.is_complex)
    return _ad.int64 if whole else input.dtype


def sum(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Sum over axes of the elements that the mask chooses.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.masked.sum(ad.tensor([1.0, 2.0, 4.0]), 0, mask=ad.tensor([True, False, True]))
    tensor(5.)
    """
    chosen = _chosen("sum", input, mask, 0)
    return _ad.sum(chosen, _axes(dim, input.dim()), bool(keepdim), dtype=_sum_dtype(input, dtype))


def prod(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Product over axes of the elements that the mask chooses."""
    result = _chosen("prod", input, mask, 1).to(_sum_dtype(input, dtype))
    for axis in reversed(_axes(dim, input.dim())):
        result = result.prod(axis, bool(keepdim))
    return result


def cumsum(
    input: _Tensor, dim: int, *, dtype: _dtype | None = None, mask: _Tensor | None = None
) -> _Tensor:
    """Running sum along an axis; what the mask leaves out adds nothing."""
    chosen = _chosen("cumsum", input, mask, 0)
    return _ad.cumsum(chosen, _axes(dim, input.dim())[0], dtype=_sum_dtype(input, dtype))


def cumprod(
    input: _Tensor, dim: int, *, dtype: _dtype | None = None, mask: _Tensor | None = None
) -> _Tensor:
    """Running product along an axis; what the mask leaves out changes nothing."""
    chosen = _chosen("cumprod", input, mask, 1)
    return _ad.cumprod(chosen, _axes(dim, input.dim())[0], dtype=_sum_dtype(input, dtype))


def amax(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Largest of the chosen elements over axes; the least number where there are none."""
    chosen = _chosen("amax", input, mask, _least(input.dtype))
    return _ad.amax(chosen, _axes(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Smallest of the chosen elements over axes; the greatest number where there are none."""
    chosen = _chosen("amin", input, mask, _greatest(input.dtype))
    return _ad.amin(chosen, _axes(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: _Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Position of the largest chosen element."""
    chosen = _chosen("argmax", input, mask, _least(input.dtype))
    return _ad.argmax(chosen, dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: _Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Position of the smallest chosen element."""
    chosen = _chosen("argmin", input, mask, _greatest(input.dtype))
    return _ad.argmin(chosen, dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input: _Tensor, mask: _Tensor | None, dim: _Axes, keepdim: bool) -> _Tensor:
    whole = _mask_of("mean", input, mask)
    if whole is None:
        whole = _ad.ones(tuple(input.shape), dtype=_ad.bool)
    return _ad.sum(whole, _axes(dim, input.dim()), keepdim)


def mean(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Mean over axes of the elements that the mask chooses; NaN where there are none."""
    total = sum(input, dim, keepdim=keepdim, dtype=dtype or input.dtype, mask=mask)
    return total / _count(input, mask, dim, bool(keepdim))


def median(
    input: _Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Median of the chosen elements along an axis: the lower of two in the middle.

    Raises
    ------
    ValueError
        The dtype has no NaN for a row of which nothing is chosen.
    """
    real = input.dtype.is_floating_point
    chosen = _chosen("median", input if real else input.float(), mask, float("nan"))
    found = _ad.nanmedian(chosen, _axes(dim, input.dim())[0], bool(keepdim)).values
    if real:
        return found
    if found.isnan().any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return found.to(dtype or input.dtype)


def logsumexp(
    input: _Tensor,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Give log(sum(exp(input))) over axes of the elements that the mask chooses."""
    chosen = _chosen("logsumexp", input, mask, _least(input.dtype))
    result = _ad.logsumexp(chosen, _axes(dim, input.dim()), bool(keepdim))
    return result.to(dtype or input.dtype)


def logaddexp(
    input: _Tensor,
    other: _Tensor,
    *,
    dtype: _dtype | None = None,
    input_mask: _Tensor | None = None,
    other_mask: _Tensor | None = None,
) -> _Tensor:
    """Give log(exp(input) + exp(other)), in which masked elements add nothing."""
    a = _chosen("logaddexp", input, input_mask, -float("inf"))
    b = _chosen("logaddexp", other, other_mask, -float("inf"))
    return _ad.logaddexp(a, b).to(dtype or input.dtype)


def norm(
    input: _Tensor,
    ord: float | None = 2.0,
    dim: _Axes = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Give the norm of the chosen elements, as of a vector, over axes."""
    identity = float("inf") if ord == -float("inf") else 0.0
    chosen = _chosen("norm", input, mask, identity)
    axes = _axes(dim, input.dim())
    return _ad.norm(chosen, 2.0 if ord is None else ord, axes, bool(keepdim), dtype=dtype)


def _spread(
    input: _Tensor,
    dim: _Axes,
    unbiased: bool | None,
    correction: int | float | None,
    keepdim: bool,
    dtype: _dtype | None,
    mask: _Tensor | None,
) -> _Tensor:
    """The variance: squares around the mean, divided by their number less `correction`."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    less = 1 if correction is None else correction
    if unbiased is not None:
        less = 1 if unbiased else 0
    whole = input.dtype.is_floating_point or input.dtype.is_complex
    dtype = dtype or (input.dtype if whole else _ad.float32)
    computed = dtype if dtype.is_floating_point or dtype.is_complex else _ad.float32
    count = _count(input, mask, dim, True)
    off = input - sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    total = sum(off * off.conj(), dim, keepdim=keepdim, dtype=computed, mask=mask)
    count = count.reshape(tuple(total.shape))
    if less:
        count = _ad.clamp(count.to(_ad.float64) - less, min=0).to(_real(computed))
    return (total / count).to(dtype)


def _real(dtype: _dtype) -> _dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def var(
    input: _Tensor,
    dim: _Axes = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Variance over axes of the elements that the mask chooses."""
    return _spread(input, dim, unbiased, correction, bool(keepdim), dtype, mask)


def std(
    input: _Tensor,
    dim: _Axes = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Standard deviation over axes of the elements that the mask chooses."""
    return _ad.sqrt(_spread(input, dim, unbiased, correction, bool(keepdim), dtype, mask))


def softmax(
    input: _Tensor, dim: int, *, dtype: _dtype | None = None, mask: _Tensor | None = None
) -> _Tensor:
    """Softmax along an axis over the chosen elements; the others are 0, or NaN if all are.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.masked.softmax(ad.tensor([1.0, 1.0, 9.0]), 0, mask=ad.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    chosen = _chosen("softmax", input, mask, _least(input.dtype))
    return _ad.softmax(chosen, _axes(dim, input.dim())[0], dtype=dtype)


def log_softmax(
    input: _Tensor, dim: int, *, dtype: _dtype | None = None, mask: _Tensor | None = None
) -> _Tensor:
    """Logarithm of `softmax`."""
    chosen = _chosen("log_softmax", input, mask, _least(input.dtype))
    return _ad.log_softmax(chosen, _axes(dim, input.dim())[0], dtype=dtype)


def softmin(
    input: _Tensor, dim: int, *, dtype: _dtype | None = None, mask: _Tensor | None = None
) -> _Tensor:
    """Softmax of the negative input along an axis over the chosen elements."""
    chosen = _chosen("softmin", input, mask, _greatest(input.dtype))
    return _ad.softmax(-chosen, _axes(dim, input.dim())[0], dtype=dtype)


def normalize(
    input: _Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: _dtype | None = None,
    mask: _Tensor | None = None,
) -> _Tensor:
    """Divide the chosen elements by their norm along an axis, or by `eps` if that is larger."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _chosen("normalize", input, mask, 0) / length.clamp(min=eps)


_watch(__name__)
