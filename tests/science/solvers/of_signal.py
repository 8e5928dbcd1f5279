"""`adjoint.signal`: filters by their recursions, spectra by the sums that define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

import adjoint as ad
from adjoint import signal

from .matrices import ONES, UNITS, at, numbers, tensors
from .references import Case, Numbers, normal, rowed, stacked

CASES: list[Case] = []
# Constants of lengths and names, which tests/unit/signal compares with SciPy's.
NOT_SOLVERS = ("get_window", "savgol_coeffs", "windows")
# Of parameters, and of the signal.
SCALES = ((ONES, 1.0), (UNITS, 1e-9))
LENGTH = 8


def pair(solver: str, name: str, ours: Any, exact: Any) -> None:
    for units, unit in SCALES:
        CASES.append(
            Case(
                solver,
                name + (" plain" if unit == 1 else " scaled"),
                tensors(units, lambda m, q, u=unit: ours(stacked(heard(m, q, u)), q)),
                numbers(units, lambda m, q, u=unit: exact(heard(m, q, mpf(u)), q)),
                at(units),
                scaled=unit != 1,
            )
        )


def heard(m: Any, q: Numbers, unit: Any) -> Numbers:
    """A signal of a few samples."""
    return [unit * (q[0] * m.cos(k * q[1]) + m.exp(-k * q[2] / 2)) for k in range(LENGTH)]


def taps(q: Numbers) -> tuple[Numbers, Numbers]:
    """Both sides of a stable filter."""
    return [q[0], q[1] * q[2], 0.3 + 0 * q[0]], [2 + q[1], -0.5 * q[2], 0.25 * q[0]]


def sections(q: Numbers) -> list[Numbers]:
    b, a = taps(q)
    return [
        [*b, *(v / a[0] for v in a)],
        [1 + 0 * q[0], q[2], 0.2 * q[1], 1 + 0 * q[0], 0.3 * q[0], -0.1 * q[1]],
    ]


# --- products -------------------------------------------------------------------------------------
def product(x: Numbers, y: Numbers) -> Numbers:
    out = [mpf(0)] * (len(x) + len(y) - 1)
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            out[i + j] += a * b
    return out


for name in ("convolve", "fftconvolve"):
    pair(
        name,
        "",
        lambda x, q, name=name: getattr(signal, name)(x, stacked(taps(q)[0])),
        lambda x, q: product(x, taps(q)[0]),
    )
pair(
    "correlate",
    "",
    lambda x, q: signal.correlate(x, stacked(taps(q)[0])),
    lambda x, q: product(x, taps(q)[0][::-1]),
)


# --- filters --------------------------------------------------------------------------------------
def steady(b: Numbers, a: Numbers) -> Numbers:
    """The state in which a constant one stays constant."""
    gain = sum(b) / sum(a)
    return [sum((b[j] - a[j] * gain) / a[0] for j in range(i, len(b))) for i in range(1, len(b))]


def filtered(b: Numbers, a: Numbers, x: Numbers, state: Numbers) -> Numbers:
    """Direct form II, transposed."""
    b, a, z, out = [v / a[0] for v in b], [v / a[0] for v in a], [*state, mpf(0)], []
    for v in x:
        y = b[0] * v + z[0]
        z = [z[i + 1] + b[i + 1] * v - a[i + 1] * y for i in range(len(b) - 1)] + [mpf(0)]
        out.append(y)
    return out


def odd(x: Numbers, n: int) -> Numbers:
    before = [2 * x[0] - x[k] for k in range(n, 0, -1)]
    return [*before, *x, *(2 * x[-1] - x[-1 - k] for k in range(1, n + 1))]


def twice(run: Callable[[Numbers, Any], Numbers], x: Numbers, n: int) -> Numbers:
    """Forward and back, from the steady state of the first sample."""
    there = run(x := odd(x, n), x[0])[::-1]
    return run(there, there[0])[::-1][n:-n]


def in_series(q: Numbers, x: Numbers, first: Any) -> Numbers:
    scale = mpf(1)
    for s in sections(q):
        state = [v * first * scale for v in steady(s[:3], s[3:])]
        x = filtered(s[:3], s[3:], x, state)
        scale *= sum(s[:3]) / sum(s[3:])
    return x


def states(q: Numbers) -> Numbers:
    scale, out = mpf(1), []
    for s in sections(q):
        out += [v * scale for v in steady(s[:3], s[3:])]
        scale *= sum(s[:3]) / sum(s[3:])
    return out


def coefficients(q: Numbers) -> tuple[ad.Tensor, ad.Tensor]:
    b, a = taps(q)
    return stacked(b), stacked(a)


pair(
    "lfilter",
    "",
    lambda x, q: signal.lfilter(*coefficients(q), x),
    lambda x, q: filtered(*taps(q), x, [mpf(0)] * 2),
)
pair(
    "lfilter_zi",
    "",
    lambda x, q: signal.lfilter_zi(*coefficients(q)),
    lambda x, q: steady(*taps(q)),
)
pair(
    "filtfilt",
    "",
    lambda x, q: signal.filtfilt(*coefficients(q), x, padlen=4),
    lambda x, q: twice(
        lambda x, first: filtered(*taps(q), x, [v * first for v in steady(*taps(q))]), x, 4
    ),
)
pair(
    "sosfilt",
    "",
    lambda x, q: signal.sosfilt(rowed(sections(q)), x),
    lambda x, q: in_series(q, x, mpf(0)),
)
pair(
    "sosfilt_zi",
    "",
    lambda x, q: signal.sosfilt_zi(rowed(sections(q))).reshape(-1),
    lambda x, q: states(q),
)
pair(
    "sosfiltfilt",
    "",
    lambda x, q: signal.sosfiltfilt(rowed(sections(q)), x, padlen=4),
    lambda x, q: twice(lambda x, first: in_series(q, x, first), x, 4),
)


# --- smoothing ------------------------------------------------------------------------------------
def fitted(x: Numbers, order: int, places: Any) -> Numbers:
    """A polynomial through all samples by least squares, at places."""
    c = normal([[mpf(k) ** p for p in range(order + 1)] for k in range(len(x))], x)
    return [sum(v * mpf(t) ** p for p, v in enumerate(c)) for t in places]


def smoothed(x: Numbers, q: Numbers) -> Numbers:
    middle = [fitted(x[k - 2 : k + 3], 2, (2,))[0] for k in range(2, len(x) - 2)]
    return [*fitted(x[:5], 2, (0, 1)), *middle, *fitted(x[-5:], 2, (3, 4))]


pair("savgol_filter", "", lambda x, q: signal.savgol_filter(x, 5, 2), smoothed)
pair(
    "detrend",
    "",
    lambda x, q: signal.detrend(x),
    lambda x, q: [v - w for v, w in zip(x, fitted(x, 1, range(len(x))), strict=True)],
)


# --- spectra --------------------------------------------------------------------------------------
def transform(x: Numbers, sign: int = -1) -> Numbers:
    n = len(x)
    return [
        sum(v * mp.expjpi(mpf(2 * sign * j * k) / n) for k, v in enumerate(x)) for j in range(n)
    ]


def hann(n: int) -> Numbers:
    return [(1 - mp.cospi(mpf(2 * k) / n)) / 2 for k in range(n)]


def analytic(x: Numbers, q: Numbers) -> Numbers:
    n = len(x)
    weights = [1, *[2] * (n // 2 - 1), 1, *[0] * (n // 2 - 1)]
    made = transform([w * v for w, v in zip(weights, transform(x), strict=True)], 1)
    return [*(v.real / n for v in made), *(v.imag / n for v in made)]


pair(
    "hilbert",
    "",
    lambda x, q: (lambda z: stacked([z.real, z.imag]))(signal.hilbert(x)),
    analytic,
)


def by_sines(x: Numbers, q: Numbers) -> Numbers:
    """The band-limited signal between the samples, at half of their distance."""
    n = len(x)
    found = transform(x)
    out = []
    for j in range(2 * n):
        t = mpf(j) / 2
        value = found[0].real + found[n // 2].real * mp.cospi(t)
        for k in range(1, n // 2):
            value += 2 * (found[k] * mp.expjpi(2 * k * t / n)).real
        out.append(value / n)
    return out


pair("resample", "", lambda x, q: signal.resample(x, 2 * LENGTH), by_sines)


def power(x: Numbers, window: Numbers, rate: Any) -> Numbers:
    """The density of one piece on one side, without its mean."""
    n, mean = len(x), sum(x) / len(x)
    found = transform([w * (v - mean) for w, v in zip(window, x, strict=True)])
    scale = 1 / (rate * sum(w**2 for w in window))
    sides = [1, *[2] * (n // 2 - 1), 1]
    return [s * abs(v) ** 2 * scale for s, v in zip(sides, found[: n // 2 + 1], strict=True)]


# The mean is taken away: what is left at zero is rounding.
pair(
    "periodogram",
    "",
    lambda x, q: signal.periodogram(x, fs=1e3)[1][1:],
    lambda x, q: power(x, [mpf(1)] * LENGTH, mpf(1000))[1:],
)
pair(
    "welch",
    "",
    lambda x, q: signal.welch(x, fs=1e3, nperseg=4)[1][1:],
    lambda x, q: [
        sum(each) / 3
        for each in zip(*(power(x[k : k + 4], hann(4), mpf(1000)) for k in (0, 2, 4)), strict=True)
    ][1:],
)


def frames(x: Numbers, q: Numbers) -> Numbers:
    """Pieces of four, two apart, of the signal between zeros."""
    x, window = [mpf(0)] * 2 + x + [mpf(0)] * 2, hann(4)
    pieces = [
        transform([w * v for w, v in zip(window, x[k : k + 4], strict=True)])[:3]
        for k in range(0, LENGTH + 1, 2)
    ]
    spectra = [piece[j] / sum(window) for j in range(3) for piece in pieces]
    return [*(v.real for v in spectra), *(v.imag for v in spectra)]


pair(
    "stft",
    "",
    lambda x, q: (lambda z: stacked([z.real, z.imag]))(signal.stft(x, nperseg=4)[2]),
    frames,
)
pair(
    "istft",
    "",
    lambda x, q: signal.istft(q[1] * signal.stft(x, nperseg=4)[2], nperseg=4)[1],
    lambda x, q: [q[1] * v for v in x],
)
