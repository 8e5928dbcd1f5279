"""Special functions at drawn arguments beside torch: dtypes, shapes, refusals, NaN and infinities.

Values are compared loosely: torch has few digits of some. Ulps are counted against mpmath, in
tests/unit/tensor/test_special_errors.py. What torch has no kernel for may be here all the same.
"""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.opinfo import convert, to_numpy, torch

POLYNOMIALS = [n for n in dir(torch.special) if "polynomial" in n]
ONE = [
    *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf"),
    *("erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e"),
    *("log1p", "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0"),
    *("modified_bessel_k1", "ndtr", "ndtri", "psi", "scaled_modified_bessel_k0", "sinc"),
    *("scaled_modified_bessel_k1", "spherical_bessel_j0"),
]
TWO = ["gammainc", "gammaincc", "xlog1py", "xlogy", "zeta"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool]
DTYPES += [torch.uint8, torch.complex64]
SHAPES = [(), (3,), (2, 1), (0,), (2, 3)]
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.5, -2.25, 7.0, 1e-3, 30.0, 1e4]
POINTS += [float("nan"), float("inf"), -float("inf")]


def drawn(rng: random.Random, scalars: bool) -> Any:
    if scalars and rng.random() < 0.2:
        return rng.choice([0, 1, 2, 3, 0.5, 2.5, -1.5])
    dtype, shape = rng.choice(DTYPES), rng.choice(SHAPES)
    count = int(np.prod(shape))
    values = [rng.choice(POINTS) for _ in range(count)]
    if not dtype.is_floating_point and not dtype.is_complex:
        values = [rng.choice([0, 1, 2, 3, 5]) for _ in range(count)]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def result(function: Any, args: list[Any]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


def compare(name: str, args: list[Any]) -> None:
    theirs = result(getattr(torch.special, name), args)
    mine = result(getattr(ad.special, name), [convert(a) for a in args])
    label = f"{name}{tuple(args)}: {mine} where torch has {theirs}"
    if isinstance(theirs, Exception):
        assert isinstance(mine, type(theirs)) or "not implemented for" in str(theirs), label
        return
    assert not isinstance(mine, Exception), label
    assert (str(mine.dtype), tuple(mine.shape)) == (str(theirs.dtype), tuple(theirs.shape)), label
    loose = 2e-2 if theirs.dtype in (torch.bfloat16, torch.float16) else 1e-4
    got, want = to_numpy(mine), to_numpy(theirs)
    # torch's formulas give inf - inf and inf / inf at infinity, where there is an answer, and some
    # of its loops end at once at NaN.
    arrays = [to_numpy(torch.as_tensor(a)) for a in args]
    infinite, missing = (sum(f(a) for a in arrays) > 0 for f in (np.isinf, np.isnan))
    got = np.where(infinite & np.isnan(want), want, got)
    want = np.where(missing & np.isnan(got), got, want)
    np.testing.assert_allclose(got, want, loose, loose / 10, err_msg=label)


@pytest.mark.parametrize("name", [*ONE, *TWO, *POLYNOMIALS])
def test_drawn_calls_are_answered_as_torch_does(name: str) -> None:
    rng = random.Random(zlib.crc32(name.encode()))
    for _ in range(25):
        if name in ONE:
            compare(name, [drawn(rng, False)])
            continue
        args = [drawn(rng, True), drawn(rng, True)]
        if name in POLYNOMIALS and isinstance(args[1], torch.Tensor):
            args[1] = torch.randint(-1, 9, rng.choice(SHAPES))  # degrees
        compare(name, args)
