"""Fewer exchanges: parameters averaged now and then, gradients in half precision or in one row.

    torchrun --standalone --nproc_per_node=2 averaging.py
"""
import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook as post_local
import torch.distributed.algorithms.model_averaging.averagers as averagers
import torch.nn as nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def run(name, model, optimizer, after=lambda: None):
    torch.manual_seed(rank)
    losses = []
    for _ in range(7):
        x = torch.randn(8, 12)
        optimizer.zero_grad()
        loss = (model(x) - x[:, :1]).square().mean()
        loss.backward()
        after()
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss)
        losses.append(f"{loss.item() / world:.3f}")
    own = [None] * world
    dist.all_gather_object(own, f"{sum(p.detach().double().sum().item() for p in model.parameters()):.3f}")
    if rank == 0:
        print(name, *losses, own)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))


model = net()
averager = averagers.PeriodicModelAverager(period=3, warmup_steps=2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
run("local", model, PostLocalSGDOptimizer(sgd, averager))
if rank == 0:
    print("steps", averager.step, sorted(PostLocalSGDOptimizer(sgd, averager).state_dict()))

for local in (True, False):
    model = DDP(net(), bucket_cap_mb=0.0001)
    alone = dist.new_subgroups(group_size=1)[0]
    model.register_comm_hook(post_local.PostLocalSGDState(None, alone, 3, local), post_local.post_localSGD_hook)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    run(f"post-local {local}", model, PostLocalSGDOptimizer(sgd, averagers.PeriodicModelAverager(2, 3)))

model = DDP(net())
model.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
run("float16", model, torch.optim.SGD(model.parameters(), lr=0.1))

model = net()


def mean_of_rows():
    grads = [p.grad for p in model.parameters()]
    row = _flatten_dense_tensors(grads)
    dist.all_reduce(row)
    for grad, mean in zip(grads, _unflatten_dense_tensors(row.div_(world), grads)):
        grad.copy_(mean)


run("row", model, torch.optim.SGD(model.parameters(), lr=0.1), mean_of_rows)
for bad in ({"period": 0}, {"period": 2, "warmup_steps": -1}):
    try:
        averagers.PeriodicModelAverager(**bad)
    except ValueError:
        print("refused", flush=True) if rank == 0 else None
dist.destroy_process_group()
