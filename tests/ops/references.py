"""What every op must return, by NumPy and SciPy: independent of adjoint and of torch.

Each entry takes the op's own arguments with arrays for tensors. Floating-point arrays arrive one
precision wider (float64 as long double), so a result can be off only by the library's own rounding;
the functions that NumPy lacks go through SciPy in float64. `reference_network.py` holds the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.ops.reference_network import NETWORK
from tests.ops.samples_activation import ACTIVATED
from tests.ops.samples_arranging import ARRANGED
from tests.ops.samples_linalg import LINEAR
from tests.ops.samples_order import ORDERED
from tests.ops.samples_scatter import PLACED
from tests.ops.samples_statistics import STATISTICAL
from tests.ops.spec import Array

Reference = Callable[..., Any]


def wide(x: Any) -> Any:
    """One precision wider, so that the reference's own rounding does not count."""
    if not isinstance(x, np.ndarray):
        return x
    return x.astype(
        {
            "float16": np.float64, "float32": np.float64, "float64": np.longdouble,
            "complex64": np.complex128, "complex128": np.clongdouble,
        }.get(x.dtype.name, x.dtype)
    )  # fmt: skip


def scipy64(f: Callable[[Any], Any]) -> Reference:
    return lambda x: f(np.asarray(x, np.float64))


def bessel(order: int, scaled: bool) -> Reference:
    """The power series in long double, and far out SciPy's function times exp(-x)."""

    def near(a: Any) -> Any:
        term = total = (a / 2) ** order
        for k in range(1, 90):
            term = term * (a / 2) ** 2 / (k * (k + order))
            total = total + term
        return total * np.exp(-a) if scaled else total

    def far(a: Any) -> Any:
        shrunk = (special.i0e, special.i1e)[order](np.float64(a))
        small = np.where(np.isinf(a), 0 if scaled else np.inf, shrunk)
        return small if scaled else small * np.exp(a)

    def reference(x: Any) -> Any:
        a = np.abs(np.asarray(x, np.longdouble))
        value = np.where(a < 30, near(np.where(a < 30, a, 0)), far(a))
        return np.where(np.signbit(x), -value, value) if order else value

    return reference


def scaled(combine: Callable[[Any, Any], Any]) -> Reference:
    def reference(x: Any, y: Any, alpha: Any = 1) -> Any:
        return combine(x, y if alpha == 1 else np.multiply(y, alpha))

    return reference


def divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    with np.errstate(all="ignore"):
        if rounding_mode is None:
            return np.true_divide(x, y)
        if rounding_mode == "floor":
            return np.floor_divide(x, y)
        whole = np.asarray(x).dtype.kind in "iu"
        return (x - np.fmod(x, y)) // y if whole else np.trunc(np.true_divide(x, y))


def exp2(x: Array) -> Any:
    two = np.asarray(2, np.float64 if x.dtype.kind in "biu" else x.dtype)
    return np.power(two, x)


def sign(x: Array) -> Any:
    """-1, 0 or 1: of a NaN too, as in torch."""
    return x if x.dtype == bool else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def sigmoid(x: Any) -> Any:
    x = np.asarray(x, np.result_type(x, np.float64) if np.asarray(x).dtype.kind in "biu" else None)
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    with np.errstate(over="ignore"):
        return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def logit(x: Array, eps: float | None = None) -> Any:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(
        x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta
    )


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def nan_to_num(x: Array) -> Any:
    # The finite limits are those of the dtype that was asked for, which `wide` hides; the samples
    # are finite, and special values are tested where the dtype is known.
    return x


def lerp(x: Any, end: Any, weight: Any) -> Any:
    return x + np.multiply(weight, end - x)


