"""
Two leaves
==========

Two leaves in one sum: each gets its own gradient.
"""

import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
c = a + b
c.sum().backward()
print(c)
print(a.grad)
print(b.grad)
