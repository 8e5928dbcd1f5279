"""Normalisation with statistics that are kept: over the batch, and over single samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
]


class _Norm(Module):
    """What the norms share: scale and shift, and running statistics."""

    # 2: state dicts have num_batches_tracked.
    _version = 2
    dims: tuple[int, ...]  # the numbers of axes an input may have

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def empty() -> Tensor:
            return ad.empty(num_features, device=device, dtype=dtype)

        self.register_parameter("weight", Parameter(empty()) if affine else None)
        self.register_parameter("bias", Parameter(empty()) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", empty() if tracked else None)
        self.register_buffer("running_var", empty() if tracked else None)
        self.register_buffer("num_batches_tracked", ad.tensor(0) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero, and forget the statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_axes(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            wanted = " or ".join(f"{n}D" for n in self.dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def _momentum_now(self) -> float:
        """The weight of this batch; with ``momentum=None`` all batches weigh the same."""
        if not self.training or not self.track_running_stats:
            return self.momentum or 0.0
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any, **kwargs: Any
    ) -> None:
        key = prefix + "num_batches_tracked"
        before_counting = (local_metadata.get("version") or 1) < 2
        if before_counting and self.track_running_stats and key not in state_dict:
            counted = self.num_batches_tracked
            known = counted is not None and not counted.is_meta
            state_dict[key] = counted if known else ad.tensor(0)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    def forward(self, input: Tensor) -> Tensor:
        self._check_axes(input)
        momentum = self._momentum_now()
        of_batch = self.training or self.running_mean is None
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            of_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of inputs (N, C) or (N, C, L)."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of inputs (N, C, H, W)."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of inputs (N, C, D, H, W)."""

    dims = (5,)


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: ad.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_axes(input)
        alone = input.dim() == self.dims[0]  # one sample without an axis for the batch
        result = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return result.squeeze(0) if alone else result


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of inputs (N, C, L) or (C, L)."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of inputs (N, C, H, W) or (C, H, W)."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of inputs (N, C, D, H, W) or (C, D, H, W)."""

    dims = (4, 5)


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm` whose statistics several processes share; in one process it is a `BatchNorm`.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype
        Those of `BatchNorm2d`.
    process_group : optional
        Must be None: adjoint has no groups of processes.
    """

    dims = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: ad.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None:
            raise ValueError(
                "SyncBatchNorm: process_group must be None: adjoint has no groups of processes"
            )
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = None

    def _check_axes(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a `SyncBatchNorm` of the same parameters for each `BatchNorm` in it."""
        converted: Module = module
        if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d):
            norm = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            norm._parameters = module._parameters
            norm._buffers = module._buffers
            norm.training = module.training
            converted = norm
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


if TYPE_CHECKING:
    from adjoint.nn.modules._lazy_norms import LazyBatchNorm1d as LazyBatchNorm1d
    from adjoint.nn.modules._lazy_norms import LazyBatchNorm2d as LazyBatchNorm2d
    from adjoint.nn.modules._lazy_norms import LazyBatchNorm3d as LazyBatchNorm3d
else:

    def __getattr__(name: str) -> Any:
        """PyTorch has the lazy ones in this module too; here they derive these."""
        from adjoint.nn.modules import _lazy_norms

        if name in _lazy_norms.__all__:
            return getattr(_lazy_norms, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d"})
