"""Making tensors from Python data: ``tensor``, ``as_tensor``, ``from_numpy``."""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._device import device as _device


def tensor(
    data: Any,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor holding a copy of ``data``.

    Parameters
    ----------
    data
        A number, nested lists of numbers, a NumPy array or a tensor.
    dtype
        Of the result; taken from the data when left out (floats: the default dtype).
    device
        Only ``"cpu"``.
    requires_grad
        Whether operations on the tensor are recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    if device is not None:
        _device(device)
    out = _core._tensor(data, dtype)
    if requires_grad:
        out.requires_grad_()
    return out
