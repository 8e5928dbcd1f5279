"""What distributions share: shapes, logits and probabilities, values computed at first use."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, Generic, TypeVar, overload

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import enable_grad

euler_constant = 0.57721566490153286060  # -digamma(1)

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

T = TypeVar("T")
R = TypeVar("R")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """All values as tensors of one shape.

    Numbers get the dtype of the first tensor, or the default dtype if there is none.
    """
    if not all(isinstance(value, Tensor | Number) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = ad.get_default_dtype() if like is None else like.dtype
    tensors = [
        value if isinstance(value, Tensor) else ad.tensor(value, dtype=dtype) for value in values
    ]
    return tuple(ad.broadcast_tensors(*tensors))


def parameters(*values: Any) -> tuple[Any, ...]:
    """Parameters broadcast, and the batch shape that they make: none if all are numbers."""
    tensors = broadcast_all(*values)
    plain = all(isinstance(value, Number) for value in values)
    return (*tensors, ad.Size() if plain else tensors[0].size())


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return ad.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` axes."""
    if dim == 0:
        return value
    return value.reshape(*value.shape[:-dim], -1).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds, or from unnormalised logarithms along the last axis."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities inside (0, 1), so that their logarithms are finite."""
    eps = ad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities, or their logarithms."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property(Generic[T, R]):
    """A method whose value is computed once, and is an attribute of the object from then on."""

    def __init__(self, wrapped: Callable[[T], R]) -> None:
        self.wrapped: Callable[[T], R] = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    @overload
    def __get__(self, instance: None, obj_type: Any = None) -> _lazy_property_and_property: ...
    @overload
    def __get__(self, instance: T, obj_type: Any = None) -> R: ...
    def __get__(self, instance: T | None, obj_type: Any = None) -> Any:
        """Compute the value and keep it, with its history."""
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class _lazy_property_and_property(lazy_property[Any, Any], property):
    """What the class shows: a property, for tools that document it."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        property.__init__(self, wrapped)
        self.wrapped = wrapped


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of the lower triangles, row by row: a vector for each matrix."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    arange = ad.arange(n, device=mat.device)
    mask = arange < arange.view(-1, 1) + (diag + 1)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices whose lower triangles have the given elements, row by row."""
    m = vec.shape[-1]
    # The size n has n (n + 1) / 2 elements up to the diagonal.
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * m + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > ad.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {m} which cannot be expressed as the lower triangular "
            "part of a square D x D matrix."
        )
    size = round(n)
    mat = vec.new_zeros([*vec.shape[:-1], size, size])
    arange = ad.arange(size, device=vec.device)
    mask = arange < arange.view(-1, 1) + (diag + 1)
    mat[..., mask] = vec
    return mat
