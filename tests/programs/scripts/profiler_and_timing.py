"""Profiles of a few steps."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
x = torch.randn(8, 16)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    with record_function("forward"):
        loss = model(x).sum()
    loss.backward()
names = {event.key for event in prof.key_averages()}
print("forward" in names, any("linear" in n or "addmm" in n for n in names))
table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
print("Name" in table, "CPU" in table)
