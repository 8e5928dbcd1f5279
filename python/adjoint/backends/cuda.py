"""CUDA's switches: kept, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from adjoint._missing import watch as _watch

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)
_kept: dict[str, Any] = {
    "flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduced": False,
    "linalg": "default", "blas": "default",
}  # fmt: skip


def is_built() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def flash_sdp_enabled() -> bool:
    """Whether attention on GPUs may use this implementation."""
    return bool(_kept["flash"])


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention on GPUs may use this implementation."""
    return bool(_kept["mem_efficient"])


def math_sdp_enabled() -> bool:
    """Whether attention on GPUs may use this implementation."""
    return bool(_kept["math"])


def cudnn_sdp_enabled() -> bool:
    """Whether attention on GPUs may use this implementation."""
    return bool(_kept["cudnn"])


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether sums in attention on GPUs may be of the short dtypes."""
    return bool(_kept["reduced"])


def enable_flash_sdp(enabled: bool) -> None:
    """Keep the choice, for GPUs."""
    _kept["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Keep the choice, for GPUs."""
    _kept["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Keep the choice, for GPUs."""
    _kept["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Keep the choice, for GPUs."""
    _kept["cudnn"] = bool(enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Keep the choice, for GPUs."""
    _kept["reduced"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """Return False: there is no GPU."""
    return False


def preferred_linalg_library(backend: Any = None) -> Any:
    """Keep the choice, for GPUs, and return the last one."""
    _kept["linalg"] = _kept["linalg"] if backend is None else backend
    return _kept["linalg"]


def preferred_blas_library(backend: Any = None) -> Any:
    """Keep the choice, for GPUs, and return the last one."""
    _kept["blas"] = _kept["blas"] if backend is None else backend
    return _kept["blas"]


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """A block with these choices; ``nn.attention.sdpa_kernel`` is the newer name."""
    before = dict(_kept)
    _kept.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield {}
    finally:
        _kept.update(before)


_watch(__name__)
