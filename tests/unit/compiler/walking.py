"""What the tests of the walk share: running a function under it, and things to read."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.compiler._guards import Guards
from adjoint.compiler._refusals import Refusal
from adjoint.compiler._walk import Walk


def walked(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Guards, list[Refusal]]:
    with Walk(f, (args, kwargs)) as walk:
        f(*args, **kwargs)
    return walk.guards(), walk.refusals


def passes(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Guards:
    guards, refusals = walked(f, *args, **kwargs)
    assert refusals == []
    assert guards.hold(), guards.failed()
    assert guards.failed() is None
    return guards


def refused(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Refusal:
    _, refusals = walked(f, *args, **kwargs)
    assert refusals, "nothing was refused"
    test = os.path.basename(sys._getframe(1).f_code.co_filename)
    assert refusals[0].where.startswith((f"{test}:", "<string>:"))
    return refusals[0]


def x(n: int = 3) -> ad.Tensor:
    return ad.arange(n, dtype=ad.float32)


# -- things that programs read ---------------------------------------------------------------------


class Settings:
    kind = "linear"
    factor = 0.5

    def __init__(self) -> None:
        self.lr = 0.1
        self.layers = [1.0, 2.0]
        self.count = 0
        self.cache: dict[str, Any] = {}

    @property
    def half(self) -> float:
        return self.lr / 2

    @functools.cached_property
    def once(self) -> float:
        return self.lr * 3

    @classmethod
    def doubled(cls) -> float:
        return cls.factor * 2

    @staticmethod
    def three() -> float:
        return 3.0

    def method(self, t: Any) -> Any:
        return t * self.lr

    def __call__(self, t: Any) -> Any:
        return t + self.lr

    def __getitem__(self, i: int) -> float:
        return self.layers[i]

    def __iter__(self) -> Iterator[float]:
        return iter(self.layers)


@dataclasses.dataclass
class State:
    position: Any
    speed: Any
    dt: float = 0.1

    def step(self) -> State:
        return dataclasses.replace(self, position=self.position + self.dt * self.speed)


def helper(t: Any, by: float = 2.0, *, add: float = 1.0) -> Any:
    return t * by + add


def decorated(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        kwargs["by"] = kwargs.pop("by", 3.0)
        return f(*args, **kwargs)

    return wrapper


# -- programs that pass ----------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 3))
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.norm = nn.LayerNorm(3)
        self.alpha = nn.Parameter(ad.ones(1))
        self.register_buffer("offset", ad.zeros(3))
        self.depth = 2
        self.options = {"skip": True}

    def forward(self, t: Any) -> Any:
        y = self.body(t)
        for i, layer in enumerate(self.layers):
            y = y + layer(y) * self.alpha if self.options["skip"] else layer(y)
            if i + 1 == self.depth:
                break
        return self.norm(y) + self.offset
