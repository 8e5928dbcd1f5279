"""Overlapping windows changed in place: of elements at one place the last one counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

WINDOWS = [((4, 3), (1, 1), 0), ((2, 2), (1, 2), 1), ((3, 2), (2, 1), 0), ((3, 2, 2), (1, 1, 2), 1)]
W = ad.tensor(np.random.default_rng(0).standard_normal(12))


def factors(shape: tuple[int, ...]) -> Any:
    return W[: int(np.prod(shape))].reshape(shape)


# The change in place, and the same as a function.
CHANGES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add_": (lambda y, w: y.add_(w), lambda y, w: y + w),
    "mul_": (lambda y, w: y.mul_(w), lambda y, w: y * w),
    "sin_": (lambda y, w: y.sin_(), lambda y, w: y.sin()),
    "copy_": (lambda y, w: y.copy_(w), lambda y, w: w + y * 0),
    "fill_": (lambda y, w: y.fill_(2.0), lambda y, w: y * 0 + 2),
    "addcmul_": (lambda y, w: y.addcmul_(w, w), lambda y, w: y + w * w),
}


def changed_in_place(x: Any, w: Any, window: Any, change: str) -> Any:
    base = x * 1
    CHANGES[change][0](base.as_strided(*window), w)
    return base


def changed_as_function(x: Any, w: Any, window: Any, change: str) -> Any:
    """Each place of the base is the last of the elements that lie there."""
    shape, strides, start = window
    places = start + sum(np.indices(shape)[i] * step for i, step in enumerate(strides))
    last = {int(place): k for k, place in enumerate(places.ravel())}
    news = CHANGES[change][1](x[ad.tensor(places)], w).reshape(-1)
    return ad.stack([news[last[p]] if p in last else x[p] for p in range(len(x))])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("change", CHANGES)
def test_gradients_are_those_of_the_last_element_of_each_place(change: str, window: Any) -> None:
    found = []
    for f in (changed_in_place, changed_as_function):
        x = ad.arange(1.0, 8.0, dtype=ad.float64).requires_grad_()
        w = factors(window[0]).clone().requires_grad_()
        y = f(x, w, window, change)
        loss = (y * y * ad.arange(7.0)).sum()
        grads = ad.autograd.grad(loss, [x, w], create_graph=True, materialize_grads=True)
        again = ad.autograd.grad(sum((g * g).sum() for g in grads), [x, w], materialize_grads=True)
        found.append([y, *grads, *again])
    for got, want in zip(*found, strict=True):
        assert ad.allclose(got, want, rtol=1e-12, atol=1e-12)


def test_ops_that_write_some_places_are_refused_by_backward() -> None:
    x = ad.arange(6.0).requires_grad_()
    y = (x * 1).unfold(0, 3, 1)
    y.index_fill_(0, ad.tensor([0]), 5.0)
    with pytest.raises(RuntimeError, match="more than one element of src goes to one place"):
        y.sum().backward()
