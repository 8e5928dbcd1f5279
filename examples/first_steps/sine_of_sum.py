"""
The sine of a sum
=================

The chain rule: the gradient of sin(sum(x²)) is 2 x cos(sum(x²)).
"""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.sin(torch.sum(x**2))
y.backward()
print(y)
print(x.grad)
print(2 * x.detach() * torch.cos(torch.sum(x.detach() ** 2)))
