"""Random programs that tie tensors to one another: what is in a cycle is known to the collector.

`Note [Objects aside]` in ``src/python/gc_list.h`` claims that tensors and nodes without back links
are in no cycle. After each step, if none is counted, everything that is alive is searched for one;
at the end everything must be freed.
"""

from __future__ import annotations

import gc
import random
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core


class Square(ad.autograd.Function):
    """A custom function that keeps what it is told to."""

    @staticmethod
    def forward(ctx: Any, x: Any, extra: Any) -> Any:
        y = x * x
        ctx.save_for_backward(x, y)
        if extra is not None:
            ctx.extra = extra
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g, None


class Program:
    """Tensors of one shape, and steps that use, change and tie them."""

    def __init__(self, seed: int, ties: bool) -> None:
        self.random = random.Random(seed)
        self.tensors: list[Any] = []
        self.boxes: list[list[Any]] = []
        self.born: list[weakref.ref[Any]] = []
        self.log: list[str] = []
        steps = [self.leaf, self.plain, *[self.op] * 4, *[self.change] * 3, *[self.view] * 2]
        steps += [self.assign, self.drop, self.drop, self.gradient, self.detach, self.freeze]
        steps += [self.data, self.backward, self.create_graph, self.reshape, self.variable]
        steps += [self.alias, self.gradient_in_place]
        if ties:
            steps += [self.hook, self.attribute, self.note, self.box, self.function, self.retain]
            steps += [self.tie_later]
        self.steps: list[Callable[[], None]] = steps

    def keep(self, t: Any) -> None:
        self.born.append(weakref.ref(t))
        self.tensors.append(t)

    def one(self) -> Any:
        if not self.tensors:
            self.leaf()
        return self.random.choice(self.tensors)

    def node(self) -> Any:
        return self.one().grad_fn

    def leaf(self) -> None:
        self.keep(ad.full((4,), 0.5, requires_grad=True))

    def plain(self) -> None:
        self.keep(ad.full((4,), 0.25))

    def op(self) -> None:
        a, b = self.one(), self.one()
        self.keep(
            self.random.choice(
                [
                    lambda: a * b,
                    lambda: a + b,
                    lambda: a.sin(),
                    lambda: a.exp(),
                    lambda: a * 2.0,
                    lambda: ad.cat([a, b])[:4],
                    lambda: ad.stack([a, b]).sum(0),
                    lambda: a.clone(),
                ]
            )()
        )

    def change(self) -> None:
        a, b = self.one(), self.one()
        self.random.choice(
            [
                lambda: a.add_(b),
                lambda: a.mul_(b),
                lambda: a.exp_(),
                lambda: a.copy_(b),
                lambda: a.mul_(0.5),
                lambda: a[1:].mul_(b[1:]),
            ]
        )()

    def view(self) -> None:
        a = self.one()
        self.keep(self.random.choice([a.view(2, 2), a.reshape(4), a[:4], a.unsqueeze(0)]).view(4))

    def assign(self) -> None:
        i = self.random.randrange(4)
        self.one()[i] = self.one()[i - 1] * 0.5

    def drop(self) -> None:
        if self.tensors:
            self.tensors.pop(self.random.randrange(len(self.tensors)))

    def gradient(self) -> None:
        self.one().grad = self.random.choice([None, self.one()])

    def gradient_in_place(self) -> None:
        grad = self.one().grad
        if grad is not None:
            grad.add_(self.one())

    def detach(self) -> None:
        self.random.choice([self.one().detach, self.one().detach_])()

    def alias(self) -> None:
        self.keep(self.one().detach())

    def freeze(self) -> None:
        self.one().requires_grad_(self.random.random() < 0.5)

    def data(self) -> None:
        self.one().data = self.random.choice([ad.zeros(4), self.one().data])

    def backward(self) -> None:
        self.one().sum().backward(retain_graph=self.random.random() < 0.5)

    def create_graph(self) -> None:
        self.one().sum().backward(create_graph=True)

    def reshape(self) -> None:
        self.one().unsqueeze_(0).squeeze_(0)

    def variable(self) -> None:
        node = self.node()
        while node is not None and node.next_functions:
            node = node.next_functions[0][0]
        if node is not None and hasattr(node, "variable"):
            self.keep(node.variable)

    def hook(self) -> None:
        t = self.one()
        self.one().register_hook(lambda g: None if t is None else g)

    def attribute(self) -> None:
        self.one().tied = self.one()

    def note(self) -> None:
        node = self.node()
        if node is not None:
            node.metadata["tied"] = self.one()

    def box(self) -> None:
        box = [self.one()]
        self.boxes.append(box)
        self.one().box = box

    def tie_later(self) -> None:
        if self.boxes:
            self.random.choice(self.boxes).append(self.one())

    def function(self) -> None:
        self.keep(Square.apply(self.one(), self.random.choice([None, self.one()])))

    def retain(self) -> None:
        self.one().retain_grad()

    def step(self) -> None:
        chosen = self.random.choice(self.steps)
        self.log.append(chosen.__name__)
        try:
            chosen()
        except RuntimeError as refused:  # what may not be changed, or has no history
            self.log[-1] += " (refused)"
            refused.__traceback__ = None


def links(o: Any) -> list[Any]:
    return [r for r in gc.get_referents(o) if isinstance(r, (ad.Tensor, _core.Node))]


def cycle_through(objects: list[Any]) -> list[Any] | None:
    """A cycle that can be reached from these objects, if there is one."""
    done: set[int] = set()
    for start in objects:
        path, open_ = [start], {id(start)}
        todo = [iter(links(start))] if id(start) not in done else []
        while todo:
            step = next(todo[-1], None)
            if step is None:
                last = path.pop()
                open_.discard(id(last))
                done.add(id(last))
                todo.pop()
            elif id(step) in open_:
                return path
            elif id(step) not in done:
                path.append(step)
                open_.add(id(step))
                todo.append(iter(links(step)))
    return None


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run(seed: int, ties: bool) -> tuple[int, int]:
    gc.collect()
    links_before = _core._back_links()
    program = Program(seed, ties)
    searched = 0
    for _ in range(60):
        program.step()
        if _core._back_links() == links_before:
            searched += 1
            found = cycle_through(program.tensors)
            assert found is None, f"seed {seed}: {program.log}: a cycle of {len(found)} is not seen"
    tied = _core._back_links() > links_before
    program.tensors.clear()
    program.boxes.clear()
    gc.collect()
    alive = [r for r in program.born if r() is not None]
    assert not alive, f"seed {seed}: {program.log}: {len(alive)} tensors are never freed"
    assert _core._back_links() == links_before, f"seed {seed}: {program.log}"
    return searched, tied


@pytest.mark.parametrize("ties", [False, True])
def test_random_programs_leave_nothing_behind(ties: bool) -> None:
    searched = tied = 0
    gc.freeze()  # what other tests left alive need not be walked a thousand times
    for seed in range(150):
        s, t = run(seed, ties)
        searched, tied = searched + s, tied + t
    # Programs of both sorts were there: with links that can close a cycle, and without.
    assert searched > 150
    assert tied > 50
