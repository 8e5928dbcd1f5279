"""`torch.__config__`: how this was built, and what runs in parallel."""

from __future__ import annotations

import os
import platform

import adjoint as ad
from adjoint import _core

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What adjoint is built with, for people."""
    return (
        f"adjoint {ad.__version__} built with:\n"
        "  - C++ Version: 202002\n"
        "  - OpenBLAS and LAPACK (of the scipy-openblas32 wheel)\n"
        f"  - CPU capability usage: {_core.instruction_set()}\n"
        f"  - Python {platform.python_version()}, {platform.machine()}\n"
        "  - Build settings: USE_CUDA=0, USE_MKL=OFF, USE_OPENMP=OFF\n"
    )


def parallel_info() -> str:
    """How many threads there are."""
    told = os.environ.get("ADJOINT_NUM_THREADS", "[not set]")
    return (
        "adjoint's pool of threads:\n"
        f"\tget_num_threads() : {ad.get_num_threads()}\n"
        f"processors : {os.cpu_count()}\n"
        "Environment variables:\n"
        f"\tADJOINT_NUM_THREADS : {told}\n"
        f"\tOMP_NUM_THREADS : {os.environ.get('OMP_NUM_THREADS', '[not set]')}\n"
    )
