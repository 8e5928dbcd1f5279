"""Random index expressions: adjoint reads, writes, refuses and differentiates as torch does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

KINDS = ("int", "slice", "none", "ellipsis", "tensor", "list", "nested", "array", "mask", "bool")


class Index:
    """Draws an index for a shape; a few positions are out of bounds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def shape(self) -> list[int]:
        return [self.rng.randint(1, 4) for _ in range(self.rng.randint(0, 4))]

    def position(self, n: int) -> int:
        slack = self.rng.random() < 0.02
        return self.rng.randrange(-n - slack, n + slack)

    def positions(self, n: int) -> list[int]:
        return [self.position(n) for _ in range(self.count)]

    def draw(self, shape: list[int]) -> Any:
        self.count = self.rng.randint(1, 3)
        items: list[Any] = []
        axis = 0
        while axis < len(shape) and self.rng.random() < 0.85:
            kind = self.rng.choice(KINDS)
            if kind == "ellipsis" and ... in [i for i in items if i is ...]:
                continue
            items.append(self.item(kind, shape[axis]))
            axis += kind not in ("none", "ellipsis", "bool")
        return items[0] if len(items) == 1 else tuple(items)

    def item(self, kind: str, n: int) -> Any:
        bound = lambda: self.rng.choice([None, self.rng.randint(-5, 5)])  # noqa: E731
        makers: dict[str, Any] = {
            "int": lambda: self.position(n),
            "slice": lambda: slice(bound(), bound(), self.rng.choice([None, 1, 2])),
            "none": lambda: None,
            "ellipsis": lambda: ...,
            "tensor": lambda: torch.tensor(self.positions(n)),
            "list": lambda: self.positions(n),
            "nested": lambda: [self.positions(n)],
            "array": lambda: np.array(self.positions(n)),
            "mask": lambda: torch.tensor([self.rng.random() < 0.5 for _ in range(n)]),
            "bool": lambda: self.rng.random() < 0.8,
        }
        return makers[kind]()


def ours(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(ours(v) for v in value)
    return ad.tensor(value.tolist()) if isinstance(value, torch.Tensor) else value


def outcome(call: Any) -> Any:
    try:
        return call()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return error


def leaves(shape: list[int]) -> tuple[Any, Any]:
    values = np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)
    return (
        torch.tensor(values, requires_grad=True),
        ad.tensor(values.tolist(), dtype=ad.float64, requires_grad=True),
    )


def same(theirs: Any, mine: Any) -> None:
    assert tuple(theirs.shape) == tuple(mine.shape)
    assert theirs.tolist() == mine.tolist()


@pytest.mark.parametrize("seed", range(300))
def test_reading(seed: int) -> None:
    source = Index(seed)
    shape = source.shape()
    index = source.draw(shape)
    t, a = leaves(shape)
    theirs, mine = outcome(lambda: t[index]), outcome(lambda: a[ours(index)])
    if isinstance(theirs, Exception):
        assert type(mine) is type(theirs), (shape, index, mine)
        return
    if isinstance(mine, IndexError) and theirs.numel() == 0:
        return  # torch does not look at indices of which nothing is read
    same(theirs, mine)
    assert theirs.grad_fn.name() == mine.grad_fn.name(), (shape, index)
    (theirs * theirs).sum().backward()
    (mine * mine).sum().backward()
    same(t.grad, a.grad)


@pytest.mark.parametrize("seed", range(300))
def test_writing(seed: int) -> None:
    source = Index(seed)
    shape = source.shape()
    index = source.draw(shape)
    t, a = leaves(shape)
    places = outcome(lambda: torch.arange(t.numel()).reshape(shape)[index])
    if not isinstance(places, Exception) and places.unique().numel() != places.numel():
        return  # which of several values for one element wins is not defined
    size = [2] if isinstance(places, Exception) else list(places.shape)
    value = torch.full(size, 0.5, dtype=torch.float64, requires_grad=True)
    copy = ad.tensor(value.tolist(), dtype=ad.float64).reshape(size).detach().requires_grad_()
    x, y = t * 1, a * 1
    theirs = outcome(lambda: x.__setitem__(index, value))
    mine = outcome(lambda: y.__setitem__(ours(index), copy))
    if isinstance(theirs, Exception) or isinstance(mine, Exception):
        # Which of two errors in one expression is found first does not matter.
        assert isinstance(mine, Exception) and (isinstance(theirs, Exception) or 0 in size)
        return
    same(x, y)
    (x * x).sum().backward()
    (y * y).sum().backward()
    same(t.grad, a.grad)
    if value.grad is not None and copy.grad is not None:
        same(value.grad, copy.grad)
