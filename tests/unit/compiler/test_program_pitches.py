"""Slices of matrices have gaps between their rows, and loops run through them: nobody can tell.

Random functions of slices, their Jacobians and Hessians, and slices of matrices themselves.
Everything is compared to the last bit.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad

from .test_program_fusion import check, names, uniform


def function_of_slices(rng: random.Random) -> Any:
    """Draw a function of a vector, or of the last axis of a matrix, to a number."""
    gap = rng.choice([1, 1, 2, 3])
    choices = [rng.randrange(6) for _ in range(5)]

    def f(x: ad.Tensor) -> ad.Tensor:
        n = x.size(-1) - gap
        a, b = x.narrow(-1, gap, n), x.narrow(-1, 0, n)
        for k in choices:
            a, b = b, [a * b, a - b**2, (a + 1) * 0.5, a.sin() * b, -a, a / (b * b + 1)][k]
        total = (a * b + a).sum()
        return total + (x * x).sum() if choices[0] % 2 else total

    return f


@pytest.mark.parametrize("seed", range(40))
def test_derivatives_of_functions_of_slices(seed: int) -> None:
    rng = random.Random(seed)
    f, n = function_of_slices(rng), rng.choice([5, 18, 20, 33, 64, 90])
    dtype = rng.choice([ad.float32, ad.float32, ad.float64])
    kind = rng.randrange(4)

    def derivative(x: ad.Tensor) -> list[ad.Tensor]:
        if kind == 0:
            return [ad.func.vmap(ad.func.grad(f))(x.expand(7, -1) * 2)]
        if kind == 1:
            return [ad.func.jacfwd(ad.func.grad(f))(x)]
        return [ad.func.hessian(f)(x), ad.func.grad(f)(x)]

    check(derivative, lambda s: [uniform(s, n, dtype=dtype)], runs=1)


@pytest.mark.parametrize("seed", range(30))
def test_slices_of_matrices(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(20, 30), (3, 40), (4, 5, 33), (30, 1, 21), (2, 17), (100, 100)])
    start, stop = rng.randrange(3), rng.randrange(1, 4)

    def f(x: ad.Tensor) -> list[ad.Tensor]:
        part = x[..., start:-stop]
        row, column = part[..., :1, :] * 2, part[..., :1] - 1
        y = part * 2 + row
        z = (y - column).abs() + x[0, start:-stop] if x.dim() == 2 else y * column
        w = z.exp() * part
        whole = ad.nn.functional.pad(w, [start, stop]) * x + ad.nn.functional.pad(y, [stop, start])
        kinds = [[whole], [whole, w.sum(0)], [whole, w], [whole, z[..., 1:].sum()], [whole, w.T]]
        return rng.choice(kinds[: 5 if x.dim() == 2 else 4])

    def f_again(x: ad.Tensor) -> list[ad.Tensor]:
        rng.seed(seed)
        return f(x)

    check(f_again, lambda s: [uniform(s, *shape)], runs=2)


def test_a_hessian_of_slices_is_one_instruction() -> None:
    def rosenbrock(x: ad.Tensor) -> ad.Tensor:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    program = check(ad.func.hessian(rosenbrock), lambda s: [uniform(s, 100)])
    assert names(program).count("fused") == 1
