"""
Two results and a Jacobian
==========================

A function with two results, whose Jacobian is given.
"""

import numpy as np

import adjoint as ad


def roots(b, c):
    """Both real solutions of x**2 + b x + c = 0, without cancellation."""
    far = -0.5 * (b + np.copysign(np.sqrt(b * b - 4 * c), b))
    return far, c / far


def roots_jacobian(b, c):
    """A row of blocks per root: dx/db = -x / (2 x + b) and dx/dc = -1 / (2 x + b)."""
    return [[-x / (2 * x + b), -1 / (2 * x + b)] for x in roots(b, c)]


solve = ad.external(roots, jacobian=roots_jacobian)

b = ad.tensor(-5.0, dtype=ad.float64, requires_grad=True)
c = ad.tensor(6.0, dtype=ad.float64, requires_grad=True)
large, small = solve(b, c)
print("roots", large.item(), small.item())
print(solve.cost(b, c))

ours = ad.autograd.grad(large * ad.sin(small), (b, c))

# The same in adjoint alone.
spread = (b * b - 4 * c).sqrt()
high, low = (spread - b) / 2, (-spread - b) / 2
exact = ad.autograd.grad(high * ad.sin(low), (b, c))
print("gradient", [g.item() for g in ours])
print(
    "gradient is right:",
    all(ad.allclose(x, y, rtol=1e-12) for x, y in zip(ours, exact, strict=True)),
)
