"""Windows under the names of ``torch.signal.windows``.

A window has ``M`` samples. With ``sym=True`` it is symmetric, for the design of filters; with
``sym=False`` it is one period of a periodic window, for spectra. Samples are computed in float64
and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor, dtype
from adjoint._tensor.formats import strided

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _check(name: str, M: int, kind: dtype | None, layout: Any) -> dtype:
    """Refuse what torch refuses; return the dtype of the window."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not strided:
        raise ValueError(f"{name} is not implemented for sparse types, got: {layout}")
    kind = _core.get_default_dtype() if kind is None else kind
    if kind not in (_core.float32, _core.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    return kind


def _finished(window: Tensor, kind: dtype, device: Any, requires_grad: bool) -> Tensor:
    return window.to(device=device, dtype=kind).requires_grad_(requires_grad)


def _samples(M: int) -> Tensor:
    return _core.arange(M, dtype=_core.float64)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an exponential window, ``exp(-|k - center| / tau)``.

    Parameters
    ----------
    M : int
        How many samples.
    center : float, optional
        Where its largest sample is; only for periodic windows.
    tau : float
        The distance over which it decays by a factor of e.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.exponential(3, tau=0.5)
    tensor([0.1353, 1.0000, 0.1353])
    """
    kind = _check("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = center if center is not None else _last(M, sym) / 2
    return _finished(((_samples(M) - middle).abs() / -tau).exp(), kind, device, requires_grad)


def _last(M: int, sym: bool) -> int:
    """Return the place where the window ends."""
    return M - 1 if sym or M <= 1 else M


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a half wave of a sine.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    kind = _check("cosine", M, dtype, layout)
    angle = (_samples(M) + 0.5) * (math.pi / max(_last(M, sym) + 1, 1))
    return _finished(angle.sin(), kind, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a bell of a given standard deviation.

    Parameters
    ----------
    M : int
        How many samples.
    std : float
        The standard deviation, in samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    kind = _check("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    distance = (_samples(M) - _last(M, sym) / 2) / (std * math.sqrt(2))
    return _finished((-(distance * distance)).exp(), kind, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Kaiser's window.

    Parameters
    ----------
    M : int
        How many samples.
    beta : float
        Its shape: 0 is a rectangle, larger is narrower.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    kind = _check("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    window = _core.kaiser_window(M, not sym, beta, dtype=kind, device=device)
    return window.requires_grad_(requires_grad)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Hamming's window, ``0.54 - 0.46 cos(2 pi k / (M - 1))``.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _cosines("hamming", M, (0.54, 0.46), sym, dtype, layout, device, requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Hann's window, ``0.5 - 0.5 cos(2 pi k / (M - 1))``.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosines("hann", M, (0.5, 0.5), sym, dtype, layout, device, requires_grad)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Blackman's window, of three cosines.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.blackman(4, sym=False).round(decimals=2).abs()
    tensor([0.0000, 0.3400, 1.0000, 0.3400])
    """
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, layout, device, requires_grad)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Bartlett's window, a triangle.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    kind = _check("bartlett", M, dtype, layout)
    window = _core.bartlett_window(M, not sym, dtype=kind, device=device)
    return window.requires_grad_(requires_grad)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a sum of cosines, ``a[0] - a[1] cos(x) + a[2] cos(2 x) - ...``.

    Parameters
    ----------
    M : int
        How many samples.
    a : iterable of float
        The weights.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _cosines(
    name: str,
    M: int,
    a: Iterable[float],
    sym: bool,
    dtype: dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    kind = _check(name, M, dtype, layout)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    if M == 1:
        return _finished(_samples(1) + 1, kind, device, requires_grad)
    angle = _samples(M) * (2 * math.pi / max(_last(M, sym), 1))
    window = _samples(M) * 0
    for i, weight in enumerate(weights):
        window = window + (angle * i).cos() * (weight if i % 2 == 0 else -weight)
    return _finished(window, kind, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``alpha - (1 - alpha) cos(2 pi k / (M - 1))``.

    Parameters
    ----------
    M : int
        How many samples.
    alpha : float
        0.54 is Hamming's window, 0.5 Hann's.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    weights = (alpha, 1.0 - alpha)
    return _cosines("general_hamming", M, weights, sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return Nuttall's window, of four cosines with low side lobes.

    Parameters
    ----------
    M : int
        How many samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _cosines("nuttall", M, weights, sym, dtype, layout, device, requires_grad)
