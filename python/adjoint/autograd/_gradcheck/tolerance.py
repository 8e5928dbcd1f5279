"""The step of the differences and the error that may remain, fitted to the dtype.

Note [Step and tolerance]. A central difference with step h is wrong by about h²·f‴/6 (truncation)
plus u·|f|/h (rounding), u being the spacing of numbers near 1. The best step is near u^⅓, and
leaves an error of about u^⅔ times the size of f. PyTorch's defaults (step 1e-6, 1e-5 absolute, 1e-3
relative) suit float64. For a coarser dtype, what the caller leaves out becomes

- eps: u^⅓ to the nearest power of two (so that x ± eps is exact), times the power of two at or
  above |x| for entries larger than 1;
- atol: 8·u^⅔ times max(1, |f| / max(1, |x|)), with the largest value of the output for |f|: what
  rounding of the output makes of that step;
- rtol: 1e-3 or 8·u^⅔, whichever is larger.

u belongs to the coarsest dtype among the checked inputs and outputs. What the caller gives is used
as given, for every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._tensor.typeinfo import finfo
from adjoint.autograd.gradcheck import _Default

from .problem import Vector


@dataclass(frozen=True)
class Tolerance:
    """Step and bounds as used; ``dtype`` is the coarsest one, with spacing ``unit``."""

    eps: float
    atol: float
    rtol: float
    dtype: Any
    unit: float
    step_follows_size: bool
    atol_follows_size: bool
    rtol_left_out: bool

    def steps(self, at: Vector) -> Vector:
        """The step of each coordinate."""
        if not self.step_follows_size:
            return np.full(at.shape, self.eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.exp2(np.ceil(np.log2(np.abs(at))))
        return self.eps * np.where(np.isfinite(powers), np.maximum(1.0, powers), 1.0)

    def absolute(self, output: Vector, at: Vector) -> Vector:
        """The absolute bound for derivatives of such an output by each entry of an input."""
        if not self.atol_follows_size:
            return np.full(at.shape, self.atol)
        size = _largest(output) / np.maximum(1.0, np.abs(np.nan_to_num(at)))
        return self.atol * np.maximum(1.0, size)

    def projected(self, output: Vector, expected: float) -> float:
        """The bound for vᵀJu, whose steps grow with the input: |x| is divided out already.

        Sharper than for an entry, where the caller leaves it to us: a wrong entry is one term of a
        large sum. A false alarm only costs time, since entries are compared then.
        """
        relative = self.rtol
        if self.rtol_left_out:
            relative = min(relative, 1e4 * (self.unit / self.eps + self.eps**2))
        size = max(1.0, _largest(output)) if self.atol_follows_size else 1.0
        return self.atol * size + relative * abs(expected)


def _largest(values: Vector) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def fit(eps: float, atol: float, rtol: float, dtypes: Iterable[Any]) -> Tolerance:
    """Replace what the caller left out by what suits the coarsest of ``dtypes``."""
    floating = [d for d in dtypes if d.is_floating_point or d.is_complex]
    dtype = max(floating or [_core.float64], key=lambda d: finfo(d).eps)
    unit = float(finfo(dtype).eps)
    coarse = unit > finfo(_core.float64).eps
    no_eps, no_atol, no_rtol = (isinstance(given, _Default) for given in (eps, atol, rtol))
    if coarse and no_eps:
        eps = 2.0 ** round(math.log2(unit) / 3)
    if coarse and no_atol:
        atol = 8 * unit ** (2 / 3)
    if coarse and no_rtol:
        rtol = max(1e-3, 8 * unit ** (2 / 3))
    return Tolerance(
        eps=float(eps),
        atol=float(atol),
        rtol=float(rtol),
        dtype=dtype,
        unit=unit,
        step_follows_size=coarse and no_eps,
        atol_follows_size=coarse and no_atol,
        rtol_left_out=no_rtol,
    )
