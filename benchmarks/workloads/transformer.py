"""Attention with gradients, and a step of a small language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal

STEP = "GPT, 4 layers of 128, 12x64 words, AdamW step"
LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 4, 128, 4, 64, 12, 65


def attention(lib: Any) -> Callable[[], Any]:
    given = [normal(lib, 12, 4, 64, 32, seed=k, grad=True) for k in range(3)]
    weights = normal(lib, 12, 4, 64, 32, seed=3)

    def work() -> Any:
        for t in given:
            t.grad = None
        y = lib.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
        y.backward(weights)
        return y, *(t.grad for t in given)

    return work


class Model:
    """A decoder of pre-normalised blocks, written with functions."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.parameters: list[Any] = []
        self.words = self.made(WORDS, WIDTH)
        self.places = self.made(LENGTH, WIDTH)
        shapes = ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH))
        self.blocks = [[self.made(*shape) for shape in shapes] for _ in range(LAYERS)]

    def made(self, *shape: int) -> Any:
        p = normal(self.lib, *shape, seed=len(self.parameters), scale=0.05, grad=True)
        self.parameters.append(p)
        return p

    def attended(self, x: Any, inner: Any, outer: Any) -> Any:
        f = self.lib.nn.functional
        parts = f.linear(x, inner).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        return f.linear(y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH), outer)

    def loss(self, rows: Any, targets: Any) -> Any:
        f = self.lib.nn.functional
        x = f.embedding(rows, self.words) + self.places
        for inner, outer, up, down in self.blocks:
            x = x + self.attended(f.layer_norm(x, (WIDTH,)), inner, outer)
            x = x + f.linear(f.gelu(f.linear(f.layer_norm(x, (WIDTH,)), up)), down)
        scores = f.linear(f.layer_norm(x, (WIDTH,)), self.words)
        return f.cross_entropy(scores.view(-1, WORDS), targets)


def step(lib: Any, compiled: Callable[[Any], Any] = lambda f: f) -> Callable[[], Any]:
    """Loss, gradients and the optimizer's step; `compiled` is done to the loss."""
    model = Model(lib)
    loss_of = compiled(model.loss)
    optimizer = lib.optim.AdamW(model.parameters, lr=1e-4)
    drawn = np.random.default_rng(0).integers(0, WORDS, (2, BATCH, LENGTH))
    rows, targets = lib.from_numpy(drawn[0]), lib.from_numpy(drawn[1].reshape(-1))

    def work() -> Any:
        optimizer.zero_grad()
        loss = loss_of(rows, targets)
        loss.backward()
        optimizer.step()
        return loss

    return work


def by_inductor(torch: Any) -> Callable[[], Any]:
    """The same with a loss that `torch.compile` has made, forward and backward."""
    return step(torch, torch.compile)


WORKLOADS = [
    Workload("causal attention 12x4x64x32, gradients", attention, Mark(speedup=1.3)),
    Workload(STEP, step, Mark(speedup=1.3)),
]
