"""Signals: values are SciPy's, and derivatives are right by every argument that is a signal."""

import numpy as np
import pytest

import adjoint as ad

scipy_signal = pytest.importorskip("scipy.signal")
signal = ad.signal
rng = np.random.default_rng(0)


def real(*shape):
    return rng.normal(size=shape)


def near(mine, expected, tolerance=1e-10):
    mine, expected = np.asarray(mine.detach()), np.asarray(expected)
    assert mine.shape == expected.shape
    np.testing.assert_allclose(mine, expected, atol=tolerance * (abs(expected).max() + 1))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_products_are_those_of_scipy(name, mode):
    shapes = [((9,), (4,)), ((4,), (9,)), ((5,), (5,)), ((6, 5), (3, 2)), ((300,), (200,))]
    for first, second in shapes:
        for kind in (float, complex):
            a, b = real(*first).astype(kind), real(*second).astype(kind)
            if kind is complex:
                a, b = a + 1j * real(*first), b - 1j * real(*second)
            expected = getattr(scipy_signal, name)(a, b, mode)
            near(getattr(signal, name)(ad.from_numpy(a), ad.from_numpy(b), mode), expected)


def test_products_along_chosen_axes():
    a, b = real(3, 8), real(3, 4)
    near(signal.fftconvolve(a, b, "same", axes=1), scipy_signal.fftconvolve(a, b, "same", axes=1))
    near(signal.convolve(real(5), real(5), method="direct") * 0, np.zeros(9))


FILTERS = {
    "recursive": scipy_signal.butter(3, 0.2),
    "high": scipy_signal.butter(5, 0.4, "high"),
    "finite": (scipy_signal.firwin(7, 0.3), [1.0]),
    "scaled": ([2.0, 1.0], [4.0, 1.0, -0.5]),
    "gain": ([3.0], [2.0]),
}


@pytest.mark.parametrize("kind", list(FILTERS))
def test_filters_are_those_of_scipy(kind):
    b, a = FILTERS[kind]
    b, a = np.asarray(b, dtype=float), np.asarray(a, dtype=float)
    for shape, axis in (((60,), -1), ((2, 50), 1), ((50, 2), 0), ((1,), 0)):
        x = real(*shape)
        near(signal.lfilter(b, a, x, axis), scipy_signal.lfilter(b, a, x, axis))
        if shape[0] > 1 and kind != "gain":  # SciPy refuses that
            near(signal.filtfilt(b, a, x, axis), scipy_signal.filtfilt(b, a, x, axis), 1e-8)
    order = max(len(a), len(b)) - 1
    if order:
        near(signal.lfilter_zi(b, a), scipy_signal.lfilter_zi(b, a))
    for n in (40, 2):  # shorter than the delays, too
        zi, x = real(order), real(n)
        if order:
            mine = signal.lfilter(b, a, x, zi=zi)
            for found, expected in zip(mine, scipy_signal.lfilter(b, a, x, zi=zi), strict=True):
                near(found, expected)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_sections_are_those_of_scipy(padtype):
    sos = scipy_signal.butter(5, 0.3, output="sos")
    x = real(2, 80)
    near(signal.sosfilt(sos, x), scipy_signal.sosfilt(sos, x))
    near(signal.sosfilt_zi(sos), scipy_signal.sosfilt_zi(sos))
    near(
        signal.sosfiltfilt(sos, x, padtype=padtype),
        scipy_signal.sosfiltfilt(sos, x, padtype=padtype),
    )
    b, a = FILTERS["recursive"]
    near(signal.filtfilt(b, a, x, padtype=padtype), scipy_signal.filtfilt(b, a, x, padtype=padtype))
    zi = real(len(sos), 2, 2)
    mine = signal.sosfilt(sos, x, zi=zi)
    for found, expected in zip(mine, scipy_signal.sosfilt(sos, x, zi=zi), strict=True):
        near(found, expected)


