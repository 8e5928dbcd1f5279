"""Derivatives that are computed beside their function, and kept in place of its argument."""

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core

N = 20_000  # large: smaller programs are blocks
NUMBERS = [0.0, -0.0, 1e-10, -1e-10, 9.0, -9.0, 12.5, -12.5, 14.5, -14.5, 38.0, -38.0, 1e-38]
SPECIAL = [*NUMBERS, np.inf, -np.inf, np.nan]


def values(dtype: str) -> ad.Tensor:
    """Usual numbers, large and small ones, special ones."""
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.uniform(-38, 38, 2_000) * rng.choice([-1, 1], 2_000)
    found = np.concatenate([rng.standard_normal(N - 2_000), spread])
    found[5::97] = np.resize(SPECIAL, len(found[5::97]))
    return ad.from_numpy(found.reshape(4, -1).astype(dtype))


def step(function, x, later):
    """A value and a gradient, with an op between them that no loop goes through."""
    x = x.detach().requires_grad_()
    h = x * 1.0
    y = function(h)
    total = y.cumsum(1)
    total.backward(total.detach().flip(1))
    return y.detach(), x.grad, *([h.detach()] if later else [])


def stage(program, name):
    return next(code for found, code in program.stages() if found == name)


def compiled_step(function, x, later=False):
    before = _core._keep_stages(True)
    try:
        f = ad.compile(lambda x: step(function, x, later), fullgraph=True)
        f(x)
    finally:
        _core._keep_stages(before)
    return f


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [ad.nn.functional.gelu, ad.sin])
def test_bits_are_those_of_eager_execution(function, dtype) -> None:
    x = values(dtype)
    f = compiled_step(function, x)
    code = [row[0] for row in stage(f.programs[0].program, "slopes")]
    assert code.index("cumsum") > code.index(function.__name__) + 1  # the slope stands between
    for found, expected in zip(f(x), step(function, x, False), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        same = np.signbit(found.numpy()) == np.signbit(expected.numpy())
        assert np.all(same | np.isnan(expected.numpy()))


@pytest.mark.parametrize("later", [False, True])
def test_an_argument_that_is_read_later_is_kept_alone(later) -> None:
    """Programs must not keep more than the function itself does."""
    f = compiled_step(ad.nn.functional.gelu, values("float32"), later)
    program = f.programs[0].program
    grown = len(stage(program, "slopes")) - len(stage(program, "keep"))
    assert grown == (0 if later else 1)


def test_narrow_floats_are_rounded_as_before() -> None:
    x = values("float32").bfloat16()
    f = compiled_step(ad.nn.functional.gelu, x)
    for found, expected in zip(f(x), step(ad.nn.functional.gelu, x, False), strict=True):
        np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())
