"""Normalisation over the last axes, over groups of channels, and over neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """Brings the last axes to mean 0 and variance 1, then scales and shifts them.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which mean and variance are taken.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine, bias : bool, default True
        Whether there is a trained scale, and with it a trained shift.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        def make() -> Parameter:
            return Parameter(ad.empty(self.normalized_shape, device=device, dtype=dtype))

        self.register_parameter("weight", make() if elementwise_affine else None)
        self.register_parameter("bias", make() if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        # From the table, for speed: see Linear.forward.
        own = self._parameters
        try:
            weight, bias = own["weight"], own["bias"]
        except KeyError:
            weight, bias = self.weight, self.bias
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Brings groups of channels of each sample to mean 0 and variance 1, then scales them.

    Parameters
    ----------
    num_groups, num_channels : int
        Into how many groups the channels (axis 1) are divided, and how many there are.
    eps : float, default 1e-5
        Added to the variance.
    affine, bias : bool, default True
        Whether each channel has a trained scale, and with it a trained shift.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        scale, shift = (ad.empty(num_channels, device=device, dtype=dtype) for _ in range(2))
        self.register_parameter("weight", Parameter(scale) if affine else None)
        self.register_parameter("bias", Parameter(shift) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last axes, then scales.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which the mean is taken.
    eps : float, optional
        Added to the mean square; by default the spacing of numbers at 1 in the input's dtype.
    elementwise_affine : bool, default True
        Whether there is a trained scale.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        scale = ad.empty(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(scale) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """Divides by a power of the mean square over neighbouring channels."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """`LocalResponseNorm` of images as Torch 7 had it: the first channel counts for all others."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = int((self.size - 1) / 2 + 1)
        at = ad.arange(input.size(1))
        near = (at.unsqueeze(1) - at).abs() < reach
        # Its running sum adds channels on one side and drops them on the other, all but the first.
        counted = (near | (at == 0)).to(input.dtype)
        squares = (input * input).movedim(1, -1) @ counted.T
        scale = squares.movedim(-1, 1) * (self.alpha / self.size) + self.k
        return input * scale**-self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
