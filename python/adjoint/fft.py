"""Discrete Fourier transforms under the names of ``torch.fft``.

All but the two lists of frequencies are ops (src/ops/fft).
"""

from __future__ import annotations

from typing import Any as _Any

from adjoint import _core
from adjoint._core import Tensor as _Tensor
from adjoint._core import dtype as _dtype
from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

fft = _core.fft_fft
fft2 = _core.fft_fft2
fftn = _core.fft_fftn
fftshift = _core.fft_fftshift
hfft = _core.fft_hfft
hfft2 = _core.fft_hfft2
hfftn = _core.fft_hfftn
ifft = _core.fft_ifft
ifft2 = _core.fft_ifft2
ifftn = _core.fft_ifftn
ifftshift = _core.fft_ifftshift
ihfft = _core.fft_ihfft
ihfft2 = _core.fft_ihfft2
ihfftn = _core.fft_ihfftn
irfft = _core.fft_irfft
irfft2 = _core.fft_irfft2
irfftn = _core.fft_irfftn
rfft = _core.fft_rfft
rfft2 = _core.fft_rfft2
rfftn = _core.fft_rfftn

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: _Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _Any = None,
    device: _Any = None,
    requires_grad: bool = False,
) -> _Tensor:
    """Return the frequencies of the elements of ``fft``, the negative ones last.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance of two samples; frequencies are in cycles per unit of it.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.fftfreq(5, d=0.1)
    tensor([ 0.,  2.,  4., -4., -2.])
    """
    places = [(0, (n + 1) // 2), (-(n // 2), 0)]
    return _frequencies("fftfreq", places, n, d, out, dtype, layout, device, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: _Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _Any = None,
    device: _Any = None,
    requires_grad: bool = False,
) -> _Tensor:
    """Return the frequencies of the elements of ``rfft``.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance of two samples; frequencies are in cycles per unit of it.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.rfftfreq(5, d=0.1)
    tensor([0., 2., 4.])
    """
    places = [(0, n // 2 + 1)]
    return _frequencies("rfftfreq", places, n, d, out, dtype, layout, device, requires_grad)


def _frequencies(
    name: str,
    places: list[tuple[int, int]],
    n: int,
    d: float,
    out: _Tensor | None,
    dtype: _dtype | None,
    layout: _Any,
    device: _Any,
    requires_grad: bool,
) -> _Tensor:
    """Return whole numbers, in one or two runs, over the length of the signal."""
    kind = dtype if dtype is not None else out.dtype if out is not None else None
    if kind is not None and not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype, but got {kind}")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = kind if kind is not None else _core.get_default_dtype()
    options = {"dtype": kind, "layout": layout, "device": device}
    runs = [_core.arange(start, end, **options) for start, end in places]
    whole = runs[0] if len(runs) == 1 else _core.cat(runs)
    step = float(n) * d
    found = whole * (1.0 / step if step else float("inf"))
    if out is not None:
        return out.resize_(found.shape).copy_(found)
    return found.requires_grad_(requires_grad)


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name)


_watch(__name__)
