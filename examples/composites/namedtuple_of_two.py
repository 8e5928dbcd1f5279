"""
A named tuple of two tensors
============================

A named tuple of two tensors is differentiated as one thing; the gradient is such a tuple.
"""

from typing import NamedTuple

import adjoint as ad


class Pair(NamedTuple):
    x: ad.Tensor
    y: ad.Tensor


pair = ad.requires_grad(Pair(ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0])))
loss = (pair.x * pair.y**2).sum()

gradient = ad.autograd.grad(loss, pair)
print(type(gradient).__name__)
print("x", gradient.x)  # y²
print("y", gradient.y)  # 2xy
