"""
A leaf refuses to be changed
============================

A leaf that requires grad refuses to be changed in place, and is unchanged afterwards.
"""

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
try:
    x.add_(1)
except RuntimeError:
    print("RuntimeError, and x is still")
    print(x)

# With recording switched off it may be changed: this is how an optimizer does it.
with torch.no_grad():
    x.add_(1)
print(x)
