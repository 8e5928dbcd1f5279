"""Rank 0 evaluates alone between steps of a model with buffers; averaged and copied models.

    torchrun --standalone --nproc_per_node=2 evaluation.py
"""
import copy
import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
LENGTH, WIDTH, MICRO = 8, 16, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)))

    def forward(self, x):
        q, k, v = self.attend(x).split(WIDTH, dim=2)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(WIDTH)
        return self.project(F.softmax(scores.masked_fill(self.mask == 0, float("-inf")), dim=-1) @ v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, WIDTH)
        self.norm, self.attention = nn.BatchNorm1d(LENGTH), Attention()
        self.head = nn.Linear(WIDTH, 11, bias=False)
        self.words.weight = self.head.weight

    def forward(self, ids, targets):
        x = self.words(ids)
        scores = self.head(x + self.attention(self.norm(x)))
        return F.cross_entropy(scores.reshape(-1, 11), targets.reshape(-1))


def batch():
    ids = torch.randint(0, 11, (4, LENGTH + 1))
    return ids[:, :-1], ids[:, 1:] * 0 + ids[:, :-1] // 2


@torch.no_grad()
def evaluate(model):
    model.eval()
    losses = [model(*batch()).item() for _ in range(3)]
    model.train()
    return sum(losses) / len(losses)


torch.manual_seed(7)
model = DDP(Model())
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
twin = copy.deepcopy(model)  # trains on its own
optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-2) for each in (model, twin)]
torch.manual_seed(rank)
for step in range(6):
    if step % 2 == 0 and rank == 0:
        print(f"step {step}: held out {evaluate(model):.4f}")
    for each, optimizer in zip((model, twin), optimizers):
        for micro in range(MICRO):
            each.require_backward_grad_sync = micro == MICRO - 1
            (each(*batch()) / MICRO).backward()
        nn.utils.clip_grad_norm_(each.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    average.update_parameters(model)
if rank == 0:
    print(f"averaged: {evaluate(average.module.module):.4f}")
sums = torch.stack([p.detach().double().sum() for m in (model, twin, average) for p in m.parameters()])
every = [torch.empty_like(sums) for _ in range(world)]
dist.all_gather(every, sums)
if rank == 0:
    print([f"{s:.3f}" for s in sums.tolist()], all(torch.equal(every[0], s) for s in every))
    print(f"buffers {model.module.norm.running_mean.sum():.4f} {model.module.norm.num_batches_tracked}")
dist.destroy_process_group()
