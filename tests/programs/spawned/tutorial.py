"""Train with DDP in processes of mp.spawn.

python tutorial.py
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "12355")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_checkpoint(rank, world_size, how):
    setup(rank, world_size)
    torch.manual_seed(rank)
    ddp_model = DDP(ToyModel())
    path = os.path.join(tempfile.gettempdir(), f"model-{os.environ['MASTER_PORT']}.checkpoint")
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    dist.barrier()
    ddp_model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        loss = loss_fn(outputs, torch.randn(20, 5))
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.reduce(total, dst=0)
        if rank == 0:
            print(f"loss {total.item() / world_size:.4f}", flush=True)
    dist.barrier()
    if rank == 0:
        os.remove(path)
    if rank == 1 and how == "raise":
        raise ValueError("rank 1 has bad data")
    if how:
        dist.barrier()
    cleanup()


def run_demo(demo_fn, world_size, how):
    mp.spawn(demo_fn, args=(world_size, how), nprocs=world_size, join=True)


if __name__ == "__main__":
    run_demo(demo_checkpoint, 2, "".join(sys.argv[1:]))
