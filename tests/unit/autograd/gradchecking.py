"""Inputs, wrong gradients and messages for the tests of gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import gradcheck
from adjoint.autograd.gradcheck import GradcheckError

both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
Function = Callable[..., Any]


def leaf(*shape: int, dtype: Any = ad.float64, seed: int = 0) -> Any:
    """Values with magnitudes from ½ to 1½: away from every kink."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)
    if dtype.is_complex:
        values = values + 1j * rng.uniform(0.5, 1.5, shape)
    return ad.tensor(values, dtype=dtype, requires_grad=True)


def with_backward(func: Function, hook: Function) -> Function:
    """``func`` with another backward: what arrives at its output is replaced by ``hook`` of it."""

    def changed(*args: Any) -> Any:
        output = func(*args)
        output.register_hook(lambda g: None if g is None else hook(g))
        return output

    return changed


def failure(func: Function, inputs: Any, check: Function = gradcheck, **options: Any) -> str:
    """The message of a check that must fail, and must also say False when told not to raise."""
    with pytest.raises(GradcheckError) as caught:
        check(func, inputs, **options)
    assert isinstance(caught.value, RuntimeError)
    assert check(func, inputs, raise_exception=False, **options) is False
    return str(caught.value)


def cause(message: str) -> str:
    (line,) = [line for line in message.splitlines() if line.startswith("  likely cause")]
    return line.removeprefix("  likely cause").strip()
