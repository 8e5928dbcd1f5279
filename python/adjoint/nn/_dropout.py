"""Dropout: of elements, of whole channels, and the kind that keeps mean and variance.

The masks are the ones PyTorch draws from the same seed.
"""

from __future__ import annotations

import math
import warnings

import adjoint as ad
from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor

# -scale * alpha of SELU: where it sends everything far below zero.
_ALPHA = 1.7580993408473766


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _feature_shape(input: Tensor) -> tuple[int, ...]:
    """One number for each channel of each sample."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def _kept(input: Tensor, p: float, features: bool) -> Tensor:
    """1 for what is kept, 0 for what is dropped; under vmap, drawn as its `randomness` says."""
    if features or input.is_contiguous():
        shape = _feature_shape(input) if features else input.shape
        return ad.bernoulli(ad.empty(shape, dtype=input.dtype), 1 - p)
    # In the order in which a tensor like the input lies in memory.
    strides = ad.empty_like(input).stride()
    order = sorted(range(input.ndim), key=lambda axis: -strides[axis])
    drawn = ad.bernoulli(ad.empty([input.size(i) for i in order], dtype=input.dtype), 1 - p)
    return drawn.permute(sorted(range(input.ndim), key=order.__getitem__))


def _dropped(input: Tensor, p: float, training: bool, inplace: bool, features: bool) -> Tensor:
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    with ad.no_grad():
        none = p == 1
        mask = ad.zeros((), dtype=input.dtype) if none else _kept(input, p, features).div_(1 - p)
    return input.mul_(mask) if inplace else input * mask


def _alpha_dropped(
    input: Tensor, p: float, training: bool, inplace: bool, features: bool
) -> Tensor:
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        zero = ad.zeros((), dtype=input.dtype)
        return input.mul_(zero) if inplace else input * zero
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    with ad.no_grad():
        kept = _kept(input, p, features)
        shift = (kept - 1).mul_(_ALPHA * scale).add_(_ALPHA * scale * p)
        kept.mul_(scale)
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to zero with probability `p` and divide the others by 1 - p."""
    require_tensor("dropout", "input", 1, input)
    return _dropped(input, p, training, inplace, features=False)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for SELU networks: dropped elements saturate; mean and variance are kept."""
    require_tensor("alpha_dropout", "input", 1, input)
    return _alpha_dropped(input, p, training, inplace, features=False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """As `alpha_dropout`, for whole channels: axis 1 of [N, C, ...]."""
    require_tensor("feature_alpha_dropout", "input", 1, input)
    return _alpha_dropped(input, p, training, inplace, features=True)


def _feature_dropout(input: Tensor, p: float, train: bool, inplace: bool = False) -> Tensor:
    require_tensor("feature_dropout", "input", 1, input)
    return _dropped(input, p, train, inplace, features=True)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of [N, C, L] or [C, L]."""
    require_tensor("dropout1d", "input", 1, input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: one spatial "
            "axis, the channels, and perhaps the samples"
        )
    if input.ndim == 3:
        return _dropped(input, p, training, inplace, features=True)
    dropped = _dropped(input.unsqueeze(0), p, training, inplace, features=True).squeeze(0)
    return input if inplace else dropped


def _warn_of_axes(name: str, ndim: int) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        "dropout instead.",
        UserWarning,
        stacklevel=3,
    )


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of [N, C, H, W].

    An input of three axes is taken for [N, C, L], as in PyTorch; `dropout1d` says it clearly.
    """
    require_tensor("dropout2d", "input", 1, input)
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L). Use dropout1d instead.",
            UserWarning,
            stacklevel=2,
        )
    elif input.ndim != 4:
        _warn_of_axes("dropout2d", input.ndim)
    return _dropped(input, p, training, inplace, features=True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    require_tensor("dropout3d", "input", 1, input)
    if input.ndim not in (4, 5):
        _warn_of_axes("dropout3d", input.ndim)
    if input.ndim == 5:
        return _dropped(input, p, training, inplace, features=True)
    dropped = _dropped(input.unsqueeze(0), p, training, inplace, features=True).squeeze(0)
    return input if inplace else dropped
