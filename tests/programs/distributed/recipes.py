"""What data parallel scripts do around their steps, one after the other.

    torchrun --standalone --nproc_per_node=2 recipes.py
"""
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group(backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def log(*words):
    if rank == 0:
        print(*words, flush=True)


def mean(loss):
    total = loss.detach().clone()
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return f"{total.item() / world:.4f}"


def loader(count=96, batch=8):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(count, 12, generator=g)
    data = TensorDataset(x, (x @ torch.randn(12, 4, generator=g)).argmax(1))
    return DataLoader(data, batch_size=batch, sampler=DistributedSampler(data, shuffle=False))


def mlp():
    torch.manual_seed(rank)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))


def images():
    """Convolutions, a batch norm whose buffers follow rank 0, accuracy of all ranks."""
    g = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(64, 1, 10, 10, generator=g), torch.randint(0, 4, (64,), generator=g))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 4))
    model = DDP(net)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True, drop_last=True)
    batches = DataLoader(data, batch_size=16, sampler=sampler)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        log("images", epoch, mean(loss))
    model.eval()
    right = torch.zeros(2)
    with torch.no_grad():
        for x, y in batches:
            right += torch.tensor([(model(x).argmax(1) == y).sum().item(), len(y)])
    dist.reduce(right, dst=0)
    log("right", right.tolist() if rank == 0 else None)


def accumulate():
    """Three batches to a step, without exchanges between; clipped."""
    model = DDP(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for i, (x, y) in enumerate(loader()):
        is_last = (i + 1) % 3 == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss = F.cross_entropy(model(x), y) / 3
            loss.backward()
        if is_last:
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            log("accumulate", mean(loss), f"{norm.item():.4f}")


def mixed():
    """bfloat16 with a scaler."""
    model = DDP(mlp(), gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader(48):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        log("mixed", mean(loss)[:4])


class Deep(nn.Module):
    """Its activations are computed again for backward."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(12, 12) for _ in range(3)])
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        for layer in self.layers:
            x = checkpoint(lambda v, layer=layer: torch.tanh(layer(v)), x, use_reentrant=False)
        return x


def hooks_and_files():
    torch.manual_seed(0)
    model = DDP(Deep())
    model.register_comm_hook(state=None, hook=default_hooks.allreduce_hook)
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(torch.ones(2, 12) * (rank + 1)).sum()
    loss.backward()
    optimizer.step()
    config = [{"lr": 0.1, "path": os.path.join(tempfile.gettempdir(), f"recipes-{os.getpid()}.pt")}] if rank == 0 else [None]
    dist.broadcast_object_list(config, src=0, device=torch.device("cpu"))
    path = config[0]["path"]
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()
    state = torch.load(path, map_location={"cuda:0": "cpu"})
    dist.barrier()
    if rank == 0:
        os.remove(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    log("files", mean(loss), list(state["model"])[:2], model.module.calls.item())


def metrics():
    parts = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(parts, torch.tensor([rank * 1.5, rank + 1.0]))
    log("metrics", torch.stack(parts).tolist())
    everyone = [None] * world
    dist.all_gather_object(everyone, {"rank": rank, "t": (torch.ones(2) * rank).tolist()})
    log(everyone)
    mine = [None]
    dist.scatter_object_list(mine, [f"part {i}" for i in range(world)] if rank == 0 else None, src=0)
    log(mine, dist.get_process_group_ranks(dist.group.WORLD))
    received = torch.zeros(3)
    sends = [dist.P2POp(dist.isend, torch.ones(3) * rank, (rank + 1) % world), dist.P2POp(dist.irecv, received, (rank - 1) % world)]
    for request in dist.batch_isend_irecv(sends):
        request.wait()
    log(received.tolist())


for part in (images, accumulate, mixed, hooks_and_files, metrics):
    part()
    dist.barrier()
dist.destroy_process_group()
