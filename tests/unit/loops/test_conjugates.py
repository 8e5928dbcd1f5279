"""Loops and compiled functions whose tensors have conjugate or negative bits, or make such tensors.

A value is given in each form that memory can hold it in; the plain Python loop, or the function
itself, says what is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

FORMS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "plain": lambda x: x.clone(),
    "conj": lambda x: x.conj_physical().conj(),
    "neg": lambda x: x.neg()._neg_view(),
    "both": lambda x: x.neg().conj_physical().conj()._neg_view(),
    "mH": lambda x: x.mH.clone().mH,
}
PAIRS = list(itertools.product(FORMS, FORMS))[::3]  # each form in both places


def made(*shape: int, seed: int = 0) -> ad.Tensor:
    rng = np.random.default_rng(seed)
    values: Any = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return ad.tensor(values, dtype=ad.complex128)


def leaf(x: ad.Tensor, form: str) -> ad.Tensor:
    return FORMS[form](x).detach().requires_grad_()


def assert_same(got: Any, want: Any) -> None:
    if not isinstance(want, ad.Tensor):
        assert got == want
        return
    a, b = (np.array(t.tolist()) for t in (got, want))
    np.testing.assert_allclose(a, b, 1e-11, 1e-12)


def gradients(results: tuple[Any, ...], leaves: tuple[ad.Tensor, ...]) -> list[ad.Tensor]:
    """Of a number that depends on every element of the results in a way of its own."""
    total = ad.tensor(0.0, dtype=ad.float64)
    for t in results:
        if isinstance(t, ad.Tensor) and t.requires_grad:
            weights = ad.arange(1.0, 1.0 + t.numel(), dtype=ad.float64).reshape(t.shape)
            total = total + (t.abs() ** 2 * weights).sum()
    found = ad.autograd.grad(total, leaves, allow_unused=True)
    return [ad.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def changes_a_conjugate(h: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    k = h * 0.5
    k.conj().add_(x)
    k.conj().imag.mul_(2.0)
    return k.conj(), k.conj().imag


STEPS: list[Callable[[ad.Tensor, ad.Tensor], tuple[ad.Tensor, ad.Tensor]]] = [
    lambda h, x: ((h * 0.5 + x).conj(), h.imag),
    lambda h, x: (h.mH @ h * 0.1 + x, h.mH),
    lambda h, x: ((h * 0.5)._neg_view(), x.conj()),
    lambda h, x: (h, h.conj().imag * x.conj()),
    changes_a_conjugate,
]


def plain(step: Any, h: ad.Tensor, xs: ad.Tensor, reverse: bool) -> tuple[ad.Tensor, ad.Tensor]:
    ys = []
    for x in xs.flip(0) if reverse else xs:
        h, y = step(h, x)
        ys.append(y)
    return h, ad.stack(ys[::-1] if reverse else ys)


@pytest.mark.parametrize("step", STEPS, ids=range(len(STEPS)))
@pytest.mark.parametrize("options", [{}, {"snapshots": 2}, {"memory": "sqrt"}], ids=str)
def test_scans_are_the_plain_loop(step: Any, options: dict[str, Any]) -> None:
    h0, xs0 = made(2, 2), made(4, 2, 2, seed=1)
    for k, (form, other) in enumerate(PAIRS):
        found = []
        for loop in (ad.scan, None):
            leaves = leaf(h0, form), leaf(xs0, other)
            if loop:
                results = loop(step, *leaves, reverse=k % 2 == 0, **options)
            else:
                results = plain(step, *leaves, k % 2 == 0)
            found.append((*results, *gradients(results, leaves)))
        for got, want in zip(*found, strict=True):
            assert_same(got, want)


def test_while_loops_are_the_plain_loop() -> None:
    def go_on(i: ad.Tensor, h: ad.Tensor) -> ad.Tensor:
        return i < 5

    def body(i: ad.Tensor, h: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return i + 1, (h * 0.9).conj() + h.conj().imag

    for form in FORMS:
        found = []
        for native in (True, False):
            x = leaf(made(2, 2), form)
            i, h = ad.tensor(0), x.conj()
            if native:
                i, h = ad.while_loop(go_on, body, (i, h))
            else:
                while go_on(i, h):
                    i, h = body(i, h)
            found.append((h, *gradients((h,), (x,))))
        for got, want in zip(*found, strict=True):
            assert_same(got, want)


def products(x: ad.Tensor, y: ad.Tensor) -> Any:
    held = ad.linalg.solve(x @ x.mH + 3 * ad.eye(2), y)
    return x.mH @ y, ad.einsum("ij,kj->ik", x, y.conj()), held, (x.conj() * y).sum()


def changes(x: ad.Tensor, y: ad.Tensor) -> Any:
    z = x * 2
    z.conj().mul_(y)
    return z.conj(), z.imag * 2, z.conj().imag + 1, ad.cat([z, y.conj()])


def results_with_bits(x: ad.Tensor, y: ad.Tensor) -> Any:
    return (y * 2).conj(), x.clone(), x.is_conj(), y.is_neg(), (x.conj() + 1).imag.exp()._neg_view()


@pytest.mark.parametrize("function", [products, changes, results_with_bits])
def test_compiled_functions_know_the_forms_of_their_arguments(function: Any) -> None:
    compiled = ad.compile(function)
    for k, (form, other) in enumerate(PAIRS * 2):
        found = []
        for f in (compiled, function):
            leaves = leaf(made(2, 2, seed=k), form), leaf(made(2, 2, seed=99 - k), other)
            results = f(*leaves)
            bits = [t.is_conj() + 2 * t.is_neg() for t in results if isinstance(t, ad.Tensor)]
            found.append((*bits, *results, *gradients(results, leaves)))
        for got, want in zip(*found, strict=True):
            assert_same(got, want)
