"""
A matrix product
================

Both gradients of a matrix product: g @ b.T and a.T @ g.
"""

import torch

torch.manual_seed(0)
a = torch.randn(2, 3, requires_grad=True)
b = torch.randn(3, 4, requires_grad=True)
c = torch.mm(a, b)
c.sum().backward()
print(c)
print(a.grad)
print(b.grad)
