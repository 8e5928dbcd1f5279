"""A function that may read the memory of its arguments is not called with another dtype."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import math
import types
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.external._raw_memory import may_read_memory

libm = ctypes.CDLL(ctypes.util.find_library("m"))


def sent(x: Any) -> Any:
    return libm.frexpf(x.ctypes.data_as(ctypes.c_void_p), x.size)


class Model:
    def __init__(self, inside: Any = None) -> None:
        self.a, self.inside, self.library = 2.0, inside or sent, libm

    def plain(self, x: Any) -> Any:
        return self.a * np.sin(x)

    def other(self, x: Any) -> Any:
        return self.inside(x)

    def __call__(self, x: Any) -> Any:
        return self.plain(x)


class Slots:
    __slots__ = ("inside",)

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __call__(self, x: Any) -> Any:
        return self.inside(x)


class Compiled:  # as Numba's: one for each dtype of the function behind it
    def __init__(self, function: Any) -> None:
        self.py_func = function

    def __call__(self, x: Any) -> Any:
        return self.py_func(x)


@functools.wraps(sent)
def wrapper(x: Any) -> Any:
    return np.sin(x)


model, module = Model(), types.ModuleType("written")
module.__dict__.update(sine=np.sin, sent=sent)
table = {"sine": np.sin, "sent": sent}

READ: list[Any] = [
    np.sin,
    math.sin,
    np.linalg.solve,
    lambda v: np.exp(-v) * np.cumsum(v),
    lambda v: v.astype(np.float32).sum(),
    model,
    model.plain,
    lambda v: model.plain(v),
    lambda v: module.sine(v),  # type: ignore[attr-defined]
    Compiled(np.sin),
    Slots(np.sin),
    functools.partial(np.add, 1.0),
    np.vectorize(lambda v: math.sin(v)),
    ad.external(np.sin),
    ad.ctypes_function(libm, "cosh", ["double x"], restype="double"),
]
NOT_READ: list[Any] = [
    sent,
    lambda v: sent(v),
    model.other,
    lambda v: model.other(v),
    lambda v: module.sent(v),  # type: ignore[attr-defined]
    lambda v: table["sent"](v),
    lambda v: Model().other(v),
    lambda v, inside=sent: inside(v),
    lambda v: np.ndarray(v.shape, np.float32, buffer=v),
    lambda v: libm.cosf(v),
    libm.cosf,
    wrapper,
    Compiled(sent),
    Slots(sent),
    functools.partial(sent),
    np.vectorize(sent, signature="(n)->()"),
    ad.external(sent),
]


@pytest.mark.parametrize("k", range(len(READ)))
def test_functions_of_numbers_are_seen_through(k: int) -> None:
    assert not may_read_memory(READ[k])


@pytest.mark.parametrize("k", range(len(NOT_READ)))
def test_functions_that_may_hand_on_memory_are_not_trusted(k: int) -> None:
    assert may_read_memory(NOT_READ[k])


def by_bytes(v: Any) -> Any:
    """As C does that is told how many bytes there are, and would write beyond its result."""
    floats = np.frombuffer(v.tobytes(), np.float32)
    assert floats.size == v.size, "twice as many"
    return np.float64(1) + (floats**2).sum()


def as_words(v: Any) -> Any:
    return float(1 + (v.view(np.float32)[: v.size] ** 2).sum())


@pytest.mark.parametrize("function", [by_bytes, as_words])
def test_memory_is_never_handed_over_in_another_dtype(function: Any) -> None:
    dtypes = set()

    def f(v: Any) -> Any:
        dtypes.add(v.dtype)
        return function(v)

    x = ad.tensor(np.linspace(0.5, 2, 5).astype(np.float32))
    found = ad.func.hessian(ad.external(f))(x).numpy()
    np.testing.assert_allclose(found, 2 * np.eye(5), atol=2e-2)
    assert dtypes == {np.dtype(np.float32)}
