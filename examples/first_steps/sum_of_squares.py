"""
A sum of squares
================

The gradient of the sum of squares is 2 x.
"""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.sum(x**2)
y.backward()
print(y)
print(x.grad)
