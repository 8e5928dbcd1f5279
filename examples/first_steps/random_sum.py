"""
Random numbers and a sum
========================

Random numbers are those of PyTorch's generator; the gradient of a sum is all ones.
"""

import torch

torch.manual_seed(0)
x = torch.randn(3, 4, requires_grad=True)
x.sum().backward()
print(x)
print(x.grad)
