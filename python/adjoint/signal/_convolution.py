"""``convolve``, ``fftconvolve``, ``correlate``: products of signals, directly or by FFT."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._plain import refuse_structures

__all__ = ["as_float", "convolve", "correlate", "fftconvolve"]

_DIRECT = 1 << 12  # products for each element up to which the sums are computed as they stand
_CONVOLUTIONS = (None, "conv1d", "conv2d", "conv3d")


def as_float(x: Any, name: str) -> Tensor:
    """A tensor of floating-point or complex numbers, for a function of that name."""
    refuse_structures(name, x)
    given: Tensor = ad.as_tensor(x)
    is_float = given.is_floating_point() or given.is_complex()
    return given if is_float else given.to(ad.float64)


def _pair(in1: Any, in2: Any, name: str) -> tuple[Tensor, Tensor]:
    a, b = as_float(in1, name), as_float(in2, name)
    if a.ndim != b.ndim:
        raise ValueError(
            f"{name}(): in1 and in2 should have the same number of axes, got {a.ndim} and {b.ndim}"
        )
    if a.ndim == 0:
        raise ValueError(f"{name}(): signals have at least one axis")
    if not a.numel() or not b.numel():
        raise ValueError(f"{name}(): a signal is empty: {list(a.shape)} and {list(b.shape)}")
    dtype = ad.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """The convolution of two signals with the same number of axes, with SciPy's arguments.

    Parameters
    ----------
    in1, in2
        The signals.
    mode
        ``"full"``: every overlap; ``"same"``: the middle of it, as large as ``in1``; ``"valid"``:
        where one lies inside the other.
    method
        ``"direct"``, ``"fft"``, or ``"auto"`` for the quicker one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.convolve(ad.tensor([1.0, 2.0, 3.0]), ad.tensor([0.0, 1.0, 0.5]))
    tensor([0.0000, 1.0000, 2.5000, 4.0000, 1.5000])
    """
    a, b = _pair(in1, in2, "convolve")
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"convolve(): method is 'auto', 'direct' or 'fft', got {method!r}")
    direct = a.ndim <= 3 and not a.is_complex()
    if method == "direct" and not direct:
        raise NotImplementedError(
            "convolve(): method='direct' takes real signals of one to three axes; use 'fft'"
        )
    if method == "direct" or (
        method == "auto" and direct and min(a.numel(), b.numel()) <= _shortest(a, b)
    ):
        return _cut(_directly(a, b), a, b, mode, "convolve")
    return _cut(_by_fft(a, b), a, b, mode, "convolve")


def _shortest(a: Tensor, b: Tensor) -> int:
    """Up to how many elements of the shorter signal the direct way is the quicker."""
    return 16 + 2 * int(math.log2(max(a.numel(), b.numel(), 2)))


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """The convolution of two signals by FFT, along some axes or all; see `convolve`."""
    a, b = _pair(in1, in2, "fftconvolve")
    return _cut(_by_fft(a, b, axes), a, b, mode, "fftconvolve", axes)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """The cross-correlation of two signals: `convolve` with the second one turned round.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.correlate(ad.tensor([1.0, 2.0, 3.0]), ad.tensor([0.0, 1.0, 0.5]), mode="same")
    tensor([2.0000, 3.5000, 3.0000])
    """
    a, b = _pair(in1, in2, "correlate")
    turned = b.flip(tuple(range(b.ndim)))
    turned = turned.conj_physical() if turned.is_complex() else turned
    if mode == "valid" and _inside(a, b):
        # SciPy exchanges them, and turns the result back.
        return convolve(turned, a, mode, method)
    return convolve(a, turned, mode, method)


def _inside(a: Tensor, b: Tensor) -> bool:
    return all(n <= m for n, m in zip(a.shape, b.shape, strict=True)) and a.shape != b.shape


def _directly(a: Tensor, b: Tensor) -> Tensor:
    if a.numel() < b.numel():
        a, b = b, a
    run = getattr(ad.nn.functional, str(_CONVOLUTIONS[a.ndim]))
    kernel = b.flip(tuple(range(b.ndim)))[None, None]
    made: Tensor = run(a[None, None], kernel, padding=tuple(n - 1 for n in b.shape))
    return made[0, 0]


def _by_fft(a: Tensor, b: Tensor, axes: Any = None) -> Tensor:
    chosen = _axes(a, axes)
    full = [a.shape[d] + b.shape[d] - 1 for d in chosen]
    fast = [_good_size(n) for n in full]
    if a.is_complex():
        made = ad.fft.ifftn(
            ad.fft.fftn(a, fast, chosen) * ad.fft.fftn(b, fast, chosen), None, chosen
        )
    else:
        product = ad.fft.rfftn(a, fast, chosen) * ad.fft.rfftn(b, fast, chosen)
        made = ad.fft.irfftn(product, fast, chosen)
    for d, n in zip(chosen, full, strict=True):
        made = made.narrow(d, 0, n)
    return made


def _axes(a: Tensor, axes: Any) -> list[int]:
    if axes is None:
        return list(range(a.ndim))
    given = [axes] if isinstance(axes, int) else list(axes)
    return sorted(d % a.ndim for d in given)


def _good_size(n: int) -> int:
    """The next number whose only factors are 2, 3 and 5."""
    while True:
        rest = n
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1


def _cut(full: Tensor, a: Tensor, b: Tensor, mode: str, name: str, axes: Any = None) -> Tensor:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}(): mode is 'full', 'same' or 'valid', got {mode!r}")
    if mode == "full":
        return full
    chosen = _axes(a, axes)
    sizes = {d: (a.shape[d], b.shape[d]) for d in chosen}
    if mode == "valid":
        if not (all(n >= m for n, m in sizes.values()) or all(n <= m for n, m in sizes.values())):
            raise ValueError(
                f"{name}(): for mode 'valid' one signal must be at least as large as the other "
                f"along every axis, got {list(a.shape)} and {list(b.shape)}"
            )
        wanted = {d: abs(n - m) + 1 for d, (n, m) in sizes.items()}
    else:
        wanted = {d: n for d, (n, _) in sizes.items()}
    for d, n in wanted.items():
        full = full.narrow(d, (full.shape[d] - n) // 2, n)
    return full
