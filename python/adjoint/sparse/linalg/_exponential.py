"""``expm_multiply``: the exponential of a matrix times vectors, by products alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import largest_value
from adjoint._tensor.creation import as_tensor

from ._operator import aslinearoperator, matrix_of

__all__ = ["expm_multiply"]

_LONGEST = 100_000  # substeps


def expm_multiply(
    A: Any,
    B: Any,
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
) -> Tensor:
    """``exp(A) B`` for a vector or columns ``B``, without the exponential itself; differentiable.

    The exponential is taken in as many substeps as the 1-norm of ``A`` says, each by its Taylor
    series to rounding. These are ordinary operations, so derivatives of every order are there.
    ``A`` is a matrix of any kind. With ``start``, ``stop``, ``num`` and ``endpoint``, those of
    ``numpy.linspace``, the result has a first axis of times: ``exp(t A) B``.

    Examples
    --------
    >>> import adjoint as ad
    >>> A = ad.sparse.diags_array(ad.tensor([0.0, 1.0], dtype=ad.float64))
    >>> ad.sparse.linalg.expm_multiply(A, ad.ones(2, dtype=ad.float64))
    tensor([1.0000, 2.7183], dtype=torch.float64)
    """
    B = as_tensor(B)
    if any(given is not None for given in (start, stop, num, endpoint)):
        return _at_times(A, B, start, stop, num, endpoint)
    matrix = matrix_of(A)
    if matrix is not None:
        sums = matrix.values.detach().abs()
        norm = largest_value(sums.new_zeros(matrix.shape[1]).index_add(0, matrix.col, sums))
    elif isinstance(A, Tensor) and A.ndim == 2:
        norm = largest_value(A.detach().abs().sum(0))
    else:
        raise TypeError(f"expm_multiply(): expected a matrix, got {type(A).__name__}")
    if not norm < _LONGEST:
        raise ValueError(
            f"expm_multiply(): the 1-norm of the matrix is {norm:.3g}, which would take as many "
            "substeps.\n  fix: scale time, or use integrate.solve_ivp with a stiff method"
        )
    operator = aslinearoperator(A if matrix is None else matrix)
    dtype = ad.promote_types(B.dtype, operator.dtype)
    made: Tensor = B.to(dtype)
    eps = ad.finfo(dtype).eps
    parts = max(1, math.ceil(norm))
    terms = next(k for k in range(1, 60) if (norm / parts) ** k / math.factorial(k) < eps / 4)
    for _ in range(parts):
        term = made
        for k in range(1, terms + 1):
            term = operator.dot(term) / (parts * k)
            made = made + term
    return made


def _at_times(
    A: Any,
    B: Tensor,
    start: float | None,
    stop: float | None,
    num: int | None,
    endpoint: bool | None,
) -> Tensor:
    """From each time to the next one."""
    if start is None or stop is None:
        raise TypeError("expm_multiply(): times need start= and stop=")
    count = 50 if num is None else num
    times, step = np.linspace(start, stop, count, endpoint is not False, retstep=True)
    if not count:
        return B.new_zeros((0, *B.shape))
    matrix: Any = matrix_of(A)
    matrix = as_tensor(A) if matrix is None else matrix
    states = [expm_multiply(matrix * float(times[0]), B)]
    for _ in times[1:]:
        states.append(expm_multiply(matrix * float(step), states[-1]))
    return ad.stack(states)
