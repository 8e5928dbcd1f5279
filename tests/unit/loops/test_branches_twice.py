"""Gradients that are recorded, of loops whose steps branch: each step has gradients of its own."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import CompileWarning
from tests.unit.loops.plain_loop import plain

# What a branch reads that the other does not: a carry, a row of the inputs, a tensor from outside.
BRANCHES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "carry": lambda k, x: (
        lambda a, b: (a.sin(), b * 1),
        lambda a, b: (a * 0.1 + b.cos(), b * 1),
    ),
    "one carry each": lambda k, x: (
        lambda a, b: (a.sin(), b * 1),
        lambda a, b: (b.cos(), b * 1),
    ),
    "row": lambda k, x: (
        lambda a, b: (a.sin() * x[1], b),
        lambda a, b: (a.cos() * x[2], b),
    ),
    "from outside": lambda k, x: (
        lambda a, b: (a.sin(), b),
        lambda a, b: (a.cos() * k, b * k),
    ),
}


def gradients_of(reads: str, flags: tuple[float, ...], loop: Any, **kept: Any) -> list[Any]:
    """The first and second derivatives of the end of a loop, zero where there is none."""
    count = len(flags)
    a, b, k = (
        ad.tensor(v, dtype=ad.float64, requires_grad=True)
        for v in ([0.3, 0.4], [0.5, -0.2], [0.9, 1.1])
    )
    up, down = (
        ad.linspace(0.3, end, count, dtype=ad.float64).requires_grad_() for end in (0.9, -0.9)
    )
    leaves = [a, b, k, up, down]

    def step(carry: Any, x: Any) -> Any:
        carry = ad.cond(x[0] > 0, *BRANCHES[reads](k, x), carry)
        return carry, None

    rows = ad.tensor(flags, dtype=ad.float64), up, down
    xs = rows if loop is ad.scan else list(zip(*rows, strict=True))
    end, _ = loop(step, (a, b), xs, **kept)
    first = ad.autograd.grad((end[0] ** 2).sum(), leaves, create_graph=True, allow_unused=True)
    moved = [g.sin().sum() for g in first if g is not None and g.requires_grad]
    second = ad.autograd.grad(ad.stack(moved).sum(), leaves, allow_unused=True)
    return [
        ad.zeros_like(t) if g is None else g.detach()
        for t, g in zip(leaves * 2, (*first, *second), strict=True)
    ]


@pytest.mark.parametrize("kept", [{}, {"memory": "sqrt"}], ids=str)
@pytest.mark.parametrize("reads", BRANCHES)
def test_what_a_branch_does_not_read_has_its_gradient_by_other_steps(
    reads: str, kept: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for flags in itertools.product((1.0, -1.0), repeat=5):
            found = gradients_of(reads, flags, ad.scan, **kept)
            wanted = gradients_of(reads, flags, plain)
            assert all(ad.allclose(p, q) for p, q in zip(found, wanted, strict=True)), flags


def test_the_second_derivative_where_no_step_reads_the_variable() -> None:
    def end(k: Any, flag: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            return i + 1, ad.cond(flag > 0, lambda x: x.sin(), lambda x: x * k, (x,))

        first = ad.tensor(0), ad.ones(2, dtype=ad.float64)
        return ad.while_loop(lambda i, x: i < 4, body, first)[1].sum()

    twice = ad.func.jacrev(ad.func.jacrev(end))
    k = ad.tensor(0.5, dtype=ad.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        assert twice(k, ad.tensor(1.0)) == 0
        assert twice(k, ad.tensor(-1.0)) == 2 * 12 * 0.5**2


def test_hessians_of_samples_by_one_of_two_carries() -> None:
    def energy(a: Any, b: Any, loop: Any) -> Any:
        _, ys = loop(lambda c, _: ((c[0].sin(), c[1]), (c[0] * c[1]).sum()), (a, b), None, length=5)
        return (ys**2).sum()

    a, b = ad.rand(2, 4, 3, dtype=ad.float64, generator=ad.Generator().manual_seed(0))
    for by in (0, 1):
        found = ad.vmap(ad.func.hessian(lambda a, b: energy(a, b, ad.scan), by))(a, b)
        wanted = [
            ad.func.hessian(lambda a, b: energy(a, b, plain), by)(*pair)
            for pair in zip(a, b, strict=True)
        ]
        assert ad.allclose(found, ad.stack(wanted))
