"""Activation checkpoints give the same gradients."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.2)) for _ in range(4))
x = torch.randn(4, 8, requires_grad=True)
found = []
for way in ("plain", "checkpoint", "reentrant"):
    torch.manual_seed(1)
    h = x
    for block in blocks:
        h = block(h) if way == "plain" else checkpoint(block, h, use_reentrant=way == "reentrant")
    blocks.zero_grad()
    x.grad = None
    h.pow(2).sum().backward()
    found.append((x.grad.clone(), [p.grad.clone() for p in blocks.parameters()]))
    print(way, f"{x.grad.norm().item():.5f}")
print(all(torch.equal(found[0][0], f[0]) for f in found))
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
out = checkpoint_sequential(model, 2, x, use_reentrant=False)
print(torch.equal(out, model(x)))