def test_a_long_recursion_is_stable():
    b, a = scipy_signal.butter(6, 0.05)
    x = real(20000)
    near(signal.lfilter(b, a, x), scipy_signal.lfilter(b, a, x), 1e-7)


@pytest.mark.parametrize("n", [16, 15])
@pytest.mark.parametrize("to", [16, 10, 9, 24, 31])
def test_resampled_signals_are_those_of_scipy(n, to):
    x = real(n, 2)
    near(signal.resample(x, to), scipy_signal.resample(x, to))
    z = x + 1j * real(n, 2)
    near(signal.resample(z, to), scipy_signal.resample(z, to))
    near(signal.hilbert(x, axis=0), scipy_signal.hilbert(x, axis=0))


@pytest.mark.parametrize(
    "given", [{}, {"nperseg": 16}, {"nperseg": 15, "noverlap": 9}, {"nfft": 300}]
)
def test_spectra_are_those_of_scipy(given):
    x = real(2, 400)
    for name in ("stft", "welch"):
        mine = getattr(signal, name)(x, 10.0, **given)
        for found, expected in zip(
            mine, getattr(scipy_signal, name)(x, 10.0, **given), strict=True
        ):
            near(found, expected)
    for found, expected in zip(
        signal.periodogram(x, 3.0), scipy_signal.periodogram(x, 3.0), strict=True
    ):
        near(found, expected)
    if "nperseg" in given:
        _, _, Z = signal.stft(x, 10.0, **given)
        again = dict(given)
        if again["nperseg"] % 2:
            again["nfft"] = again["nperseg"]
        _, back = signal.istft(Z, 10.0, **again)
        near(back[:, :400], x)


@pytest.mark.parametrize("mode", ["interp", "mirror", "nearest", "constant", "wrap"])
def test_smoothed_signals_are_those_of_scipy(mode):
    x = real(3, 25)
    for deriv in (0, 1, 2):
        given = {"deriv": deriv, "delta": 0.5, "mode": mode}
        near(signal.savgol_filter(x, 7, 3, **given), scipy_signal.savgol_filter(x, 7, 3, **given))
    near(signal.savgol_coeffs(7, 3, pos=2), scipy_signal.savgol_coeffs(7, 3, pos=2))
    for kind in ("linear", "constant"):
        near(signal.detrend(x, 0, kind), scipy_signal.detrend(x, 0, kind))


WINDOWS = ["boxcar", "hann", "hamming", "blackman", ("gaussian", 3.0), ("kaiser", 5.0)]


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_are_those_of_scipy(window):
    near(signal.get_window(window, 12), scipy_signal.get_window(window, 12), 1e-7)


def leaf(*shape):
    return ad.from_numpy(real(*shape)).requires_grad_()


SOS = ad.from_numpy(scipy_signal.butter(3, 0.3, output="sos"))
B, A = (ad.from_numpy(t) for t in scipy_signal.butter(2, 0.3))
DIFFERENTIATED = {
    "convolve": (signal.convolve, (leaf(7), leaf(3))),
    "fftconvolve": (signal.fftconvolve, (leaf(7), leaf(5))),
    "correlate": (lambda a, b: signal.correlate(a, b, "same"), (leaf(6), leaf(4))),
    "lfilter": (signal.lfilter, (B.clone().requires_grad_(), A.clone().requires_grad_(), leaf(8))),
    "filtfilt": (
        lambda b, a, x: signal.filtfilt(b, a, x, padlen=3),
        (B.clone().requires_grad_(), A.clone().requires_grad_(), leaf(7)),
    ),
    "sosfiltfilt": (
        lambda s, x: signal.sosfiltfilt(s, x, padlen=4),
        (SOS.clone().requires_grad_(), leaf(6)),
    ),
    "hilbert": (signal.hilbert, (leaf(6),)),
    "resample": (lambda x: signal.resample(x, 5), (leaf(8),)),
    "stft": (lambda x: signal.stft(x, nperseg=4)[2], (leaf(10),)),
    "welch": (lambda x: signal.welch(x, nperseg=4)[1], (leaf(10),)),
    "savgol_filter": (lambda x: signal.savgol_filter(x, 5, 2), (leaf(8),)),
    "detrend": (signal.detrend, (leaf(6),)),
}


