"""Factors, solutions, eigenvalues and singular values, of many small matrices and of large ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Setup, Workload

Function = Callable[..., Any]


def positive(shape: tuple[int, ...], seed: int) -> Any:
    """Symmetric matrices, far from singular and with eigenvalues apart."""
    a = np.random.default_rng(seed).standard_normal(shape)
    n = shape[-1]
    return a @ a.swapaxes(-1, -2) / n + np.diag(np.arange(1.0, n + 1))


def gradients(shape: tuple[int, ...], function: Function, sides: int = 0) -> Setup:
    """The gradients of the sum of squares of what a function of matrices (and sides) gives."""

    def setup(lib: Any) -> Callable[[], Any]:
        arrays = [positive(shape, 0)]
        if sides:
            arrays.append(np.random.default_rng(1).standard_normal((*shape[:-1], sides)))
        given = [lib.from_numpy(a).requires_grad_() for a in arrays]

        def work() -> Any:
            for t in given:
                t.grad = None
            y = function(lib, *given)
            (y * y).sum().backward()
            return y, *(t.grad for t in given)

        return work

    return setup


def cholesky(lib: Any, a: Any) -> Any:
    return lib.linalg.cholesky(a)


def solve(lib: Any, a: Any, b: Any) -> Any:
    return lib.linalg.solve(a, b)


def eigh(lib: Any, a: Any) -> Any:
    w, v = lib.linalg.eigh(a)
    return (v * w.unsqueeze(-2).log()) @ v.mT


def svd(lib: Any, a: Any) -> Any:
    u, s, vh = lib.linalg.svd(a, full_matrices=False)
    return (u * s.unsqueeze(-2).sqrt()) @ vh


def determinant(lib: Any, a: Any) -> Any:
    return lib.linalg.det(a / 4)


def inverse(lib: Any, a: Any) -> Any:
    return lib.linalg.inv(a)


def logarithm(lib: Any, a: Any) -> Any:
    return lib.linalg.slogdet(a)[1]


MANY = (1000, 8, 8)
SMALL, LARGE = Mark(speedup=2.0), Mark(speedup=1.0)
WORKLOADS = [
    Workload("cholesky, 1,000 of 8x8, gradient", gradients(MANY, cholesky), SMALL),
    Workload("solve, 1,000 of 8x8, gradients", gradients(MANY, solve, 1), SMALL),
    Workload("eigh, 1,000 of 8x8, gradient", gradients(MANY, eigh), SMALL),
    Workload("det, 1,000 of 8x8, gradient", gradients(MANY, determinant), SMALL),
    Workload("inv, 1,000 of 8x8, gradient", gradients(MANY, inverse), SMALL),
    Workload("slogdet, 1,000 of 8x8, gradient", gradients(MANY, logarithm), SMALL),
    *(
        Workload(f"solve, {n}x{n}, gradients", gradients((n, n), solve, 1), LARGE)
        for n in (64, 512)
    ),
    *(Workload(f"svd, {n}x{n}, gradient", gradients((n, n), svd), LARGE) for n in (64, 512)),
]
