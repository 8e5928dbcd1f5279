"""``cuda.FloatTensor`` and its like: names without instances, since there is no GPU."""

from __future__ import annotations

from typing import Any

from adjoint._tensor import legacy

__all__ = ["of_name"]


class _OfGpu(type):
    """The type of ``cuda.FloatTensor``: no tensor is an instance of it."""

    is_cuda = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled: "
            "adjoint computes on the CPU only"
        )

    def __repr__(cls) -> str:
        return f"<class 'torch.cuda.{cls.__name__}'>"


def of_name(name: str) -> Any:
    """The class ``cuda.FloatTensor`` and its like; None for other names."""
    here = getattr(legacy, name, None) if name.endswith("Tensor") else None
    if not isinstance(here, type) or not hasattr(here, "dtype"):
        return None
    return _OfGpu(name, (), {"dtype": here.dtype, "__module__": "adjoint.cuda"})
