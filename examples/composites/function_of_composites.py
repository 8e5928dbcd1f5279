"""
A custom function of composites
===============================

A function with its own derivative, from a composite to a composite.
"""

from dataclasses import dataclass

import adjoint as ad


@dataclass
class Cartesian:
    x: ad.Tensor
    y: ad.Tensor


@dataclass
class Polar:
    radius: ad.Tensor
    angle: ad.Tensor


class ToPolar(ad.autograd.Function):
    @staticmethod
    def forward(ctx, point):
        polar = Polar(ad.hypot(point.x, point.y), ad.atan2(point.y, point.x))
        ctx.save_for_backward(point.x, point.y, polar.radius)
        return polar

    @staticmethod
    def backward(ctx, grad):  # a Polar comes in, a Cartesian goes out
        x, y, radius = ctx.saved_tensors
        along, across = grad.radius / radius, grad.angle / radius**2
        return Cartesian(x * along - y * across, y * along + x * across)


point = ad.requires_grad(Cartesian(ad.tensor([3.0, 0.0]), ad.tensor([4.0, 2.0])))
polar = ToPolar.apply(point)
print(polar.radius.detach(), polar.angle.detach())

loss = (polar.radius**2).sum() / 2 + polar.angle.sum()
print(ad.autograd.grad(loss, point))

double = ad.requires_grad(ad.to(ad.detach(point), ad.float64))
print("derivative is right:", ad.autograd.gradcheck(ToPolar.apply, (double,)))
