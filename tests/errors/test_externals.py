"""Messages of external functions: results of another form, bounds without room, libraries."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

import adjoint as ad
from tests.errors.table import Row, check, refusals

ExternalError = ad.external.ExternalError


def leaf(*values: float, dtype: Any = ad.float64) -> Any:
    return ad.tensor(list(values), dtype=dtype, requires_grad=True)


def slope(function: Any, x: Any = None, **options: Any) -> Any:
    y = ad.external(function, **options)(leaf(1.0, 2.0) if x is None else x)
    return y.abs().sum().backward()


def two_if_complex(a: Any) -> Any:
    return (a, a) if np.iscomplexobj(a) else a


def longer_if_complex(a: Any) -> Any:
    return np.concatenate([a, a]) if np.iscomplexobj(a) else a


def c_function(name: str, types: list[str], **options: Any) -> Any:
    return ad.ctypes_function(ctypes.CDLL(None), name, types, **options)


def directional(low: float, high: float) -> None:
    f = ad.external(lambda a: a**2, bounds=(low, high))
    with ad.autograd.forward_ad.dual_level():
        f(ad.autograd.forward_ad.make_dual(leaf(1.0).detach(), ad.ones(1).double()))


@refusals(
    (
        lambda: slope(two_if_complex, derivative="complex-step"),
        ExternalError,
        "of another form for",
    ),
    (
        lambda: slope(longer_if_complex, derivative="complex-step"),
        ExternalError,
        "of shape [4] for a complex input, of shape [2] for a real one",
    ),
    (
        lambda: slope(np.conj, leaf(1.0, dtype=ad.complex128), elementwise=True),
        TypeError,
        "elementwise=True is for real numbers",
    ),
    (
        lambda: slope(np.square, leaf(1.0), derivative="spsa", bounds=(1, 2)),
        ValueError,
        "steps to both sides, but",
    ),
    (
        lambda: slope(np.conj, leaf(1.0, dtype=ad.complex128), jacobian=lambda a: a),
        TypeError,
        "is used for real inputs and outputs; give vjp= for complex",
    ),
    (lambda: slope(lambda a: np.array(["a"])), TypeError, "returned an array of dtype"),
    (lambda: directional(1, 1), ValueError, "leave no room"),
    (
        lambda: ad.func.hessian(
            ad.external(lambda a: a**2, vjp=lambda g, a: 2 * a * g, bounds=(1, 1))
        )(leaf(1.0)[0].detach()),
        ValueError,
        "the bounds of the function leave no room to step along the direction",
    ),
    (lambda: ad.external(np.sin).jacobian(1.0), TypeError, "by tensors, and none was given"),
    (lambda: ad.scipy_callback(3, leaf(1.0)), TypeError, "needs a function, got int"),  # type: ignore[arg-type]
    (
        lambda: ad.scipy_callback(lambda a: (a**2).sum(), leaf(1.0)).hessp(np.ones(1)),
        TypeError,
        "is given a point and a vector; got 1 arguments",
    ),
    (lambda: c_function("abs", ["int x"])(1j), TypeError, "but a complex value was given"),
    (
        lambda: c_function("memcpy", ["out double[n] y", "double[n] x", "double[n] z"])(
            [1.0], [1, 2]
        ),
        ValueError,
        "z has 2 along n, which is 1 elsewhere",
    ),
    (
        lambda: c_function("memcpy", ["out double[] y", "double[n] x", "int n"])([1.0]),
        ValueError,
        "the output y needs a shape, as in double[n]",
    ),
    (
        lambda: c_function("memcpy", ["out double[m] y", "double[n] x", "int n"])([1.0]),
        ValueError,
        "no input tells the size m",
    ),
    (
        lambda: c_function("abs", ["complex x"])(1j),
        TypeError,
        "pass the complex number x by address",
    ),
)
def test_externals(row: Row) -> None:
    check(row)