@pytest.mark.parametrize("name", list(DIFFERENTIATED))
def test_derivatives_are_right(name):
    f, inputs = DIFFERENTIATED[name]
    assert ad.autograd.gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True)
    assert ad.autograd.gradgradcheck(f, inputs)
    *rest, x = inputs
    samples = ad.stack([x.detach(), x.detach() * 2])
    mapped = ad.vmap(lambda x: f(*rest, x))(samples)
    near(mapped[1], f(*rest, samples[1]).detach())


@pytest.mark.filterwarnings("error")
def test_programs_repeat_a_filter():
    x = leaf(50)
    compiled = ad.compile(lambda b, a, x: (signal.filtfilt(b, a, x) ** 2).sum())
    for _ in range(3):
        (g,) = ad.autograd.grad(compiled(B, A, x), x)
    (expected,) = ad.autograd.grad((signal.filtfilt(B, A, x) ** 2).sum(), x)
    near(g, expected.detach())


one = ad.ones(4)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: signal.convolve(one, ad.ones(2, 2)), "same number of axes"),
        (lambda: signal.convolve(ad.tensor(1.0), ad.tensor(1.0)), "at least one axis"),
        (lambda: signal.convolve(one, ad.ones(0)), "is empty"),
        (lambda: signal.convolve(one, one, "half"), "mode is"),
        (lambda: signal.convolve(one, one, method="slow"), "method is"),
        (lambda: signal.convolve(ad.ones(2, 5), ad.ones(5, 2), "valid"), "along every axis"),
        (lambda: signal.lfilter(ad.ones(2, 2), one, one), "coefficients are vectors"),
        (lambda: signal.lfilter(one, one, ad.tensor(1.0)), "at least one axis"),
        (lambda: signal.lfilter(one, one, one, zi=one), "the state of 3 delays"),
        (lambda: signal.filtfilt(one, one, one), "a smaller padlen"),
        (lambda: signal.filtfilt(one, one, one, padtype="x"), "padtype is"),
        (lambda: signal.sosfilt(one, one), "sections, 6"),
        (lambda: signal.hilbert(ad.ones(2, dtype=ad.complex64)), "must be real"),
        (lambda: signal.hilbert(one, 0), "must be positive"),
        (lambda: signal.resample(one, 0), "must be positive"),
        (lambda: signal.stft(one, noverlap=9), "less than nperseg"),
        (lambda: signal.stft(one, nfft=1), "at least nperseg"),
        (lambda: signal.stft(one, boundary="even"), "boundary is"),
        (lambda: signal.istft(ad.ones(3, 2, dtype=ad.complex64), noverlap=0), "leaves some"),
        (lambda: signal.welch(ad.ones(2, dtype=ad.complex64)), "must be real"),
        (lambda: signal.welch(one, detrend="linear"), "detrend is"),
        (lambda: signal.welch(one, scaling="x"), "scaling is"),
        (lambda: signal.get_window("x", 3), "no window 'x'"),
        (lambda: signal.get_window([1.0], 3), "3 samples"),
        (lambda: signal.savgol_filter(one, 3, 3), "less than"),
        (lambda: signal.savgol_filter(one, 5, 2), "at most the 4"),
        (lambda: signal.savgol_filter(one, 2, 1), "must be odd"),
        (lambda: signal.savgol_filter(one, 3, 1, mode="x"), "mode is"),
        (lambda: signal.savgol_coeffs(3, 1, pos=5), "outside of the window"),
        (lambda: signal.detrend(one, type="x"), "type is"),
    ],
)
def test_errors_say_what_is_wrong(call, part):
    with pytest.raises(ValueError, match=part):
        call()
