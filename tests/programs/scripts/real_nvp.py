"""A normalising flow of coupling layers."""

import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        shift, scale = self.net(a).chunk(2, dim=1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        out = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return out, scale.sum(dim=1)


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(k % 2 == 1) for k in range(depth))

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return total - 0.5 * (x**2).sum(1) - math.log(2 * math.pi)


torch.manual_seed(8)
base = torch.randn(400, 2)
x = torch.stack([base[:, 0], 0.5 * base[:, 0] ** 2 + 0.3 * base[:, 1]], 1)
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
for step in range(81):
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.2f}")
