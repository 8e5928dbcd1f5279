"""Debugging: gradient checks, NaN hunting, anomaly mode, hooks that stop, memory and versions."""

import warnings

import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

warnings.simplefilter("ignore")
torch.manual_seed(0)


def inspect(module, grad_input, grad_output):
    for g in grad_output:
        if g is not None and not torch.isfinite(g).all():
            raise FloatingPointError(type(module).__name__)


net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
for m in net:
    m.register_full_backward_hook(inspect)
x = torch.randn(3, 2)
net(x).sum().backward()
try:
    (net(x) / 0).sum().backward()
except FloatingPointError as error:
    print("stopped at", error)
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
c = b * b
b += 1
try:
    c.sum().backward()
except RuntimeError as error:
    print("in place" in str(error) or "inplace" in str(error), b._version)
try:
    a += 1
except RuntimeError as error:
    print("leaf" in str(error))
loss = (a**2).sum()
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print("second time" in str(error))
a.grad = None
print(
    gradcheck(
        lambda t: (t.sin() * t).sum(), (torch.randn(3, dtype=torch.double, requires_grad=True),)
    )
)
print(
    gradgradcheck(
        torch.nn.functional.softplus, (torch.randn(3, dtype=torch.double, requires_grad=True),)
    )
)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t**2

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t


try:
    gradcheck(Wrong.apply, (torch.randn(2, dtype=torch.double, requires_grad=True),))
except RuntimeError as error:
    print("Jacobian mismatch" in str(error))
t = torch.tensor([float("nan"), 1.0, float("inf")])
print(
    t.isnan().any(),
    t.isinf().sum(),
    t.nanmean(),
    torch.nan_to_num(t, posinf=9.0),
    t.nansum(),
    t.isfinite(),
)
w = torch.randn(2, 2, requires_grad=True)
y = w.exp()
y.retain_grad()
y.sum().backward()
print(
    y.grad,
    w.grad.equal(y.detach()),
    y.is_leaf,
    y.grad_fn.name(),
    y.grad_fn.next_functions[0][0].variable is w,
)
with torch.no_grad():
    z = w * 2
print(z.requires_grad, torch.is_grad_enabled(), w.detach().requires_grad, w.data.requires_grad)
u = w.clone().detach().requires_grad_(True)
v, s = u.unbind(0), u.sum()
print(
    torch.autograd.grad(s, u, retain_graph=True)[0],
    torch.autograd.grad(v[0].prod(), u, allow_unused=True)[0],
)
print(torch.autograd.grad([s * 2, v[1].sum()], [u], grad_outputs=[torch.tensor(1.0), None])[0])
hook = u.register_hook(lambda g: g * 10)
(u * 3).sum().backward()
hook.remove()
print(u.grad)
torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
try:
    torch.testing.assert_close(torch.ones(3), torch.tensor([1.0, 2.0, 1.0]))
except AssertionError as error:
    print(str(error).splitlines()[0], "1 / 3" in str(error))
