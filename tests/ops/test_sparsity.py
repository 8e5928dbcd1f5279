"""Detected sparsity of every op and sample: it has every entry of the Jacobian, and of the Hessian.

That it has no more than needed is tested in tests/unit/func/test_func_sparse.py; here it must never
have less, whatever kind an op is taken to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.test_derivatives import CONVENTION, DIFFERENTIABLE, Problem, problems

pytest.importorskip("scipy.sparse")


def inputs_of(problem: Problem) -> list[Any]:
    return [ad.from_numpy(np.array(x)) for x in problem.inputs]


def function_of(problem: Problem) -> Callable[..., tuple[Any, ...]]:
    return lambda *xs: tuple(y for y in problem.call(list(xs)) if not y.is_complex())


def has_every_entry(f: Callable[..., tuple[Any, ...]], xs: list[Any], what: str) -> None:
    """Compare the pattern with the entries, computed row by row."""
    inputs = [x.clone().requires_grad_() for x in xs]
    rows = []
    for y in f(*inputs):
        for element in y.reshape(-1):
            grads = (
                ad.autograd.grad(element, inputs, retain_graph=True, materialize_grads=True)
                if element.requires_grad
                else [ad.zeros_like(x) for x in xs]
            )
            rows.append(np.concatenate([g.detach().reshape(-1).numpy() for g in grads]))
    found = np.array(rows).reshape(len(rows), sum(x.numel() for x in xs))
    pattern = ad.func.sparsity(f, tuple(range(len(xs))))(*xs).toarray()
    assert pattern.shape == found.shape
    missing = np.argwhere((found != 0) & ~pattern)
    assert not len(missing), f"{what}: {missing[:5]}"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_detected_patterns_have_every_entry(name: str) -> None:
    for label, problem in problems(name, "float64")[::2]:  # the others are the same, strided
        f, xs = function_of(problem), inputs_of(problem)
        if problem.size() and f(*xs):
            has_every_entry(f, xs, f"{name}, {label}")


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in CONVENTION])
def test_detected_patterns_have_every_second_derivative(name: str) -> None:
    for label, problem in problems(name, "float64")[::2]:
        f, xs = function_of(problem), inputs_of(problem)
        if not problem.size() or not f(*xs):
            continue

        def weighed(*xs: Any, f: Any = f) -> Any:
            return sum(((y * y).sum() for y in f(*xs)), ad.zeros((), dtype=ad.float64))

        gradient = ad.func.grad(weighed, tuple(range(len(xs))))
        has_every_entry(gradient, xs, f"{name}, {label}")
