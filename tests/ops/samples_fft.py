"""Samples and references of Fourier transforms. Read `samples.py` first.

References are SciPy's transforms in one precision more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import fft

from tests.ops.spec import Arr, Array, Op, Sample


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


# Lengths that each take another way: 1, 2, radix 3, 4, 5, 7, 8, several passes, an odd prime, and
# (as the value of single calls) a prime for which a convolution is quicker, a long line.
ONE_AXIS = [
    S(Arr((6,))), S(Arr((7,)), norm="ortho"), S(Arr((1, 3))), S(Arr((2, 2)), norm="forward"),
    S(Arr((4, 3)), dim=0), S(Arr((2, 3, 4)), 5, 1), S(Arr((5, 2)), n=3, dim=0, norm="backward"),
    S(Arr((2, 8))), S(Arr((12, 1)), dim=0), S(Arr((2, 11)), n=22),
    S(Arr((20, 4)), dim=-1), S(Arr((3, 74))), S(Arr((600,))), S(Arr((33, 60))),
]  # fmt: skip
# The result of 2 n - 2 by default, so not of one element.
HALF = [s for s in ONE_AXIS if s.args[0].shape != (12, 1)]
TWO_AXES = [
    S(Arr((2, 3))), S(Arr((2, 4, 3)), norm="ortho"), S(Arr((4, 2, 3)), dim=(0, 2)),
    S(Arr((3, 4)), s=(5, 2)), S(Arr((2, 3, 2)), (4, 3), (2, 0), "forward"),
    S(Arr((17, 40))),
]  # fmt: skip
SEVERAL = [
    S(Arr((2, 3))), S(Arr((2, 2, 3))), S(Arr((4, 3)), dim=(0,)), S(Arr((3, 4)), s=(6,)),
    S(Arr((2, 3, 2)), (3, 3), (2, 0)), S(Arr((2, 3, 2)), dim=(1, 2, 0), norm="ortho"),
    S(Arr((2, 3)), s=(-1, 4)),
]  # fmt: skip


def transform(name: str, samples: list[Sample], dtypes: str, out: str) -> Op:
    return Op(
        f"fft_{name}", samples, dtypes, out, path=f"fft.{name}", method=False, ulps=8, terms=32
    )


def shift(name: str) -> Op:
    cases = [S(Arr((5,))), S(Arr((2, 3, 4))), S(Arr((2, 3, 4)), (0, 2)), S(Arr((4, 0)))]
    return Op(f"fft_{name}", cases, "bifhc", path=f"fft.{name}", method=False)


def core(name: str, samples: list[Sample], dtypes: str, out: str) -> Op:
    return Op(name, samples, dtypes, out, method=False, ulps=8, terms=32)


WINDOW = np.array([0.25, 0.5, 1.0, 0.75], np.float32)
COMPLEX = {"return_complex": True}
FRAMES = [
    S(Arr((9,)), 4, window=WINDOW, **COMPLEX),
    S(Arr((2, 11)), 4, 3, 2, window=WINDOW[:2], center=False, **COMPLEX),
    S(Arr((8,)), 4, 2, window=WINDOW, pad_mode="constant", normalized=True, **COMPLEX),
    S(Arr((8,)), 5, 2, 4, window=WINDOW, pad_mode="circular", onesided=False, **COMPLEX),
    S(Arr((6,)), 3, 1, window=WINDOW[:3], pad_mode="replicate", **COMPLEX),
    S(Arr((9,)), 6, 2, 4, window=WINDOW, center=False, align_to_window=True, **COMPLEX),
]
BACK_TO_SIGNALS = [
    S(Arr((3, 5)), 4, window=WINDOW), S(Arr((2, 3, 4)), 5, 2, 4, window=WINDOW, normalized=True),
    S(Arr((3, 5)), 4, 2, window=WINDOW, center=False), S(Arr((3, 6)), 4, window=WINDOW, length=4),
    S(Arr((4, 5)), 4, 2, window=WINDOW, onesided=False),
]  # fmt: skip

OPS = [
    *(transform(n, ONE_AXIS, "fc", "complex") for n in ("fft", "ifft")),
    *(transform(n, ONE_AXIS, "f", "complex") for n in ("rfft", "ihfft")),
    *(transform(n, HALF, "fc", "real") for n in ("irfft", "hfft")),
    *(transform(n, TWO_AXES, "fc", "complex") for n in ("fft2", "ifft2")),
    *(transform(n, TWO_AXES, "f", "complex") for n in ("rfft2", "ihfft2")),
    *(transform(n, TWO_AXES, "fc", "real") for n in ("irfft2", "hfft2")),
    *(transform(n, SEVERAL, "fc", "complex") for n in ("fftn", "ifftn")),
    *(transform(n, SEVERAL, "f", "complex") for n in ("rfftn", "ihfftn")),
    *(transform(n, SEVERAL, "fc", "real") for n in ("irfftn", "hfftn")),
    *(shift(n) for n in ("fftshift", "ifftshift")),
    core("_fft_c2c", [S(Arr((2, 3)), (0, 1), 0, True), S(Arr((4,)), (0,), 1, False),
                      S(Arr((3,)), (), 0, True)], "c", "same"),
    core("_fft_r2c", [S(Arr((2, 3)), (0, 1), 0, True), S(Arr((4,)), (0,), 2, False),
                      S(Arr((3, 4, 2)), (2, 1), 1, False)], "f", "complex"),
    core("_fft_c2r", [S(Arr((2, 3)), (0, 1), 0, 4), S(Arr((4,)), (0,), 1, 6),
                      S(Arr((4,)), (0,), 1, 7)], "c", "real"),
    Op("istft", BACK_TO_SIGNALS, "c", "real", method=False, constants=("window",), ulps=16,
       terms=16),
    Op("istft_complex", [S(Arr((4, 5)), 4, 2, window=WINDOW, return_complex=True)], "c", "same",
       path="istft", method=False, constants=("window",), ulps=16, terms=16),
    Op("stft", FRAMES, "f", "complex", constants=("window",), ulps=8, terms=32),
]  # fmt: skip


# --- references -----------------------------------------------------------------------------------
def empty_or(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy refuses to transform nothing: the shape is that of the transform of one more row."""

    def safe(x: Any, *args: Any, **kwargs: Any) -> Any:
        if np.size(x):
            return function(x, *args, **kwargs)
        return function(np.zeros((1, *x.shape[1:]), x.dtype), *args, **kwargs)[:0]

    return safe


