"""Distributed SGD written by hand: partitions, averaged gradients, metrics from all ranks."""
import os
from random import Random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Partition:
    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        return self.data[self.index[i]]


class DataPartitioner:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, []
        indexes = list(range(len(data)))
        Random(seed).shuffle(indexes)
        for frac in sizes:
            n = int(frac * len(data))
            self.partitions.append(indexes[:n])
            indexes = indexes[n:]

    def use(self, partition):
        return Partition(self.data, self.partitions[partition])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 9, 3)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.bn(self.conv1(x)), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=-1)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def sync_buffers(model):
    works = [dist.broadcast(b, src=0, async_op=True) for b in model.buffers()]
    for work in works:
        work.wait()


def run(rank, size):
    torch.manual_seed(1234)
    data = [(torch.randn(1, 8, 8), i % 3) for i in range(96)]
    part = DataPartitioner(data, [1.0 / size for _ in range(size)]).use(rank)
    loader = torch.utils.data.DataLoader(part, batch_size=16 // size, shuffle=False)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for epoch in range(3):
        epoch_loss = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            epoch_loss += loss.item()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        sync_buffers(model)
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum() for x, y in loader)
        model.train()
        losses = [None] * size if rank == 0 else None
        dist.gather_object(round(epoch_loss / len(loader), 4), losses, dst=0)
        dist.reduce(right, dst=0, op=dist.ReduceOp.SUM)
        worst = torch.tensor(epoch_loss)
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        if rank == 0:
            print(f"epoch {epoch}: losses {losses}, right {right.item()} of {len(data)}, worst {worst.item():.4f}")
    gathered = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(gathered, model.fc.bias.detach())
    if rank == 0:
        print("same on all ranks:", all(torch.equal(gathered[0], g) for g in gathered))


if __name__ == "__main__":
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    run(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
