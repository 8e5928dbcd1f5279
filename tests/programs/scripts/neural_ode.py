"""A vector field learned through a Runge-Kutta integrator."""

import torch
from torch import nn

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
A = torch.tensor([[-0.1, 1.0], [-1.0, -0.1]])


def rk4(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def solve(f, y, steps=12, h=0.2):
    out = [y]
    for _ in range(steps):
        out.append(rk4(f, out[-1], h))
    return torch.stack(out)


y0 = torch.tensor([[1.0, 0.0], [0.0, 1.5], [-1.0, -1.0]])
truth = solve(lambda y: y @ A.T, y0)
optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
for step in range(41):
    loss = (solve(field, y0) - truth).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.3f}")
