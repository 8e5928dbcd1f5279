"""How large an error may be."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import largest_of

__all__ = ["Tolerance"]


class Tolerance(NamedTuple):
    """SciPy's: the error allowed is ``atol + rtol * |y|``, in the root mean square."""

    rtol: float
    atol: Any

    def scale(self, y: Tensor, new: Tensor) -> Tensor:
        """What is allowed, by element."""
        allowed: Tensor = self.atol + self.rtol * ad.maximum(y.abs(), new.abs())
        return allowed

    def norm(self, error: Tensor, y: Tensor, new: Tensor) -> Tensor:
        """Of an error, relative to what is allowed; the largest of all samples."""
        return largest_of(((error / self.scale(y, new)) ** 2).mean().sqrt())

    def newton(self, dtype: ad.dtype) -> float:
        """How exactly the equations of a step are solved, relative to what is allowed."""
        digits = 10 * float(ad.finfo(dtype).eps) / self.rtol
        return max(digits, min(0.03, math.sqrt(self.rtol)))
