"""Messages of what a batched tensor (vmap) or a dual one (forward mode) cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import func
from adjoint.autograd import forward_ad
from tests.errors.table import Row, check, refusals

x = ad.arange(6.0).view(2, 3)
mask = x > 2


def over(f: Any, *args: Any, **options: Any) -> Any:
    return func.vmap(f, **options)(*args)


def mapped_away(t: Any) -> Any:
    y = ad.ones(3)
    y.add_(t)
    return y


def into_own(t: Any) -> Any:
    t.add_(ad.ones(2, 3))
    return t


def random_aside(t: Any) -> Any:
    y = ad.ones(3)
    y.normal_()
    return t + y


def whole(t: Any) -> Any:
    t.add_(1.5)
    return t


def written_apart(k: Any) -> Any:
    t = ad.zeros(2, 3, 2)
    t[k, :, ad.tensor([0, 1])] = 1.0
    return t


def dual_out() -> None:
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, x)
        ad.add(d, d, out=ad.empty(2, 3))


@refusals(
    (lambda: over(lambda t: ad.tensor(t[0].item()), x), RuntimeError, "you're calling .item() on"),
    (lambda: over(lambda t: ad.tensor(float(t[0])), x), RuntimeError, "you're calling .item() on"),
    (lambda: over(lambda t: t if t[0] else -t, x), RuntimeError, "data-dependent control flow on"),
    (lambda: over(lambda t: ad.tensor(t.tolist()), x), RuntimeError, "you're calling .tolist() on"),
    (lambda: over(lambda t: memoryview(t) and t, x), RuntimeError, "reading the memory of"),
    (lambda: over(lambda t: ad.tensor(np.asarray(t)), x), RuntimeError, "vmap"),
    (lambda: over(lambda t: t[t > 2], x), RuntimeError, "vmap"),
    (
        lambda: over(lambda t, k: ad.arange(3.0)[k], x, mask),
        RuntimeError,
        "Use torch.where instead.",
    ),
    (lambda: over(lambda t, k: t[0][k], x, ad.tensor([0, 1])), IndexError, "0-dim tensor"),
    (
        lambda: over(written_apart, ad.tensor([0, 1])),
        RuntimeError,
        "writing to an index that holds a position that is vmapped over",
    ),
    (
        lambda: over(mapped_away, x),
        RuntimeError,
        "Please try to use out-of-place operators instead",
    ),
    (lambda: over(into_own, x.clone()), RuntimeError, "doesn't match the broadcast shape [2, 3]"),
    (lambda: over(whole, x.long()), RuntimeError, "can't be cast to the desired output type int64"),
    (
        lambda: over(lambda t: ad.add(t, t, out=ad.empty(3)), x),
        RuntimeError,
        "assign the result ins",
    ),
    (lambda: over(lambda t: t + ad.rand(3), x), RuntimeError, "randomness"),
    (
        lambda: over(random_aside, x, randomness="different"),
        RuntimeError,
        "Cannot ask for different inplace randomness on an unbatched tensor: all",
    ),
    (
        lambda: over(lambda t: ad.bernoulli(t / 9), x, randomness="same"),
        RuntimeError,
        "same randomness with a batched tensor input",
    ),
    (
        lambda: over(
            lambda t, w: ad.nn.functional.nll_loss(t, ad.zeros(1, 2).long(), weight=w),
            ad.ones(2, 1, 3, 2),
            ad.ones(2, 3),
        ),
        NotImplementedError,
        "vmap over class weights of more than two axes",
    ),
    (
        lambda: over(lambda t: ad.autograd.grad(t * 2, t)[0], ad.ones(2, 3, requires_grad=True)),
        RuntimeError,
        "only for scalar outputs: an output has shape [3]",
    ),
    (lambda: over(lambda t: ad.mm(t, t), x), RuntimeError, "Shape mismatch: mm expects"),
    (lambda: over(lambda t: ad.mm(t, t), ad.ones(2, 2, 3)), RuntimeError, "(2x3 and 2x3)"),
    (
        lambda: over(lambda t: t.t(), ad.ones(1, 2, 3, 4)),
        RuntimeError,
        "<= 2 dimensions, but self is 3D",
    ),
    (dual_out, NotImplementedError, "fix: assign the result instead"),
)
def test_batches_and_duals(row: Row) -> None:
    check(row)


@pytest.mark.filterwarnings("ignore:vmap. There is a performance drop:UserWarning")
@pytest.mark.parametrize(
    ("batch", "part"),
    [
        (ad.tensor([[1, 1], [1, 2]]), r"do not fit together: \[2\] and \[3\]"),
        (ad.ones(0, 2, dtype=ad.int64), "does not support vmap over dims of size 0"),
    ],
)
def test_samples_that_are_looped_over(batch: Any, part: str) -> None:
    with pytest.raises(RuntimeError, match=part):
        over(ad.bincount, batch)
