"""Signal processing: ``torch.signal``'s windows, and filters and spectra with SciPy's names.

- ``windows.py`` - windows, under the names of ``torch.signal.windows``
- ``_convolution.py`` - `convolve`, `fftconvolve`, `correlate`
- ``_filters.py`` - `lfilter`, `filtfilt`, `sosfilt` and their like
- ``_spectra.py`` - `hilbert`, `resample`, `stft`, `istft`, `welch`, `periodogram`
- ``_smoothing.py`` - `savgol_filter`, `detrend`
"""

from adjoint._missing import watch as _watch
from adjoint.signal import windows

from ._convolution import convolve as convolve
from ._convolution import correlate as correlate
from ._convolution import fftconvolve as fftconvolve
from ._filters import filtfilt as filtfilt
from ._filters import lfilter as lfilter
from ._filters import lfilter_zi as lfilter_zi
from ._filters import sosfilt as sosfilt
from ._filters import sosfilt_zi as sosfilt_zi
from ._filters import sosfiltfilt as sosfiltfilt
from ._smoothing import detrend as detrend
from ._smoothing import savgol_coeffs as savgol_coeffs
from ._smoothing import savgol_filter as savgol_filter
from ._spectra import get_window as get_window
from ._spectra import hilbert as hilbert
from ._spectra import istft as istft
from ._spectra import periodogram as periodogram
from ._spectra import resample as resample
from ._spectra import stft as stft
from ._spectra import welch as welch

__all__ = [
    "convolve",
    "correlate",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "get_window",
    "hilbert",
    "istft",
    "lfilter",
    "lfilter_zi",
    "periodogram",
    "resample",
    "savgol_coeffs",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "stft",
    "welch",
    "windows",
]


_watch(__name__)
