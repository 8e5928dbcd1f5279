"""ZeRO, uneven data, a communication hook, mixed precision, EMA and early stopping."""
import copy
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="gloo")
rank, world = dist.get_rank(), int(os.environ["WORLD_SIZE"])
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.inp = nn.Linear(10, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(depth))
        self.out = nn.Linear(width, 2)
        self.spare = nn.Linear(width, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x, drop=None):
        self.calls += 1
        x = self.inp(x)
        for i, block in enumerate(self.blocks):
            if i != drop:
                x = x + block(x)
        return {"logits": self.out(x)}


model = DistributedDataParallel(Net(), find_unused_parameters=True, gradient_as_bucket_view=True)
model.register_comm_hook(state=None, hook=hooks.allreduce_hook)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=5e-3)
ema = copy.deepcopy(model.module)
g = torch.Generator().manual_seed(10 + rank)
batches = [(torch.randn(16, 10, generator=g), torch.randint(0, 2, (16,), generator=g)) for _ in range(5)]
best, patience = float("inf"), 0
for epoch in range(4):
    running = torch.zeros(2)
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            loss = F.cross_entropy(model(x, drop=(epoch + i) % 3)["logits"], y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.module.parameters()):
                e.lerp_(p, 0.1)
        running += torch.stack([loss.detach(), torch.ones(())])
    dist.all_reduce(running)
    mean = (running[0] / running[1]).item()
    stop = torch.tensor([mean > best - 1e-3])
    best = min(best, mean)
    dist.broadcast(stop, src=0)
    if rank == 0:
        print(f"epoch {epoch}: loss {mean:.4f}, stop {bool(stop)}, calls {int(model.module.calls)}")
print_grad = model.module.spare.weight.grad
optimizer.consolidate_state_dict(to=0)
if rank == 0:
    state = optimizer.state_dict()
    print(f"{len(state['state'])} states, spare has a gradient: {print_grad is not None}")
    print(f"ema {sum(p.abs().sum() for p in ema.parameters()).item():.3f}")

uneven = DistributedDataParallel(nn.Linear(3, 1))
sgd = torch.optim.SGD(uneven.parameters(), lr=0.1)
with uneven.join():
    for step in range(2 + rank):
        sgd.zero_grad()
        uneven(torch.ones(4, 3) * (step + 1)).mean().backward()
        sgd.step()
if rank == 0:
    for name, rows in (("uneven", uneven.module.weight.detach()), ("grad", uneven.module.weight.grad)):
        print(f"{name}:", " ".join(f"{v:.4f}" for v in rows.flatten().tolist()))
dist.destroy_process_group()
