"""What PyTorch keeps in ``torch._C._functorch``, as far as programs ask for it."""

from __future__ import annotations

from adjoint import _core
from adjoint._core import Tensor


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether the tensor stands for one sample of a batch, inside ``vmap``."""
    return _core._batch_level((tensor,)) > 0


def dlevel(tensor: Tensor) -> int:
    """How many ``vmap`` calls stand around the one that the tensor is a sample of, and it; or 0."""
    from adjoint.func._vmap import depth_of

    level = _core._batch_level((tensor,))
    return depth_of(level) if level else 0


def reshape_dim_into(src: int, dst: int, x: Tensor) -> Tensor:
    """Merge axis ``src`` into the axis that is ``dst`` once ``src`` is taken out."""
    src %= x.ndim
    dst %= x.ndim - 1
    moved = x.movedim(src, dst)
    shape = list(moved.shape)
    shape[dst : dst + 2] = [shape[dst] * shape[dst + 1]]
    return moved.reshape(shape)


def reshape_dim_outof(src: int, size1: int, x: Tensor) -> Tensor:
    """Split axis ``src`` into one of size ``size1`` and the rest."""
    src %= x.ndim
    shape = list(x.shape)
    if shape[src] % size1 != 0:
        raise RuntimeError(f"an axis of size {shape[src]} cannot be split by {size1}")
    shape[src : src + 1] = [size1, shape[src] // size1]
    return x.reshape(shape)


def _is_vmap_fallback_enabled() -> bool:
    """Whether ``vmap`` may loop over samples: always, and it says so once."""
    return True


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Accepted: ``vmap`` says once, by name, where it loops."""
