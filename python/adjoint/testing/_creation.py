"""``make_tensor``: random values of any dtype in a range, for use as inputs of tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, cast

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.typeinfo import finfo, iinfo

_UNSIGNED = (_core.uint8, _core.uint16, _core.uint32, _core.uint64)
_SIGNED = (_core.int8, _core.int16, _core.int32, _core.int64)
_FLOATS = (_core.float16, _core.bfloat16, _core.float32, _core.float64)
_COMPLEX = (_core.complex64, _core.complex128)


def make_tensor(
    *shape: int | Sequence[int],
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of values drawn uniformly from [low, high).

    Parameters
    ----------
    shape
        Integers, or one sequence of them.
    dtype, device
        Of the result.
    low, high
        The range, cut to what the dtype holds. Default: [0, 2) for bool, [0, 10) for uint8,
        [-9, 10) for other integers, [-9, 9) for floating point and for both parts of complex
        numbers.
    requires_grad
        Whether the result does; floating point and complex dtypes only.
    noncontiguous
        Leave gaps between the elements, if there is more than one.
    exclude_zero
        Put the smallest positive normal number (1 for integers) in place of zeros.
    memory_format
        Of the result; not together with ``noncontiguous``.

    Returns
    -------
    Tensor
        The values, from the global random stream.

    Raises
    ------
    ValueError
        An empty range, NaN as a bound, a range outside the dtype's, or arguments that exclude each
        other.
    TypeError
        A dtype that is not supported.

    Examples
    --------
    >>> import adjoint as ad
    >>> t = ad.testing.make_tensor(2, 3, dtype=ad.float64, low=1, high=2)
    >>> t.shape, bool((t >= 1).all() and (t < 2).all())
    (torch.Size([2, 3]), True)
    """
    sizes = _sizes(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype}"
        )
    spread = noncontiguous and math.prod(sizes) > 1
    if spread:  # draw twice as many and take every other one, which is PyTorch's stream
        sizes = (*sizes[:-1], 2 * sizes[-1])
    if dtype in _FLOATS or dtype in _COMPLEX:
        result = _draw_floats(sizes, dtype, device, low, high)
    elif dtype is _core.bool or dtype in _UNSIGNED or dtype in _SIGNED:
        result = _draw_integers(sizes, dtype, device, low, high)
    else:
        raise TypeError(f"The requested dtype '{dtype}' is not supported by make_tensor()")
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = _smallest(dtype)
    return result.requires_grad_(True) if requires_grad else result


def _sizes(shape: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        return tuple(shape[0])
    return cast("tuple[int, ...]", shape)


def _range(
    dtype: Any, low: float | None, high: float | None, usual: tuple[float, float], allowed: Any
) -> tuple[float, float]:
    """The bounds with defaults filled in, within [lowest, highest)."""
    low = usual[0] if low is None else low
    high = usual[1] if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    floating = dtype.is_floating_point or dtype.is_complex
    if low == high and floating:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    lowest, highest = allowed
    if high < lowest or low > highest or (low == highest and not floating):
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{lowest}, {highest})"
        )
    return max(low, lowest), min(high, highest)


def _draw_floats(
    sizes: tuple[int, ...], dtype: Any, device: Any, low: float | None, high: float | None
) -> Tensor:
    info = finfo(dtype)
    low, high = _range(dtype, low, high, (-9, 9), (info.min, info.max))
    result = _core.empty(sizes, dtype=dtype, device=device)
    parts = _core.view_as_real(result) if dtype.is_complex else result
    if low == high:
        parts.fill_(low)
    elif high - low > info.max:  # the width is not a number of the dtype
        parts.uniform_(low / 2, high / 2).mul_(2)
    else:
        parts.uniform_(low, high)
    return result


def _draw_integers(
    sizes: tuple[int, ...], dtype: Any, device: Any, low: float | None, high: float | None
) -> Tensor:
    usual: tuple[float, float]
    if dtype is _core.bool:
        usual, allowed = (0, 2), (0, 2)
    else:
        info = iinfo(dtype)
        usual = (0, 10) if dtype in _UNSIGNED else (-9, 10)
        allowed = (int(info.min), int(info.max) + 1)
    low, high = _range(dtype, low, high, usual, allowed)
    first, last = math.ceil(low), math.ceil(high)
    if first >= last:
        raise ValueError(f"there is no integer in [{low}, {high})")
    # The end of the range of randint is an int64 itself.
    last = min(last, int(iinfo(_core.int64).max))
    return _core.randint(first, last, sizes, dtype=dtype, device=device)


def _smallest(dtype: Any) -> complex:
    if not (dtype.is_floating_point or dtype.is_complex):
        return 1
    tiny = float(finfo(dtype).tiny)
    return complex(tiny, tiny) if dtype.is_complex else tiny
