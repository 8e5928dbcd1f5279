"""Names of the array API standard that PyTorch does not have, and what a namespace says of itself.

Where both have a name (`sum`, `sort`, `nonzero` ...) adjoint follows PyTorch. Libraries that want
the standard to the letter take `array_api_compat.torch` on adjoint's alias.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor, dtype
from adjoint._tensor.arguments import require_tensor

__all__ = [
    "astype",
    "bitwise_invert",
    "broadcast_arrays",
    "cumulative_prod",
    "cumulative_sum",
    "expand_dims",
    "isdtype",
    "matrix_transpose",
    "permute_dims",
    "repeat",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "vecdot",
]

VERSION = "2024.12"


# --- dtypes ---------------------------------------------------------------------------------------


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Give the tensor in another dtype: a copy, unless ``copy=False`` and it has that dtype."""
    require_tensor("astype", "x", 1, x)
    return x.to(dtype=dtype, device=device, copy=copy)


def _kinds() -> dict[str, tuple[dtype, ...]]:
    signed = (ad.int8, ad.int16, ad.int32, ad.int64)
    unsigned = (ad.uint8, ad.uint16, ad.uint32, ad.uint64)
    real = (ad.float32, ad.float64)
    complex_ = (ad.complex64, ad.complex128)
    return {
        "bool": (ad.bool,),
        "signed integer": signed,
        "unsigned integer": unsigned,
        "integral": signed + unsigned,
        "real floating": real,
        "complex floating": complex_,
        "numeric": signed + unsigned + real + complex_,
    }


def isdtype(dtype: dtype, kind: dtype | str | tuple[dtype | str, ...]) -> bool:
    """Say whether a dtype is of a kind: "integral", "real floating", ..., or one of several.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.isdtype(ad.float32, "real floating"), ad.isdtype(ad.int8, ("bool", ad.int16))
    (True, False)
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype == kind
    if kind not in _kinds():
        raise ValueError(f"unrecognized dtype kind {kind!r}; there are {', '.join(_kinds())}")
    if kind in ("real floating", "numeric") and dtype in (ad.float16, ad.bfloat16):
        return True  # beyond the standard
    return dtype in _kinds()[kind]


# --- shapes ---------------------------------------------------------------------------------------


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Give the tensor with its axes in another order."""
    return x.permute(tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Give the tensor with its last two axes exchanged."""
    require_tensor("matrix_transpose", "x", 1, x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, got shape {list(x.shape)}")
    return x.mT


def expand_dims(x: Tensor, /, axis: int | Sequence[int] = 0) -> Tensor:
    """Give the tensor with axes of one element inserted."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    ndim = x.ndim + len(axes)
    for a in axes:
        if not -ndim <= a < ndim:
            raise IndexError(f"expand_dims: axis {a} is out of range for {ndim} axes")
    for a in sorted(a % ndim for a in axes):
        x = x.unsqueeze(a)
    return x


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Give the tensors with one shape, as views."""
    return list(ad.broadcast_tensors(*arrays))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Give the parts of a tensor along an axis."""
    return tuple(x.unbind(axis))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Give each element, or each part along an axis, several times."""
    return ad.repeat_interleave(x, repeats, axis)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Give the elements at indices along an axis."""
    return ad.take_along_dim(x, indices, axis)


# --- sums and products ----------------------------------------------------------------------------


def _cumulative(
    function: Any, start: int, x: Tensor, axis: int | None, dtype: dtype | None, initial: bool
) -> Tensor:
    if axis is None:
        if x.ndim > 1:
            raise ValueError("axis must be given for an array of more than one axis")
        axis = 0
    result: Tensor = function(x, axis, dtype=dtype)
    if not initial:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return ad.cat([ad.full(shape, start, dtype=result.dtype), result], axis)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Give the running sum along an axis, behind a zero with ``include_initial``."""
    return _cumulative(ad.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Give the running product along an axis, behind a one with ``include_initial``."""
    return _cumulative(ad.cumprod, 1, x, axis, dtype, include_initial)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Give the sum of ``conj(x1) * x2`` along an axis."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot: {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}"
        )
    x1, x2 = ad.broadcast_tensors(x1, x2)
    product = ad.conj(x1) * x2
    return product.sum(axis, dtype=product.dtype)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Give the tensor with all bits inverted."""
    return ad.bitwise_not(x)


# --- linalg, beyond torch.linalg ------------------------------------------------------------------


def linalg_outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Give the products of all elements of one vector with all of another."""
    return ad.outer(x1, x2)


def linalg_tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Give the product of two tensors, summed over axes of both."""
    return ad.tensordot(x1, x2, dims=axes)


def linalg_trace(x: Tensor, /, *, offset: int = 0, dtype: dtype | None = None) -> Tensor:
    """Give the sums of diagonals of matrices."""
    return ad.diagonal(x, offset, -2, -1).sum(-1, dtype=dtype)


LINALG = {
    "matrix_transpose": matrix_transpose,
    "outer": linalg_outer,
    "tensordot": linalg_tensordot,
    "trace": linalg_trace,
}

# --- sets -----------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Give the different values in order, where each stands first, where each element went, counts.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.unique_all(ad.tensor([3, 1, 3])).indices
    tensor([1, 0])
    """
    values, inverse, counts = ad.unique(x, return_inverse=True, return_counts=True)
    # A stable sort by group: the first of each group stands where the counts before it end.
    order = ad.argsort(inverse.reshape(-1), stable=True)
    starts = ad.cumsum(counts, 0) - counts
    return UniqueAll(values, order[starts], inverse.reshape(tuple(x.shape)), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Give the different values in order, and how often each occurs."""
    values, counts = ad.unique(x, return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Give the different values in order, and which of them each element is."""
    values, inverse = ad.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse.reshape(tuple(x.shape)))


def unique_values(x: Tensor, /) -> Tensor:
    """Give the different values in order."""
    values: Tensor = ad.unique(x)
    return values


# --- what a namespace says of itself --------------------------------------------------------------


class Info:
    """What ``__array_namespace_info__()`` gives: capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """Say what optional parts of the standard are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Give the device of new tensors."""
        return ad.device("cpu")

    def devices(self) -> list[Any]:
        """Give all devices: the CPU."""
        return [ad.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """Give the dtypes of tensors made from Python numbers, by kind."""
        real = ad.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": ad.complex128 if real == ad.float64 else ad.complex64,
            "integral": ad.int64,
            "indexing": ad.int64,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, dtype]:
        """Give the dtypes of a kind by name, of all kinds for None."""
        kinds = ("bool", "numeric") if kind is None else kind
        asked = (kinds,) if isinstance(kinds, str) else kinds
        every = [d for name in asked for d in _kinds()[name]]
        return {str(d).removeprefix("torch."): d for d in every}


def __array_namespace_info__() -> Info:
    """Give what this namespace says of itself, as the array API standard asks."""
    return Info()


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """Give the module whose functions take this tensor: adjoint."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", VERSION):
        raise ValueError(f"version {api_version!r} of the array API is not known; {VERSION} is")
    return ad
