"""Random functions, called eagerly and compiled: everything that is seen afterwards is the same.

A function is a list of steps on a pool of tensors of one shape: elementwise ops, views, changes in
place, reductions, random numbers, parameters, gradients taken and added inside. It is called with
tensors that share memory, are given twice, have histories, are those that it reaches by itself. A
call may fail, or be refused by `compile`; it must not do something else.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core

F = ad.nn.functional
Step = tuple[str, str, int, int]  # what, which of its kind, and two tensors of the pool

UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lambda a: a.sin(),
    "relu": lambda a: a.relu(),
    "double": lambda a: a * 2,
    "more": lambda a: a + 1,
    "exp": lambda a: a.tanh().exp(),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": lambda a, b: ad.maximum(a, b),
    "where": lambda a, b: ad.where(a > b, a, b),
    "cat": lambda a, b: ad.cat([a[:1], b[1:]]),
    "mean": lambda a, b: a.mean(0) + b,
    "matmul": lambda a, b: (a @ b.T) @ b,
    "prod": lambda a, b: a.prod() + b,
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda a: a.T.contiguous().T,
    "flat": lambda a: a.reshape(6).view(2, 3),
    "flip": lambda a: a.flip(0),
    "expand": lambda a: a[:1].expand(2, 3),
    "detach": lambda a: a.detach(),
    "data": lambda a: a.data,
    "all": lambda a: a[:],
    "clone": lambda a: a.clone(),
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda a, b: a.mul_(2),
    "add_": lambda a, b: a.add_(b),
    "copy_": lambda a, b: a.copy_(b),
    "sin_": lambda a, b: a.sin_(),
    "row": lambda a, b: a.__setitem__(0, a[1]),
    "mask": lambda a, b: a.__setitem__(a > 0, 0.5),
    "part": lambda a, b: a.T[1].mul_(3),
}
DRAWN: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda a: F.dropout(a, 0.5),
    "randn": lambda a: a + ad.randn(2, 3),
    "uniform_": lambda a: ad.empty(2, 3).uniform_() * a,
}


def add_gradient_inside(a: Any, b: Any, weight: Any) -> Any:
    x = a.detach().requires_grad_()
    (x.sin() * x + b.detach()).sum().backward()
    return x.grad


def add_gradient_outside(a: Any, b: Any, weight: Any) -> Any:
    ((weight * b.detach()) ** 2).sum().backward()
    return weight.grad


def take_gradient(a: Any, b: Any, weight: Any) -> Any:
    return ad.autograd.grad((a * weight).sum(), weight, create_graph=True)[0]


def forget_gradient(a: Any, b: Any, weight: Any) -> Any:
    weight.grad = None
    return a


def set_gradient(a: Any, b: Any, weight: Any) -> Any:
    weight.grad = b.detach() + 1
    return weight.grad


GRADIENTS = {
    f.__name__: f
    for f in (
        add_gradient_inside,
        add_gradient_outside,
        take_gradient,
        forget_gradient,
        set_gradient,
    )
}
CHOICES: dict[str, tuple[float, list[str]]] = {
    "unary": (8, list(UNARY)),
    "binary": (9, list(BINARY)),
    "view": (6, list(VIEWS)),
    "change": (6, list(CHANGES)),
    "draw": (1, list(DRAWN)),
    "gradient": (2, list(GRADIENTS)),
    "reach": (4, [""]),
    "constant": (1, [""]),
    "update": (0.7, [""]),
}


class World:
    """A random function, tensors that it reaches by itself, and calls of it."""

    def __init__(self, seed: int, compiled: bool) -> None:
        self.rng = random.Random(seed)
        ad.manual_seed(seed)
        kinds, weights = list(CHOICES), [w for w, _ in CHOICES.values()]
        self.recipe = tuple(self._step(kinds, weights) for _ in range(self.rng.choice((3, 6, 12))))
        self.outputs = tuple(self.rng.randrange(50) for _ in range(self.rng.choice((1, 1, 2, 3))))
        self.weight, self.buffer = ad.randn(2, 3, requires_grad=True), ad.randn(2, 3)
        self.reached = [self.weight, self.buffer, self.buffer.view(2, 3)]
        self.function = ad.compile(self.run) if compiled else self.run
        self.last = ad.randn(2, 3)

    def _step(self, kinds: list[str], weights: list[float]) -> Step:
        kind = self.rng.choices(kinds, weights)[0]
        which = self.rng.choice(CHOICES[kind][1])
        return kind, which, self.rng.randrange(50), self.rng.randrange(50)

    def run(self, *given: Any) -> tuple[Any, ...]:
        pool = list(given)
        for kind, which, i, j in self.recipe:
            a, b = pool[i % len(pool)], pool[j % len(pool)]
            if kind == "unary":
                pool.append(UNARY[which](a))
            elif kind == "binary":
                pool.append(BINARY[which](a, b))
            elif kind == "view":
                pool.append(VIEWS[which](a))
            elif kind == "change":
                CHANGES[which](a, b)
            elif kind == "draw":
                pool.append(DRAWN[which](a))
            elif kind == "gradient":
                pool.append(GRADIENTS[which](a, b, self.weight))
            elif kind == "reach":
                pool.append(self.reached[i % len(self.reached)])
            elif kind == "constant":
                pool.append(ad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
            else:
                with ad.no_grad():
                    self.buffer.mul_(0.9).add_(a.detach() * 0.1)
        return tuple(pool[k % len(pool)] for k in self.outputs)

    def arguments(self) -> tuple[list[Any], Any]:
        kind = self.rng.choice(("plain", "turned", "grad", "shared", "same", "made", "own", "last"))
        leaf = ad.randn(2, 3, requires_grad=True)
        given = [ad.randn(2, 3), ad.randn(2, 3)]
        if kind == "turned":
            given = [ad.randn(3, 2).T, ad.randn(3, 2).T]
        elif kind == "grad":
            given[0].requires_grad_()
        elif kind == "shared":
            base = ad.randn(5, 3)
            given = [base[:2], base[1:3]]
        elif kind == "same":
            given[1] = given[0]
        elif kind == "made":
            given = [leaf * 1, leaf * 2]
        elif kind == "own":
            given[0] = self.buffer
        elif kind == "last":
            given[0] = self.last
        return given, leaf

    def call(self) -> list[Any]:
        """Call it, go backward, change a result; what is seen afterwards."""
        given, leaf = self.arguments()
        whole, change = self.rng.random() < 0.6, self.rng.random() < 0.3
        seen: list[Any] = []
        try:
            results = self.function(*given)
            seen += [(shown(y), y.requires_grad) for y in results]
            with_history = [y for y in results if y.requires_grad]
            if with_history:
                sum((y * y).sum() for y in with_history[: None if whole else 1]).backward()
            if change:
                with ad.no_grad():
                    results[0].add_(1)
            self.last = results[-1].detach()
        except (RuntimeError, IndexError):
            seen.append("an error")
        tensors = [*given, leaf, *self.reached]
        seen += [shown(t) for t in tensors]
        seen += [shown(t.grad) for t in tensors if t.is_leaf]
        return [*seen, shown(ad.randn(1)), [t._version for t in self.reached]]


def shown(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().clone().numpy()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        # Where a tensor is used outside the function as well, its gradients are added in another
        # order: those of the function first.
        return isinstance(b, np.ndarray) and np.allclose(a, b, 2e-6, 1e-6, equal_nan=True)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def history(seed: int, compiled: bool) -> tuple[World, list[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = World(seed, compiled)
        return world, [world.call() for _ in range(5)]


@pytest.mark.parametrize("start", range(0, 120, 10))
def test_random_functions_do_the_same_compiled(start: int) -> None:
    recorded = 0
    for seed in range(start, start + 10):
        world, want = history(seed, False)
        compiled, got = history(seed, True)
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            assert same(a, b), (seed, k, world.recipe, world.outputs)
        assert not _core._is_recording() and not _core._is_unusual_mode()
        recorded += bool(compiled.function.programs)
    assert recorded >= 5
