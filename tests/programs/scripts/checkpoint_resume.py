"""Stop, save, load, go on: the same numbers as without a stop."""

import os
import tempfile

import torch
from torch import nn


def fresh():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, steps, data):
    for k in steps:
        x = data[k]
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


data = torch.randn(20, 16, 4, generator=torch.Generator().manual_seed(3))
model, optimizer, scheduler = fresh()
whole = train(model, optimizer, scheduler, range(20), data)
model, optimizer, scheduler = fresh()
train(model, optimizer, scheduler, range(10), data)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "state.pt")
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "step": 10,
        },
        path,
    )
    state = torch.load(path, weights_only=True)
other, optimizer, scheduler = fresh()
print(other.load_state_dict(state["model"]))
optimizer.load_state_dict(state["optimizer"])
scheduler.load_state_dict(state["scheduler"])
halves = train(other, optimizer, scheduler, range(state["step"], 20), data)
print(f"{whole:.4f} {halves:.4f}", whole == halves, optimizer.param_groups[0]["lr"])
print(sorted(optimizer.state_dict()), list(state["model"])[:3])
