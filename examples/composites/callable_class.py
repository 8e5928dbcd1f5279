"""
An object as a function and as a variable
=========================================

An object that is called like a function, and differentiated like a tensor.
"""

import adjoint as ad


@ad.composite
class Gaussian:
    def __init__(self, mean, width):
        self.mean = ad.tensor(mean)
        self.width = ad.tensor(width)
        self.label = "a bump"  # no tensor: carried along

    def __call__(self, x):
        return ad.exp(-(((x - self.mean) / self.width) ** 2) / 2)


ad.manual_seed(0)
x = ad.linspace(-4, 4, 81)
target = Gaussian(1.0, 0.7)(x)

bump = ad.requires_grad(Gaussian(0.0, 2.0))
print(bump)
for _ in range(500):
    loss = ((bump(x) - target) ** 2).mean()
    slope = ad.autograd.grad(loss, bump)  # a Gaussian, too
    with ad.no_grad():
        bump = ad.map(lambda p, g: p - 2.0 * g, bump, slope)
    ad.requires_grad(bump)
print(f"mean {bump.mean.item():.3f}, width {bump.width.item():.3f}, still {bump.label}")
