"""torch.jit and torch.compile around ordinary functions."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")


@torch.jit.script
def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x @ w) * torch.tanh(x)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        for _ in range(3):
            x = torch.relu(self.linear(x)) + x
        return x


torch.manual_seed(0)
x, w = torch.randn(4, 3), torch.randn(3, 3)
print(f"{gated(x, w).sum().item():.4f}")
cell = Cell()
traced = torch.jit.trace(cell, x)
print(torch.allclose(traced(x), cell(x)))
scripted = torch.jit.script(cell)
print(f"{scripted(x).mean().item():.4f}", torch.jit.is_scripting())
