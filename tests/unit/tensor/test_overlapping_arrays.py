"""Two tensors on one array from outside share memory, though each has a storage of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Write = Callable[[Any, Any, Any], object]

# Each reads what it overwrites in part: as in NumPy, everything is read before anything is written.
WRITES: list[tuple[Write, Write]] = [
    (lambda x, y, lib: x.add_(y), lambda x, y, lib: x.__iadd__(y)),
    (lambda x, y, lib: y.mul_(x), lambda x, y, lib: y.__imul__(x)),
    (lambda x, y, lib: x.copy_(y), lambda x, y, lib: np.copyto(x, y)),
    (lambda x, y, lib: lib.sub(y, x, out=x), lambda x, y, lib: np.subtract(y, x, out=x)),
    (lambda x, y, lib: x[1:].add_(y[:-1]), lambda x, y, lib: x[1:].__iadd__(y[:-1])),
    (lambda x, y, lib: x.__setitem__(slice(None, None, 2), y[::2]),
     lambda x, y, lib: x.__setitem__(slice(None, None, 2), y[::2])),
]  # fmt: skip


def parts(shift: int, count: int = 1000) -> tuple[Any, Any, Any]:
    """An array, and two parts of it that overlap."""
    whole = np.arange(float(count + shift))
    return whole, whole[shift:], whole[:count]


@pytest.mark.parametrize("shift", [1, 7, 500])
@pytest.mark.parametrize("write", WRITES)
def test_what_overlaps_is_read_before_it_is_written(write: tuple[Write, Write], shift: int) -> None:
    whole, *arrays = parts(shift)
    write[0](*map(ad.from_numpy, arrays), ad)
    expected, *arrays = parts(shift)
    write[1](*arrays, np)
    np.testing.assert_array_equal(whole, expected)


def around(x: Any, y: Any) -> Any:
    """Results that depend on the order in which `x` and `y` are changed and read."""
    before = y + 1
    x.mul_(2)
    middle = y * 3
    y.add_(x)
    return before + middle, x - y, y * 1


@pytest.mark.parametrize("count", [3, 1000])
def test_compiled_functions_see_what_overlaps(count: int) -> None:
    compiled = ad.compile(around)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shift in (1, 1, 2, 5000, 5000, 1):
            want = [whole := parts(shift, count), *around(*map(ad.from_numpy, whole[1:]))]
            got = [whole := parts(shift, count), *compiled(*map(ad.from_numpy, whole[1:]))]
            np.testing.assert_array_equal(got[0][0], want[0][0])
            for a, b in zip(got[1:], want[1:], strict=True):
                assert ad.equal(a, b)


def test_an_array_that_joins_two_others_is_not_taken_for_one_of_them() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        first = y + 0
        z.add_(1)
        return first + y, x * 1

    compiled = ad.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in (0, 0, 5, 5, 0, 30, 30, 5):
            results = []
            for form in (f, compiled):
                whole = np.arange(40.0)
                x, y, z = whole[:8], whole[10:18], whole[start : start + 8]
                results.append([*form(*map(ad.from_numpy, (x, y, z))), ad.from_numpy(whole)])
            for a, b in zip(*results, strict=True):
                assert ad.equal(a, b), start
