"""Several quantiles at once, with a pinball loss and monotone outputs."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.rand(300, 1) * 4
y = torch.sin(x) + (0.1 + 0.2 * x) * torch.randn_like(x)
levels = torch.tensor([0.1, 0.5, 0.9])
net = nn.Sequential(nn.Linear(1, 32), nn.SELU(), nn.Linear(32, 3))


def quantiles(x):
    raw = net(x)
    return torch.cat(
        [raw[:, :1], raw[:, :1] + torch.cumsum(nn.functional.softplus(raw[:, 1:]), 1)], 1
    )


optimizer = torch.optim.RAdam(net.parameters(), lr=1e-2)
for step in range(81):
    error = y - quantiles(x)
    loss = torch.maximum(levels * error, (levels - 1) * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.3f}")
with torch.no_grad():
    q = quantiles(x)
    print(
        "ordered:", bool((q[:, 1:] >= q[:, :-1]).all()), torch.quantile(y, 0.5).item().__round__(3)
    )
