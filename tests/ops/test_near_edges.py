"""Values and derivatives near zero and far from it, where formulas cancel: against mpmath.

Points are taken as each dtype rounds them, references are exact to 40 digits. Read next:
test_special_values.py, which has infinities and NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

mp = mpmath.mp.clone()
mp.dps = 40
MAGNITUDES = [1e-300, 1e-150, 1e-40, 1e-20, 1e-12, 1e-8, 1e-4, 0.01, 0.3, 0.31, 0.32, 1, 3, 20, 50]
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}


def points(dtype: str, low: float, high: float) -> ad.Tensor:
    both = [s * m for m in MAGNITUDES for s in (1.0, -1.0) if low < s * m < high]
    return ad.tensor([0.0, -0.0, *both], dtype=getattr(ad, dtype))


def sinc_slope(x: Any) -> Any:
    t = mp.pi * x
    if abs(t) < 1e-10:  # here 40 digits cancel, too
        return -mp.pi * t / 3
    return mp.pi * (t * mp.cos(t) - mp.sin(t)) / t**2


def sinc_curve(x: Any) -> Any:
    t = mp.pi * x
    if abs(t) < 1e-6:
        return -(mp.pi**2) / 3 * (1 - 3 * t**2 / 10)
    return mp.pi**2 * (-mp.sin(t) / t - 2 * mp.cos(t) / t**2 + 2 * mp.sin(t) / t**3)


ALPHA = mp.mpf("1.6732632423543772848170429916717")
SCALE = mp.mpf("1.0507009873554804934193349852946")


def selu_slope(x: Any) -> Any:
    return SCALE if x > 0 else SCALE * ALPHA * mp.exp(x)


def i1_slope(x: Any) -> Any:
    return mp.mpf(0.5) if x == 0 else mp.besseli(0, x) - mp.besseli(1, x) / x


def mish(x: Any) -> Any:
    return x * mp.tanh(mp.log1p(mp.exp(x)))


def slope(f: Callable[[ad.Tensor], ad.Tensor]) -> Callable[[ad.Tensor], ad.Tensor]:
    return lambda x: ad.func.vmap(ad.func.grad(f))(x)


def slope_forward(f: Callable[[ad.Tensor], ad.Tensor]) -> Callable[[ad.Tensor], ad.Tensor]:
    return lambda x: ad.func.jvp(f, (x,), (ad.ones_like(x),))[1]


# our function, the reference, roundings that may add up, the range
CASES: dict[str, tuple[Callable[[ad.Tensor], ad.Tensor], Callable[[Any], Any], float, Any]] = {
    "sinc'": (slope(ad.sinc), sinc_slope, 12, (-2.0, 2.0)),
    "sinc' forward": (slope_forward(ad.sinc), sinc_slope, 12, (-2.0, 2.0)),
    "sinc''": (slope(slope_forward(ad.sinc)), sinc_curve, 40, (-0.32, 0.32)),
    "selu'": (slope(F.selu), selu_slope, 6, (-10.0, 60.0)),
    "elu'": (slope(F.elu), lambda x: mp.mpf(1) if x > 0 else mp.exp(x), 6, (-10.0, 60.0)),
    "i1'": (slope(ad.special.i1), i1_slope, 12, (-3.5, 3.5)),
    "logit'": (slope(ad.logit), lambda x: 1 / (x * (1 - x)), 4, (1e-6, 1.0)),
    "mish": (F.mish, mish, 6, (-10.0, 60.0)),
}
EXPANDS = {"selu'": 25, "elu'": 25}  # exp multiplies the error of a rounded product by its size


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", CASES)
def test_formulas_do_not_cancel(name: str, dtype: str) -> None:
    f, reference, roundings, (low, high) = CASES[name]
    if name in ("i1'", "sinc''") and dtype in ("bfloat16", "float16"):
        pytest.skip("16-bit floats round each step")
    x = points(dtype, low, high)
    if name == "logit'":
        x = ad.cat([x[2:], ad.tensor([0.9, 0.999, 0.999999], dtype=x.dtype)])
        x = x[x < 1]
    found = f(x).to(ad.float64).tolist()
    smallest = float(ad.finfo(x.dtype).tiny)
    for at, value in zip(x.to(ad.float64).tolist(), found, strict=True):
        want = float(reference(mp.mpf(at)))
        limit = (roundings + EXPANDS.get(name, 0)) * EPS[dtype] * max(abs(want), smallest)
        assert abs(value - want) <= limit, f"at {at}: {value}, not {want}"


def test_mish_of_large_numbers_is_the_number() -> None:
    x = ad.tensor([21.0, 30.0, 100.0, 1e10, 1e300], dtype=ad.float64)
    assert F.mish(x).tolist() == x.tolist()


def test_the_slope_of_selu_in_halves_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    values = np.linspace(-9, 3, 97)
    for dtype in ("bfloat16", "float16"):
        ours = ad.tensor(values, dtype=getattr(ad, dtype)).requires_grad_()
        theirs = torch.tensor(values, dtype=getattr(torch, dtype)).requires_grad_()
        F.selu(ours).sum().backward()
        torch.nn.functional.selu(theirs).sum().backward()
        assert ours.grad is not None
        got, want = ours.grad.float().numpy(), theirs.grad.float().numpy()
        np.testing.assert_allclose(got, want, rtol=4 * EPS[dtype], atol=1e-7)
