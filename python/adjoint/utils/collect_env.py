"""`python -m torch.utils.collect_env`: what a report of a fault should say about a machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import adjoint as ad

__all__ = ["get_pretty_env_info", "main"]

_PACKAGES = ("adjoint", "numpy", "optree", "safetensors", "scipy", "torch", "jax")


def get_pretty_env_info() -> str:
    """Versions, the processor, threads."""
    return "\n".join(
        [
            f"adjoint version: {ad.__version__}",
            f"follows PyTorch: {ad.version.__version__}",
            "CUDA used to build PyTorch: None",
            "Is CUDA available: False",
            f"OS: {platform.platform()}",
            f"Python version: {sys.version.splitlines()[0]}",
            f"processors: {os.cpu_count()}, threads: {ad.get_num_threads()}",
            f"instruction set: {ad.instruction_set()}",
            "",
            "Versions of relevant libraries:",
            *(f"[pip3] {name}=={_version(name)}" for name in _PACKAGES),
        ]
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
