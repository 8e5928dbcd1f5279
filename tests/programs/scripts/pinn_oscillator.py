"""A network solves u'' + u = 0 from its residual."""

import torch
from torch import nn

torch.manual_seed(6)
torch.set_default_dtype(torch.float64)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
t = torch.linspace(0, 3, 40).reshape(-1, 1).requires_grad_()
optimizer = torch.optim.LBFGS(
    net.parameters(), lr=1.0, max_iter=20, history_size=20, line_search_fn="strong_wolfe"
)


def residual():
    u = net(t)
    du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    ddu = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)[0]
    start = (u[0] - 1) ** 2 + du[0] ** 2
    return ((ddu + u) ** 2).mean() + 10 * start.sum()


def closure():
    optimizer.zero_grad()
    loss = residual()
    loss.backward()
    return loss


first = optimizer.step(closure)
print(f"first {first.item():.4f}")
for _ in range(9):
    loss = optimizer.step(closure)
with torch.no_grad():
    error = (net(t) - torch.cos(t)).abs().max()
print("solved:", loss.item() < 1e-3, error.item() < 0.05)
