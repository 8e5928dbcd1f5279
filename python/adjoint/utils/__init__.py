"""Helpers that PyTorch users find under `torch.utils`; each part loads at its first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint._missing import watch as _watch

if TYPE_CHECKING:
    from adjoint.utils import _pytree as _pytree
    from adjoint.utils import benchmark as benchmark
    from adjoint.utils import checkpoint as checkpoint
    from adjoint.utils import collect_env as collect_env
    from adjoint.utils import data as data
    from adjoint.utils import deterministic as deterministic
    from adjoint.utils import dlpack as dlpack
    from adjoint.utils import hooks as hooks
    from adjoint.utils import tensorboard as tensorboard
    from adjoint.utils import weak as weak
    from adjoint.utils._swapping import swap_tensors as swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]

_MODULES = (
    "_foreach_utils",
    "_pytree",
    "benchmark",
    "checkpoint",
    "collect_env",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "tensorboard",
    "weak",
)


def __getattr__(name: str) -> Any:
    if name == "swap_tensors":
        return import_module("adjoint.utils._swapping").swap_tensors
    if name in _MODULES:
        return import_module(f"adjoint.utils.{name}")
    from adjoint._missing import missing

    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "swap_tensors"})


_watch(__name__)
