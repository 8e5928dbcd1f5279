"""The largest singular value of a weight by power iteration, one step for each forward.

`PowerIteration` holds the estimates of the singular vectors as its module keeps them; both the
parametrization `parametrizations.spectral_norm` and the old `spectral_norm` use these functions.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with ``dim`` as its rows and all other axes as its columns."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.size(0), -1)


def improve(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> None:
    """Better estimates of the first singular vectors, in place, u first."""
    with ad.no_grad():
        for _ in range(times):
            u.copy_(F.normalize(ad.mv(matrix, v), dim=0, eps=eps))
            v.copy_(F.normalize(ad.mv(matrix.H, u), dim=0, eps=eps))


def check_iterations(times: int) -> None:
    """Raise unless there is at least one step of the iteration."""
    if times <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={times}"
        )
