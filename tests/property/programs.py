"""Random programs: drawn as plain data, run side by side by adjoint and by the micro reference.

A program is a list of steps; each names an operation and which earlier tensors it takes, modulo how
many there are, so every drawn list of numbers is a program and hypothesis can shrink it. Steps that
would not be legal (shapes that do not broadcast, an edit of a value that backward still needs) do
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import adjoint as ad
from tests.reference import micro

Array = np.ndarray[Any, Any]
Rule = tuple[Callable[..., Any], Callable[..., Array], list[Callable[..., Array]], bool]

# name: (adjoint, NumPy, gradients, whether backward needs the values). Each keeps numbers moderate.
UNARY: dict[str, Rule] = {
    "neg": (lambda x: -x, np.negative, [lambda g, y, x: -g], False),
    "half": (lambda x: x * 0.5, lambda x: x * 0.5, [lambda g, y, x: g * 0.5], False),
    "shift": (lambda x: 1 - x, lambda x: 1 - x, [lambda g, y, x: -g], False),
    "clone": (lambda x: x.clone(), np.copy, [lambda g, y, x: g], False),
    "sin": (ad.sin, np.sin, [lambda g, y, x: g * np.cos(x)], True),
    "tanh": (ad.tanh, np.tanh, [lambda g, y, x: g * (1 - y**2)], True),
    "sigmoid": (
        ad.sigmoid,
        lambda x: 1 / (1 + np.exp(-x)),
        [lambda g, y, x: g * y * (1 - y)],
        True,
    ),
    "square": (
        lambda x: (0.3 * x) ** 2,
        lambda x: 0.09 * x**2,
        [lambda g, y, x: 0.18 * g * x],
        True,
    ),
    "sum": (lambda x: x.sum() / 4, lambda x: x.sum() / 4, [lambda g, y, x: g / 4 + 0 * x], False),
    "mean0": (
        lambda x: x.mean(0, keepdim=True),
        lambda x: x.mean(0, keepdims=True),
        [lambda g, y, x: g / x.shape[0] + 0 * x],
        False,
    ),
}
BINARY: dict[str, Rule] = {
    "add": (ad.add, np.add, [lambda g, z, x, y: g, lambda g, z, x, y: g], False),
    "sub": (ad.sub, np.subtract, [lambda g, z, x, y: g, lambda g, z, x, y: -g], False),
    "mul": (
        lambda x, y: x * y,
        np.multiply,
        [lambda g, z, x, y: g * y, lambda g, z, x, y: g * x],
        True,
    ),
    "atan2": (
        lambda x, y: ad.atan2(x, y * y + 1),
        lambda x, y: np.arctan2(x, y * y + 1),
        [
            lambda g, z, x, y: g * (y * y + 1) / (x * x + (y * y + 1) ** 2),
            lambda g, z, x, y: -g * x * 2 * y / (x * x + (y * y + 1) ** 2),
        ],
        True,
    ),
    "matmul": (
        lambda x, y: (x @ y) * 0.3,
        lambda x, y: 0.3 * (x @ y),
        [lambda g, z, x, y: 0.3 * g @ y.T, lambda g, z, x, y: 0.3 * x.T @ g],
        True,
    ),
}
# Each works on a tensor of adjoint and on an array of positions alike.
VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "transpose": (lambda x: x.transpose(0, -1), lambda p: np.swapaxes(p, 0, -1)),
    "first": (lambda x: x[0], lambda p: p[0]),
    "rest": (lambda x: x[1:], lambda p: p[1:]),
    "every_other": (lambda x: x[..., ::2], lambda p: p[..., ::2]),
    "column": (lambda x: x.select(-1, 0), lambda p: p[..., 0]),
    "unsqueeze": (lambda x: x.unsqueeze(0), lambda p: p[None]),
    "narrow": (lambda x: x.narrow(0, 0, 1), lambda p: p[:1]),
    "diagonal": (lambda x: x.diagonal(), np.diagonal),
    "expand": (lambda x: x.expand(2, *x.shape), lambda p: np.broadcast_to(p, (2, *p.shape))),
}
EDITS = ("add_", "sub_", "scale_", "copy_", "zero_", "setitem")


@dataclass
class Machine:
    """Tensors of both kinds, pair by pair, and which memory may still be edited."""

    ours: list[Any] = field(default_factory=list)
    theirs: list[micro.Tensor] = field(default_factory=list)
    needed: set[micro.Cell] = field(default_factory=set)

    def leaf(self, array: Array) -> None:
        self.ours.append(ad.tensor(array, requires_grad=True))
        self.theirs.append(micro.tensor(array))
        self.needed.add(self.theirs[-1].cell)  # a leaf that requires grad refuses edits

    def keep(self, ours: Any, theirs: micro.Tensor) -> None:
        self.ours.append(ours)
        self.theirs.append(theirs)

    def compute(self, rule: Rule, *which: int) -> None:
        function, forward, pulls, saves = rule
        ours = [self.ours[i] for i in which]
        theirs = [self.theirs[i] for i in which]
        result = micro.tensor(micro.apply(forward, pulls, *(t.read() for t in theirs)))
        self.keep(function(*ours), result)
        if saves:
            self.needed.update(t.cell for t in [*theirs, result])

    def edit(self, how: str, i: int, j: int) -> None:
        """Change tensor i in place, by tensor j, if that is legal."""
        target, source = self.theirs[i], self.theirs[j]
        if target.cell in self.needed or target.cell is source.cell:
            return
        if np.unique(target.places).size != target.places.size:
            return  # several elements at one address
        if not fits(source.places.shape, target.places.shape):
            return
        old, new = target.read(), source.read()
        x, y = self.ours[i], self.ours[j]
        if how == "add_":
            x.add_(y)
            target.write(micro.apply(np.add, BINARY["add"][2], old, new))
        elif how == "sub_":
            x.sub_(y)
            target.write(micro.apply(np.subtract, BINARY["sub"][2], old, new))
        elif how == "scale_":
            x.mul_(0.5)
            target.write(micro.apply(UNARY["half"][1], UNARY["half"][2], old))
        elif how == "zero_":
            x.zero_()
            target.write(micro.Value(np.zeros(())))
        elif how == "copy_":
            x.copy_(y)
            target.write(new)
        else:
            x[...] = y
            target.write(new)


def fits(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(source, target) == target
    except ValueError:
        return False


def step(machine: Machine, name: str, i: int, j: int) -> None:
    """Run one step of a program on both sides."""
    i, j = i % len(machine.ours), j % len(machine.ours)
    x, y = machine.theirs[i].places, machine.theirs[j].places
    if name in UNARY:
        if x.ndim or name != "mean0":
            machine.compute(UNARY[name], i)
    elif name == "matmul":
        if x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0]:
            machine.compute(BINARY[name], i, j)
    elif name in BINARY:
        if fits(x.shape, y.shape) or fits(y.shape, x.shape):
            machine.compute(BINARY[name], i, j)
    elif name in VIEWS:
        if x.ndim > (1 if name == "diagonal" else 0) and 0 not in x.shape and x.size <= 64:
            ours, choose = VIEWS[name]
            picked = machine.theirs[i].view(choose)
            if picked.places.size:  # the mean of nothing is NaN
                machine.keep(ours(machine.ours[i]), picked)
    else:
        machine.edit(name, i, j)
