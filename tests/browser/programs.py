"""What the pages of the tests, and the pictures of the documentation, show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import adjoint as ad
from adjoint import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.blocks = nn.Sequential(Block(16), Block(16))
        self.head = nn.Linear(16, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embed(x).tanh()))


def network() -> ad.graph.Graph:
    ad.manual_seed(0)
    net = Net()
    x, target = ad.randn(32, 8), ad.randn(32, 1)
    with ad.graph.modules():
        loss = ((net(x) - target) ** 2).mean()
    return ad.graph(loss)


def simulation(steps: int) -> Any:
    w = ad.eye(4).mul(0.9).requires_grad_()
    b = ad.zeros(4, requires_grad=True)
    state = ad.ones(4)
    total = ad.tensor(0.0)
    for _ in range(steps):
        state = (w @ state + b).tanh()
        total = total + (state * state).mean()
    return total, {"total": total, "w": w, "b": b}


@ad.composite(arithmetic=True)
@dataclass
class State:
    position: Any
    velocity: Any


def orbit() -> ad.graph.Graph:
    start = State(
        ad.tensor([1.0, 0.0], requires_grad=True), ad.tensor([0.0, 1.0], requires_grad=True)
    )
    half = start + 0.05 * State(start.velocity, -start.position)
    end = start + 0.1 * State(half.velocity, -half.position)
    energy = (end.position**2).sum() + (end.velocity**2).sum()
    return ad.graph(energy)


def poisoned() -> tuple[Any, dict[str, Any]]:
    x = ad.tensor([0.0, 1.0, 4.0], requires_grad=True)
    scale = ad.tensor(2.0, requires_grad=True)
    distance = (x * x).sum().sqrt() * scale
    root = x.sqrt()
    loss = (root * 0).sum() + distance
    return loss, {"loss": loss, "x": x, "scale": scale}
