"""The error for what needs a GPU, and the classes that cannot be made without one."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["AbsentClass", "no_gpu"]


def no_gpu(*_: Any, **__: Any) -> NoReturn:
    """Raise: there is no CUDA device."""
    raise AssertionError(
        "Torch not compiled with CUDA enabled: adjoint computes on the CPU only; "
        "torch.cuda.is_available() is False"
    )


class AbsentClass:
    """A class of which there are no objects without a GPU; named for annotations and checks."""

    def __new__(cls, *_: Any, **__: Any) -> AbsentClass:
        raise RuntimeError(
            f"torch.cuda.{cls.__name__} requires CUDA support: adjoint computes on the CPU only; "
            "torch.cuda.is_available() is False"
        )
