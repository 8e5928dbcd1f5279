"""Newton's method with Hessians, Jacobians and products with them."""

import torch
from torch.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

torch.set_default_dtype(torch.float64)


def f(x):
    return torch.log(torch.exp(x).sum()) + 0.5 * (x**2).sum() + 0.1 * x[0] * x[1]


x = torch.tensor([1.0, -2.0, 0.5])
for k in range(6):
    g = jacobian(f, x)
    x = x - torch.linalg.solve(hessian(f, x), g)
    print(k, f"{g.norm().item():.3e}" if k < 3 else g.norm().item() < 1e-3)
print([round(v, 5) for v in x.tolist()])
v = torch.tensor([1.0, 0.0, -1.0])
print(
    [round(t, 5) for t in hvp(f, x, v)[1].tolist()], [round(t, 5) for t in vhp(f, x, v)[1].tolist()]
)
g = lambda a, b: (a * b.sin(), a.exp().sum())
print(vjp(g, (x, v), (torch.ones(3), torch.tensor(1.0)))[1][0].numpy().round(4))
print(jvp(g, (x, v), (v, x))[1][1].item().__round__(5))
print(torch.func.hessian(f)(x).diagonal().numpy().round(4))
