"""What one rank of `benchmarks.distributed` measures; runs on adjoint and on PyTorch alike.

Prints JSON: the best seconds of each workload, on rank 0.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """A block of a small GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.attend(self.first(x)).split(c, dim=2)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(b, t, c))
        return x + self.feed(self.second(x))


class GPT(nn.Module):
    """Two blocks over characters."""

    def __init__(self, letters: int = 65, width: int = 128, length: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def best(call: Callable[[], object], repeats: int, rounds: int) -> float:
    """Seconds of one call, in the best round."""
    call()
    found = []
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        found.append((time.perf_counter() - start) / repeats)
    return min(found)


def mlp_step() -> Callable[[], object]:
    net = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(64, 256), torch.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def gpt_step() -> Callable[[], object]:
    model = DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 65, (8, 65))

    def step() -> None:
        optimizer.zero_grad()
        scores = model(ids[:, :-1])
        F.cross_entropy(scores.reshape(-1, 65), ids[:, 1:].reshape(-1)).backward()
        optimizer.step()

    return step


def main() -> None:
    """Measure, and print."""
    few = "--smoke" in sys.argv
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    one, large = torch.ones(1), torch.ones(1_000 if few else 25_000_000)
    rounds = 1 if few else 7
    found = {
        "all_reduce of 1 float": best(lambda: dist.all_reduce(one), 5 if few else 300, rounds),
        "all_reduce of 100 MB": best(lambda: dist.all_reduce(large), 1, rounds),
        "DDP step of an MLP": best(mlp_step(), 2 if few else 20, rounds),
        "DDP step of a small GPT": best(gpt_step(), 1 if few else 5, rounds),
    }
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
