"""Branches that differ between ranks: unused parameters, hooks, checkpoints, several outputs."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, first):
        return (self.a if first else self.b)(x)


class Outputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        again = checkpoint(self.layer, 2 * x, use_reentrant=False)
        return {"y": self.layer(x), "z": (again, 3)}


def filled(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) + i / 10)
    return module


def sums(module):
    return [None if p.grad is None else round(p.grad.sum().item(), 3) for p in module.parameters()]


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    model = DDP(filled(Net()), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.ones(2, 3) * (rank + 1), (step + rank) % 2 == 0).square().sum().backward()
        optimizer.step()
        if rank == 0:
            print(step, sums(model))

    model = DDP(filled(Net()))
    try:
        for _ in range(2):
            model(torch.ones(2, 3), True).sum().backward()
    except RuntimeError as error:
        if rank == 0:
            print(str(error)[:60])

    def doubled(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / size * 2)

    model = DDP(filled(Outputs()))
    model.register_comm_hook(None, doubled)
    found = model(torch.ones(1, 3) * (rank + 1))
    (found["y"].sum() + found["z"][0].square().sum()).backward()
    if rank == 0:
        print(sums(model), found["z"][1])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
