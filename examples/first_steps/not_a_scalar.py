"""
A result that is not a scalar
=============================

backward() starts from a scalar, or from a gradient that is given.
"""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
try:
    y.backward()
except RuntimeError:
    print("RuntimeError, and there is no gradient:", x.grad)

y.backward(torch.ones(3))
print(x.grad)