def product(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return np.prod(x, axis=reduce_axis(x, dim), keepdims=keepdim)


def reduce_axis(x: Array, dim: Any) -> Any:
    """`dim=0` of a 0-d tensor means its single element."""
    return None if dim is None or x.ndim == 0 else dim


def reduction(f: Callable[..., Any]) -> Reference:
    def reference(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return f(x, axis=reduce_axis(x, dim), keepdims=keepdim)

    return reference


def extreme(choose: Any, where: Any, pair: Any) -> Reference:
    """Max and min: of everything, along an axis with its index, or of two tensors."""

    def reference(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return pair(x, dim)
        if dim is None:
            return choose(x)
        axis = reduce_axis(x, dim)
        return choose(x, axis=axis, keepdims=keepdim), where(x, axis=axis, keepdims=keepdim)

    return reference


def variance(
    x: Array,
    dim: Any = None,
    unbiased: bool = True,
    *,
    correction: int | None = None,
    keepdim: bool = False,
) -> Any:
    ddof = int(unbiased) if correction is None else correction
    return np.var(x, axis=reduce_axis(x, dim), ddof=ddof, keepdims=keepdim)


def norm(x: Array, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    p, size = 2 if p == "fro" else p, np.abs(x)
    axis = reduce_axis(x, dim)
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdim)
    return np.sum(size**p, axis=axis, keepdims=keepdim) ** (np.longdouble(1) / p)


def logsumexp(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
    x = x.astype(np.float64) if x.dtype.kind in "biu" else x
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=reduce_axis(x, dim), keepdims=keepdim))


def running(f: Callable[..., Any]) -> Reference:
    return lambda x, dim: f(x, axis=dim) if x.ndim else x


def logical(f: Callable[..., Any]) -> Reference:
    return lambda *xs: f(*(np.asarray(x) != 0 for x in xs))


def float_power(x: Any, y: Any) -> Any:
    return np.power(np.asarray(x, np.float64), np.asarray(y, np.float64))


def sgn(x: Array) -> Any:
    return x / np.abs(x) if x.dtype.kind == "c" else sign(x)


def polygamma(n: int, x: Array) -> Any:
    return special.polygamma(n, np.asarray(x, np.float64))


def xlogy(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):  # 0 * log(y) is 0 but for a y that is NaN
        return np.where((np.asarray(x) == 0) & ~np.isnan(y), 0, np.multiply(x, np.log(y)))


def angle(x: Array) -> Any:
    """Of a real number: pi below zero, 0 at both zeros (torch's choice; NumPy has pi at -0)."""
    if x.dtype.kind == "c":
        return np.angle(x)
    pi = np.longdouble("3.14159265358979323846")
    return np.where(np.isnan(x), x, np.where(x < 0, pi, 0))


def sign_bit(x: Any) -> Any:
    x = np.asarray(x)
    return np.signbit(x) if x.dtype.kind == "f" else x < 0


def sinc(x: Array) -> Any:
    x = x.astype(np.float64) if x.dtype.kind in "biu" else x
    turned = np.where(x == 0, 1, x * np.longdouble("3.14159265358979323846"))
    return np.where(x == 0, 1, np.sin(turned) / turned)


REFERENCES: dict[str, Reference] = {
    "add": scaled(np.add), "sub": scaled(np.subtract), "mul": np.multiply, "div": divide,
    "true_divide": divide, "div_rounded": divide, "floor_divide": lambda x,
    y: divide(x, y, "floor"),
    "remainder": np.remainder, "fmod": np.fmod, "pow": np.power, "pow_integers": np.power,
    "neg": np.negative, "abs": np.abs, "sign": sign,
    "reciprocal": lambda x: np.true_divide(1, x), "square": np.square,
    "addcmul": lambda x, a, b, value=1: x + value * (a * b),
    "addcdiv": lambda x, a, b, value=1: x + value * (a / b), "lerp": lerp,
    "exp": np.exp, "expm1": np.expm1, "exp2": exp2,
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": sigmoid, "erf": scipy64(special.erf), "erfc": scipy64(special.erfc),
    "erfinv": scipy64(special.erfinv), "lgamma": scipy64(special.gammaln),
    "digamma": scipy64(special.digamma), "logit": logit, "softplus": softplus,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "xlogy": xlogy,
    "float_power": float_power, "sgn": sgn, "angle": angle, "sinc": sinc,
    "rsub": lambda x, y, alpha=1: y - np.multiply(x, alpha),
    "i0": bessel(0, False), "special_i0e": bessel(0, True), "special_i1": bessel(1, False),
    "special_i1e": bessel(1, True), "ldexp": lambda x, y: x * np.power(2.0, y),
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "polygamma": polygamma,
    "clamp_min": np.maximum, "clamp_max": np.minimum, "copysign": np.copysign,
    "heaviside": lambda x, y: np.where(x == 0, y, x > 0).astype(x.dtype),
    "nextafter": lambda x, y: np.nextafter(*(v.astype("f8" if v.dtype.itemsize > 8 else "f4")
                                             for v in (x, y))),
    "gcd": np.gcd, "lcm": np.lcm, "isposinf": lambda x: x == np.inf,
    "isneginf": lambda x: x == -np.inf, "signbit": sign_bit,
    "isreal": np.isreal, "isclose": lambda x, y: np.isclose(x, y),
    "conj_physical": np.conj, "complex": lambda x, y: x + 1j * y,
    "polar": lambda r, t: r * np.exp(1j * t),
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
    "atan2": np.arctan2, "hypot": np.hypot,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round,
    "round_decimals": np.round, "frac": lambda x: x - np.trunc(x), "clamp": clamp,
    "minimum": np.minimum, "maximum": np.maximum, "fmin": np.fmin, "fmax": np.fmax,
    "where": np.where,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "logical_and": logical(np.logical_and),
    "logical_or": logical(np.logical_or),
    "logical_xor": logical(np.logical_xor), "logical_not": logical(np.logical_not),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert, "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "nan_to_num": nan_to_num,
    "sum": reduction(np.sum), "mean": reduction(np.mean), "prod": product,
    "amax": reduction(np.max), "amin": reduction(np.min),
    "max": extreme(np.max, np.argmax, np.maximum), "min": extreme(np.min, np.argmin, np.minimum),
    "argmax": reduction(np.argmax), "argmin": reduction(np.argmin),
    "var": variance, "std": lambda *a, **k: np.sqrt(variance(*a, **k)), "norm": norm,
    "norm_zero": norm,
    "logsumexp": logsumexp, "cumsum": running(np.cumsum), "cumprod": running(np.cumprod),
    "all": reduction(np.all), "any": reduction(np.any),
    "count_nonzero": reduction(np.count_nonzero),
    **NETWORK,
    **ARRANGED,
    **ACTIVATED,
    **ORDERED,
    **PLACED,
    **STATISTICAL,
    **LINEAR,
}  # fmt: skip
