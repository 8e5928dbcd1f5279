"""``savgol_filter`` and ``detrend``: polynomials through windows, and through everything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor

from ._convolution import as_float

__all__ = ["detrend", "savgol_coeffs", "savgol_filter"]


def savgol_coeffs(
    window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, pos: int | None = None
) -> Tensor:
    """The coefficients of a Savitzky-Golay filter, for a convolution."""
    if polyorder >= window_length:
        raise ValueError(
            f"savgol_coeffs(): polyorder={polyorder} must be less than "
            f"window_length={window_length}"
        )
    place = window_length // 2 if pos is None else pos
    if not 0 <= place < window_length:
        raise ValueError(f"savgol_coeffs(): pos={place} is outside of the window")
    weights = _weights(window_length, polyorder, deriv, delta, place)[::-1]
    return ad.tensor(weights.tolist(), dtype=ad.float64)


def _weights(length: int, order: int, deriv: int, delta: float, at: float) -> Any:
    """The derivative at a place of the polynomial through a window, as weights of its samples."""
    if deriv > order:
        return np.zeros(length)
    x = np.arange(length) - at
    inverse = np.linalg.pinv(np.vander(x, order + 1, increasing=True))
    return inverse[deriv] * math.factorial(deriv) / delta**deriv


def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Smooth a signal by polynomials through windows, or differentiate it so; SciPy's arguments.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([2.0, 2, 5, 2, 1, 0, 1, 4, 9], dtype=ad.float64)
    >>> ad.signal.savgol_filter(x, 5, 2)
    tensor([1.6571, 3.1714, 3.5429, 2.8571, 0.6571, 0.1714, 1.0000, 4.0000, 9.0000],
           dtype=torch.float64)
    """
    x = as_float(x, "savgol_filter")
    n = x.shape[axis]
    if mode not in ("interp", "mirror", "nearest", "constant", "wrap"):
        raise ValueError(
            f"savgol_filter(): mode is interp, mirror, nearest, constant or wrap, got {mode!r}"
        )
    if window_length > n and mode == "interp":
        raise ValueError(
            f"savgol_filter(): with mode 'interp' window_length={window_length} must be at most "
            f"the {n} samples"
        )
    if window_length % 2 == 0 and mode == "interp":
        raise ValueError(f"savgol_filter(): window_length={window_length} must be odd")
    half = window_length // 2
    kernel = savgol_coeffs(window_length, polyorder, deriv, delta).to(x.dtype)
    rows = x.movedim(axis, -1)
    if mode != "interp":
        rows = _extended(rows, half, mode, cval)
    lead = rows.shape[:-1]
    columns = rows.reshape(-1, 1, rows.shape[-1])
    middle = ad.nn.functional.conv1d(columns, kernel.flip(0)[None, None]).reshape(*lead, -1)
    if mode != "interp":
        return middle.movedim(-1, axis)
    ends = [
        [_weights(window_length, polyorder, deriv, delta, k) for k in places]
        for places in (range(half), range(half + 1, window_length))
    ]
    first, last = (ad.tensor(np.array(e).tolist(), dtype=ad.float64).to(x.dtype) for e in ends)
    before = rows[..., :window_length] @ first.mT
    after = rows[..., n - window_length :] @ last.mT
    return ad.cat([before, middle, after], -1).movedim(-1, axis)


def _extended(rows: Tensor, half: int, mode: str, cval: float) -> Tensor:
    n = rows.shape[-1]
    if mode == "constant":
        return ad.nn.functional.pad(rows, (half, half), value=cval)
    places = np.arange(-half, n + half)
    if mode == "nearest":
        places = places.clip(0, n - 1)
    elif mode == "wrap":
        places = places % n
    else:
        period = max(2 * n - 2, 1)
        places = n - 1 - abs(places % period - (n - 1))
    return rows[..., ad.tensor(places.tolist())]


def detrend(data: Any, axis: int = -1, type: str = "linear") -> Tensor:
    """A signal without its mean (``"constant"``) or without the line through it (``"linear"``)."""
    x = as_float(data, "detrend")
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError(f"detrend(): type is 'linear' or 'constant', got {type!r}")
    rows: Tensor = x.movedim(axis, -1)
    rows = rows - rows.mean(-1, keepdim=True)
    if type in ("linear", "l"):
        n = rows.shape[-1]
        t = ad.arange(n, dtype=rows.real.dtype if rows.is_complex() else rows.dtype)
        t = t - t.mean()
        slope = (rows * t).sum(-1, keepdim=True) / (t**2).sum().clamp(min=1e-300)
        rows = rows - slope * t
    return rows.movedim(-1, axis)