def one_axis(name: str) -> Callable[..., Any]:
    function = getattr(fft, name)
    return empty_or(lambda x, n=None, dim=-1, norm=None: function(x, n, dim, norm))


def several_axes(name: str, axes: Any) -> Callable[..., Any]:
    function = getattr(fft, name)

    def reference(x: Any, s: Any = None, dim: Any = axes, norm: Any = None) -> Any:
        if s is not None:
            dim = dim if dim is not None else range(-len(s), 0)
            s = [x.shape[d] if n == -1 else n for n, d in zip(s, dim, strict=True)]
        return function(x, s, dim, norm)

    return empty_or(reference)


NORMS = {0: "backward", 1: "ortho", 2: "forward"}  # as the forward transform has them
BACK = {0: "forward", 1: "ortho", 2: "backward"}


def c2c(x: Array, dim: Any, mode: int, forward: bool) -> Any:
    if not dim:
        return x
    return (
        fft.fftn(x, axes=dim, norm=NORMS[mode])
        if forward
        else fft.ifftn(x, axes=dim, norm=BACK[mode])
    )


def r2c(x: Array, dim: Any, mode: int, onesided: bool) -> Any:
    function = fft.rfftn if onesided else fft.fftn
    return function(x, axes=dim, norm=NORMS[mode])


def c2r(x: Array, dim: Any, mode: int, n: int) -> Any:
    sizes = [*(x.shape[d] for d in dim[:-1]), n]
    return fft.irfftn(x, sizes, dim, BACK[mode])


def stft(
    x: Array, n_fft: int, hop: Any = None, length: Any = None, *, window: Array,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool = True, align_to_window: bool = False, return_complex: bool = True,
) -> Any:  # fmt: skip
    hop, length = hop or n_fft // 4, length or n_fft
    left = (n_fft - length) // 2
    whole = np.pad(window, (left, n_fft - length - left))
    rows = np.atleast_2d(x)
    names = {"constant": "constant", "circular": "wrap", "replicate": "edge", "reflect": "reflect"}
    if center:
        rows = np.pad(rows, ((0, 0), (n_fft // 2, n_fft // 2)), mode=names[pad_mode])  # type: ignore[call-overload]
    elif align_to_window:
        rows = np.pad(rows, ((0, 0), (left, n_fft - length - left)))
    starts = range(0, rows.shape[1] - n_fft + 1, hop)
    frames = np.stack([rows[:, s : s + n_fft] * whole for s in starts], 1)
    function = fft.rfft if onesided else fft.fft
    found = np.moveaxis(function(frames, norm="ortho" if normalized else None), 1, 2)
    return found[0] if x.ndim == 1 else found


def istft(
    x: Array, n_fft: int, hop: Any = None, win_length: Any = None, *, window: Array,
    center: bool = True, length: Any = None, normalized: bool = False, onesided: bool = True,
    return_complex: bool = False,
) -> Any:  # fmt: skip
    hop, win = hop or n_fft // 4, len(window)
    left = (n_fft - win) // 2
    whole = np.pad(window, (left, n_fft - win - left))
    spectra = np.moveaxis(x if x.ndim == 3 else x[None], 1, 2)
    norm = "ortho" if normalized else None
    frames = (
        fft.ifft(spectra, norm=norm)
        if return_complex
        else fft.irfft(spectra[:, :, : n_fft // 2 + 1], n_fft, norm=norm)
    )
    signal = np.zeros((frames.shape[0], n_fft + hop * (frames.shape[1] - 1)), frames.dtype)
    weight = np.zeros(signal.shape[1])
    for k in range(frames.shape[1]):
        signal[:, k * hop : k * hop + n_fft] += frames[:, k] * whole
        weight[k * hop : k * hop + n_fft] += whole**2
    begin, end = (n_fft // 2, signal.shape[1] - n_fft // 2) if center else (0, signal.shape[1])
    end = begin + length if length else end
    found = (signal / weight)[:, begin:end]
    return found if x.ndim == 3 else found[0]


ALONG = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REFERENCES: dict[str, Callable[..., Any]] = {
    **{f"fft_{n}": one_axis(n) for n in ALONG},
    **{f"fft_{n}2": several_axes(f"{n}2", (-2, -1)) for n in ALONG},
    **{f"fft_{n}n": several_axes(f"{n}n", None) for n in ALONG},
    "fft_fftshift": fft.fftshift, "fft_ifftshift": fft.ifftshift,
    "_fft_c2c": c2c, "_fft_r2c": r2c, "_fft_c2r": c2r, "stft": stft,
    "istft": istft, "istft_complex": istft,
}  # fmt: skip
