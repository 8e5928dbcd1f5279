"""Functions with backwards written by hand, checked by differences."""

import torch
from torch.autograd import Function, gradcheck, gradgradcheck


class Clip(Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.limits = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        low, high = ctx.limits
        return g * ((x >= low) & (x <= high)), None, None


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class StraightThrough(Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g


x = torch.tensor([-2.0, -0.3, 0.4, 3.0], dtype=torch.double, requires_grad=True)
Clip.apply(x, -1.0, 1.0).sum().backward()
print(x.grad)
print(gradcheck(Cube.apply, (x,)), gradgradcheck(Cube.apply, (x,)))
x.grad = None
(StraightThrough.apply(x) * torch.arange(4.0)).sum().backward()
print(x.grad.tolist())
y = Cube.apply(x).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
print(torch.autograd.grad(g.sum(), x)[0].tolist(), type(y.grad_fn).__name__)
