"""`torch.version`: what this is built as. There is no CUDA, no ROCm."""

from __future__ import annotations

from adjoint.torch_version import TORCH_VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]

__version__: str = TORCH_VERSION
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
