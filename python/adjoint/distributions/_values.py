"""Numbers, tensors and shapes that every family needs: `torch.distributions.utils`.

Probabilities and log-odds, parameters given as numbers, triangular matrices as vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Generic, TypeVar, overload

import adjoint as ad
from adjoint import Tensor
from adjoint.nn.functional import logsigmoid

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060

_T = TypeVar("_T", contravariant=True)
_R = TypeVar("_R", covariant=True)


def as_tensors(values: Sequence[Any]) -> list[Tensor]:
    """Numbers become tensors of the dtype of the first tensor among them, or the default one.

    A tensor of whole numbers gives no dtype to a number that is not whole.
    """
    if all(isinstance(v, Tensor) for v in values):
        return list(values)
    if not all(isinstance(v, Tensor | Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = ad.get_default_dtype() if first is None else first.dtype
    if not dtype.is_floating_point and any(isinstance(v, float) and v % 1 for v in values):
        dtype = ad.get_default_dtype()
    return [v if isinstance(v, Tensor) else ad.tensor(v, dtype=dtype) for v in values]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape."""
    return tuple(ad.broadcast_tensors(*as_tensors(values)))


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Draw standard normal numbers of the dtype of `like`."""
    return ad.randn(tuple(shape), dtype=like.dtype)


def standard_normal_of_dtype(shape: Sequence[int], dtype: Any, device: Any = None) -> Tensor:
    """Draw standard normal numbers: `_standard_normal` of PyTorch."""
    return ad.randn(tuple(shape), dtype=dtype, device=device)


def uniform_in(shape: Sequence[int], like: Tensor, low: float, high: float) -> Tensor:
    """Draw uniform numbers in [low, high) of the dtype of `like`."""
    return ad.empty(tuple(shape), dtype=like.dtype).uniform_(low, high)


def log_one_plus_exp(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact to rounding for every x."""
    return -logsigmoid(-x)


def sum_rightmost(value: Tensor, axes: int) -> Tensor:
    """Sum over the last `axes` axes."""
    return value.flatten(-axes).sum(-1) if axes > 0 else value


def clamp_probs(probs: Tensor) -> Tensor:
    """Keep probabilities away from 0 and 1, by the smallest step of their dtype."""
    step = ad.finfo(probs.dtype).eps
    return probs.clamp(min=step, max=1 - step)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or of odds if there are two outcomes."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logarithms that need not be normalised, or of log-odds."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Rows of a lower triangular matrix from one vector; `diag` is its topmost diagonal.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(ad.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    length = vec.shape[-1]
    # n rows up to diagonal d hold n (n + 1) / 2 + d n ∓ d (d + 1) / 2 elements: solve for n.
    slope = 2 * diag + 1
    root = math.isqrt(slope * slope + 8 * length + 4 * abs(diag) * (diag + 1))
    size = (root - slope) // 2
    rows, columns = ad.tril_indices(size, size, diag)
    if len(rows) != length:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape [{length}] cannot be broadcast to indexing "
            f"result of shape [{len(rows)}], the lower triangle of a matrix"
        )
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements up to the diagonal `diag`, row after row."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = ad.tril_indices(size, size, diag)
    return mat[..., rows, columns]


class lazy_property(Generic[_T, _R]):
    """A property computed at its first use and kept, with its history even under no_grad."""

    def __init__(self, wrapped: Callable[[_T], _R]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> property: ...

    @overload
    def __get__(self, instance: _T, owner: Any = None) -> _R: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return LazyOfClass(self.wrapped)
        with ad.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class LazyOfClass(property):
    """What a class answers for a `lazy_property`: no value to check yet."""
