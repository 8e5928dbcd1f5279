"""Micro-batches add up to a batch."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 6), torch.randn(64, 1)
one = nn.Sequential(nn.Linear(6, 12), nn.ELU(), nn.Linear(12, 1))
many = copy.deepcopy(one)
for model, parts in ((one, 1), (many, 8)):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        for a, b in zip(x.chunk(parts), y.chunk(parts)):
            loss = nn.functional.mse_loss(model(a), b) / parts
            loss.backward()
        optimizer.step()
    print(parts, f"{nn.functional.mse_loss(model(x), y).item():.5f}")
print(all(torch.allclose(p, q, atol=1e-6) for p, q in zip(one.parameters(), many.parameters())))
