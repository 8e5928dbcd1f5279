"""Arguments of a custom function that are a hidden tensor in another shape.

Backward gave them a gradient, so nothing is lost; what is computed from the tensor does not count.
Read test_function_hidden.py first.
"""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function


class Joined(Function):
    """Reads `run`'s tensors from a closure, and is given a tensor that they went into."""

    @staticmethod
    def forward(ctx, run, joined, x):
        return run(x)

    @staticmethod
    def backward(ctx, grad):
        return None, None, grad


REARRANGED = {
    "alias": lambda w: w[...],
    "cat": lambda w: ad.cat([w.reshape(-1), ad.ones(2)]),
    "clone": lambda w: w.clone(),
    "contiguous": lambda w: w.mT.contiguous(),
    "flatten": lambda w: w.flatten(),
    "flip": lambda w: w.flip(0),
    "movedim": lambda w: w.movedim(0, 1),
    "permute": lambda w: w.permute(1, 0),
    "reshape": lambda w: w.reshape(4),
    "reshape of a copy": lambda w: w.t().reshape(4),
    "roll": lambda w: w.roll(1),
    "squeeze": lambda w: w.unsqueeze(0).squeeze(),
    "squeeze.dim": lambda w: w.unsqueeze(0).squeeze(0),
    "squeeze.dims": lambda w: w.unsqueeze(0).squeeze((0, 1)),
    "stack": lambda w: ad.stack([w, w]),
    "t": lambda w: w.t(),
    "view": lambda w: w.view(4),
}


@pytest.mark.parametrize("arrange", REARRANGED.values(), ids=REARRANGED)
def test_the_same_elements_in_another_shape_are_an_argument(arrange):
    w, x = ad.ones(2, 2, requires_grad=True), ad.ones(2, 2, requires_grad=True)
    Joined.apply(lambda t: t * w, arrange(w), x).sum().backward()
    assert w.grad is None
    assert x.grad is not None


COMPUTED = {
    "linear of batches": lambda w: nn.functional.linear(ad.ones(3, 2, 2), w),
    "linear of batches, with a bias": lambda w: nn.functional.linear(ad.ones(3, 2, 2), w, w[0]),
    "linear of a vector": lambda w: nn.functional.linear(ad.ones(2), w),
    "matmul of batches": lambda w: ad.ones(3, 2, 2) @ w,
    "mul": lambda w: w * 2,
    "part": lambda w: w[0],
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_what_is_computed_from_a_hidden_tensor_does_not_stand_for_it(compute):
    w, x = ad.ones(2, 2, requires_grad=True), ad.ones(2, 2, requires_grad=True)
    y = Joined.apply(lambda t: t * w, compute(w), x)
    with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
        y.sum().backward()
