"""Tensors on the bytes of a file: ``from_file``."""

from __future__ import annotations

import os
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["from_file"]


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: _core.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose memory is a file.

    Parameters
    ----------
    filename : str or path
        The file. With ``shared`` it is made, or made longer, as needed.
    shared : bool
        Whether changes go to the file, and to others who have it mapped. Otherwise they stay in
        this tensor.
    size : int
        The number of elements.

    Examples
    --------
    >>> import adjoint as ad
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     x = ad.from_file(file.name, shared=True, size=3)
    ...     _ = x.fill_(2.0)
    ...     ad.from_file(file.name, size=2).tolist()
    [2.0, 2.0]
    """
    import numpy as np

    from adjoint._tensor.device import require_cpu

    require_cpu(device)
    dtype = _core.get_default_dtype() if dtype is None else dtype
    wanted = int(size or 0) * dtype.itemsize
    if wanted < 0:
        raise ValueError(f"from_file(): size must not be negative, got {size}")
    if shared and (not os.path.exists(filename) or os.path.getsize(filename) < wanted):
        with open(filename, "ab") as file:
            file.truncate(wanted)
    there = os.path.getsize(filename)
    if there < wanted:
        raise RuntimeError(
            f"from_file(): {os.fspath(filename)!r} has {there} bytes, and {size} elements of "
            f"{dtype} take {wanted}"
        )
    if wanted == 0:
        made: Tensor = _core.empty(0, dtype=dtype)
    else:
        data = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(wanted,))
        made = _core._from_buffer(data).view(dtype)
        made._filename = os.fspath(filename) if shared else None  # type: ignore[attr-defined]
    return made.requires_grad_() if requires_grad else made
