"""Spectra: ``hilbert``, ``resample``, ``stft`` and its inverse, ``periodogram``, ``welch``."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._plain import refuse_structures
from adjoint._samples import must_hold

from . import windows
from ._convolution import as_float

__all__ = ["get_window", "hilbert", "istft", "periodogram", "resample", "stft", "welch"]

_WINDOWS = {
    "hann": windows.hann,
    "hamming": windows.hamming,
    "blackman": windows.blackman,
    "bartlett": windows.bartlett,
    "nuttall": windows.nuttall,
    "cosine": windows.cosine,
}


def get_window(window: Any, Nx: int, fftbins: bool = True, dtype: Any = None) -> Tensor:
    """A window by its name: ``"hann"``, ``("gaussian", std)``, ``("kaiser", beta)``, ...

    Periodic with ``fftbins``, symmetric without. A tensor is returned as it is.
    """
    dtype = dtype or ad.float64
    if isinstance(window, (Tensor, list)) or hasattr(window, "__array__"):
        made = as_float(window, "get_window").to(dtype)
        if made.shape != (Nx,):
            raise ValueError(f"a window of {Nx} samples was expected, got {list(made.shape)}")
        return made
    name, *parameters = window if isinstance(window, tuple) else (window,)
    if name in ("boxcar", "rect", "ones"):
        return ad.ones(Nx, dtype=dtype)
    if name == "gaussian" and parameters:
        return windows.gaussian(Nx, std=parameters[0], sym=not fftbins, dtype=dtype)
    if name == "kaiser" and parameters:
        return windows.kaiser(Nx, beta=parameters[0], sym=not fftbins, dtype=dtype)
    if name not in _WINDOWS or parameters:
        raise ValueError(
            f"get_window(): there is no window {window!r}; there are boxcar, "
            f"{', '.join(_WINDOWS)}, ('gaussian', std) and ('kaiser', beta)"
        )
    return _WINDOWS[name](Nx, sym=not fftbins, dtype=dtype)


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Tensor:
    """The analytic signal: the real signal, and its Hilbert transform as imaginary part.

    Examples
    --------
    >>> import adjoint as ad
    >>> t = ad.arange(8, dtype=ad.float64) / 8
    >>> ad.signal.hilbert(ad.cos(2 * ad.pi * t)).abs().round(decimals=6)
    tensor([1., 1., 1., 1., 1., 1., 1., 1.], dtype=torch.float64)
    """
    x = as_float(x, "hilbert")
    if x.is_complex():
        raise ValueError("hilbert(): x must be real")
    n = x.shape[axis] if N is None else N
    if n < 1:
        raise ValueError(f"hilbert(): N must be positive, got {n}")
    rows = ad.fft.fft(x.movedim(axis, -1), n)
    factors = [1.0] + [2.0] * ((n - 1) // 2) + ([1.0] if n % 2 == 0 else [])
    keep = ad.tensor(factors + [0.0] * (n - len(factors)), dtype=x.dtype)
    made: Tensor = ad.fft.ifft(rows * keep)
    return made.movedim(-1, axis)


def resample(x: Any, num: int, *, axis: int = 0) -> Tensor:
    """A periodic signal at ``num`` samples in place of those it has, by its Fourier series."""
    x = as_float(x, "resample")
    rows = x.movedim(axis, -1)
    n = rows.shape[-1]
    if num < 1 or n < 1:
        raise ValueError(f"resample(): from {n} samples to {num}: both must be positive")
    if x.is_complex():
        return _resample_complex(rows, n, num).movedim(-1, axis)
    series = ad.fft.rfft(rows)
    few = min(n, num)
    kept = series[..., : few // 2 + 1]
    if few % 2 == 0 and n != num:  # the highest frequency stands for itself and its mirror
        factor = 2.0 if num < n else 0.5
        kept = ad.cat([kept[..., :-1], kept[..., -1:] * factor], -1)
    made: Tensor = ad.fft.irfft(kept, num) * (num / n)
    return made.movedim(-1, axis)


def _resample_complex(rows: Tensor, n: int, num: int) -> Tensor:
    series, few = ad.fft.fft(rows), min(n, num)
    half = (few + 1) // 2
    low, high = series[..., :half], series[..., series.shape[-1] - few // 2 :]
    middle = rows.new_zeros(*rows.shape[:-1], num - few).to(series.dtype)
    if few % 2 == 0 and n != num:
        edge = high[..., :1]
        if num < n:
            edge = edge + series[..., half : half + 1]
            high = ad.cat([edge, high[..., 1:]], -1)
        else:
            low = ad.cat([low, edge / 2], -1)
            high = ad.cat([edge / 2, high[..., 1:]], -1)
            middle = middle[..., 1:]
    made: Tensor = ad.fft.ifft(ad.cat([low, middle, high], -1))
    return made * (num / n)


class _Frames:
    """How a signal is cut into windows: what `stft` and `welch` share."""

    def __init__(
        self, window: Any, nperseg: int | None, noverlap: int | None, nfft: int | None, n: int
    ) -> None:
        given = window if isinstance(window, Tensor) else None
        self.size = len(given) if given is not None else min(nperseg or 256, n)
        self.overlap = self.size // 2 if noverlap is None else noverlap
        self.fft = self.size if nfft is None else nfft
        if self.overlap >= self.size or self.overlap < 0:
            raise ValueError(f"noverlap={self.overlap} must be less than nperseg={self.size}")
        if self.fft < self.size:
            raise ValueError(f"nfft={self.fft} must be at least nperseg={self.size}")
        self.step = self.size - self.overlap
        self.window = window

    def weights(self, dtype: Any) -> Tensor:
        return get_window(self.window, self.size, dtype=dtype)

    def of(self, rows: Tensor) -> Tensor:
        """``(..., frames, size)``."""
        frames: Tensor = rows.unfold(-1, self.size, self.step)
        return frames


def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    *,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """The short-time Fourier transform, one-sided, with SciPy's arguments and scaling.

    Returns
    -------
    f, t, Zxx
        Frequencies, times, and the transform with frequencies and times as the last two axes.
    """
    x = as_float(x, "stft")
    rows = x.movedim(axis, -1)
    frames = _Frames(window, nperseg, noverlap, nfft, rows.shape[-1])
    if boundary is not None and boundary != "zeros":
        raise ValueError(f"stft(): boundary is 'zeros' or None, got {boundary!r}")
    half = frames.size // 2 if boundary else 0
    if half:
        rows = ad.nn.functional.pad(rows, (half, half))
    if padded:
        extra = -(rows.shape[-1] - frames.size) % frames.step
        rows = ad.nn.functional.pad(rows, (0, extra))
    weights = frames.weights(x.dtype)
    spectra = ad.fft.rfft(frames.of(rows) * weights, frames.fft) / weights.sum()
    count = spectra.shape[-2]
    start = 0.0 if boundary else frames.size / 2
    t = (ad.arange(count, dtype=x.dtype) * frames.step + start) / fs
    return ad.fft.rfftfreq(frames.fft, 1 / fs, dtype=x.dtype), t, spectra.movedim(-1, -2)


def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    *,
    boundary: bool = True,
) -> tuple[Tensor, Tensor]:
    """The signal of a short-time Fourier transform; undoes `stft`.

    Returns
    -------
    t, x
        Times, and the signal.
    """
    refuse_structures("istft", Zxx)
    Zxx = ad.as_tensor(Zxx)
    fft = 2 * (Zxx.shape[-2] - 1) if nfft is None else nfft
    size = fft if nperseg is None else nperseg
    frames = _Frames(window, size, noverlap, fft, size)
    weights = frames.weights(Zxx.real.dtype)
    parts = ad.fft.irfft(Zxx.movedim(-2, -1), fft)[..., :size] * weights * weights.sum()
    count = parts.shape[-2]
    length = size + (count - 1) * frames.step
    place = (ad.arange(count)[:, None] * frames.step + ad.arange(size)).flatten()
    lead = parts.shape[:-2]
    flat = parts.reshape(*lead, count * size)
    total = flat.new_zeros(*lead, length).index_add(-1, place, flat)
    norm = weights.new_zeros(length).index_add(0, place, (weights**2).repeat(count))
    inner = slice(size // 2, length - size // 2) if boundary else slice(None)
    total, norm = total[..., inner], norm[inner]

    def gap(_: Tensor) -> ValueError:
        return ValueError(
            f"istft(): a window of {size} samples with an overlap of {frames.overlap} leaves some "
            "samples out\n  fix: use more overlap, or a window that is not zero at its ends"
        )

    must_hold(norm.detach() > 1e-10, gap)
    made = total / norm
    return ad.arange(made.shape[-1], dtype=made.dtype) / fs, made


def welch(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool = "constant",
    *,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """The power spectrum by averages over windows that overlap, one-sided; SciPy's arguments.

    Returns
    -------
    f, Pxx
        Frequencies, and the spectrum.
    """
    x = as_float(x, "welch")
    if x.is_complex():
        raise ValueError("welch(): x must be real")
    rows = x.movedim(axis, -1)
    frames = _Frames(window, nperseg, noverlap, nfft, rows.shape[-1])
    if detrend not in (False, "constant"):
        raise ValueError(f"welch(): detrend is 'constant' or False, got {detrend!r}")
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"welch(): scaling is 'density' or 'spectrum', got {scaling!r}")
    parts, weights = frames.of(rows), frames.weights(x.dtype)
    if detrend:
        parts = parts - parts.mean(-1, keepdim=True)
    spectra = ad.fft.rfft(parts * weights, frames.fft)
    power = spectra.real**2 + spectra.imag**2
    power = power / (fs * (weights**2).sum() if scaling == "density" else weights.sum() ** 2)
    last = -1 if frames.fft % 2 == 0 else None
    doubled = ad.ones(power.shape[-1], dtype=x.dtype)
    doubled[1:last] = 2.0
    made = (power * doubled).mean(-2).movedim(-1, axis)
    return ad.fft.rfftfreq(frames.fft, 1 / fs, dtype=x.dtype), made


def periodogram(
    x: Any,
    fs: float = 1.0,
    window: Any = "boxcar",
    nfft: int | None = None,
    detrend: str | bool = "constant",
    *,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """The power spectrum of a signal as a whole, one-sided; see `welch`."""
    n = as_float(x, "periodogram").shape[axis]
    return welch(x, fs, window, n, 0, max(nfft or n, n), detrend, scaling=scaling, axis=axis)
