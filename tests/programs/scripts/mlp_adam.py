"""A two-layer network learns a spiral."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
n = 120
angle = torch.linspace(0, 3 * math.pi, n)
radius = torch.linspace(0.1, 1, n)
arms = [
    torch.stack(
        [radius * torch.cos(angle + k * math.pi), radius * torch.sin(angle + k * math.pi)], 1
    )
    for k in range(2)
]
x = torch.cat(arms) + 0.02 * torch.randn(2 * n, 2)
y = torch.cat([torch.zeros(n, dtype=torch.long), torch.ones(n, dtype=torch.long)])

model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(150):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if epoch % 50 == 0:
        print(f"epoch {epoch:3d} loss {loss.item():.3f}")
with torch.no_grad():
    print("loss", round(F.cross_entropy(model(x), y).item(), 2))
print(sum(p.numel() for p in model.parameters()), "parameters")
print(model)
