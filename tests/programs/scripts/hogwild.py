"""Processes on one model's shared memory, a pool, queues and events."""

import torch
import torch.multiprocessing as mp
from torch import nn


def worker(rank, model, barrier, queue):
    torch.manual_seed(rank)
    barrier.wait()
    with torch.no_grad():
        for p in model.parameters():
            p[rank] += rank + 1
    queue.put((rank, torch.full((2,), float(rank)).tolist()))


def square(t):
    return (t**2).sum()


def child(rank, shared, n):
    shared[rank] = rank * 10 + n


if __name__ == "__main__":
    model = nn.Linear(3, 2, bias=False)
    model.weight.data.zero_()
    model.share_memory()
    context = mp.get_context("fork")
    barrier, queue = context.Barrier(2), context.SimpleQueue()
    workers = [context.Process(target=worker, args=(r, model, barrier, queue)) for r in range(2)]
    for w in workers:
        w.start()
    got = sorted((queue.get() for _ in workers), key=lambda pair: pair[0])
    for w in workers:
        w.join()
    print(model.weight, model.weight.is_shared(), got)
    with context.Pool(2) as pool:
        print(pool.map(square, [torch.arange(3.0), torch.ones(4)]))
    shared = torch.zeros(2).share_memory_()
    mp.spawn(child, args=(shared, 5), nprocs=2, join=True)
    print(shared)
    sampler = torch.utils.data.DistributedSampler(
        range(7), num_replicas=2, rank=1, shuffle=True, seed=3
    )
    sampler.set_epoch(1)
    print(list(sampler), len(sampler))
