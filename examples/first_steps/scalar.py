"""
A scalar
========

The derivative of 2 x² + 1 at x = 2 is 8.
"""

import torch

x = torch.tensor(2.0, requires_grad=True)
z = 2 * x**2 + 1
z.backward()
print(z)
print(x.grad)
