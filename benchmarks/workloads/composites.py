"""What a composite costs: the gradient through a state of 20 tensors, beside the tensors by hand.

Ten steps of the midpoint rule. By hand there is a list of 20 tensors; "fields" is a dataclass whose
fields are written out one by one; "arithmetic" is `state + dt * rate` on the class. Both are
compared with the first, in the same library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads.data import normal

COUNT, STEPS, DT = 20, 10, 0.01
NAMES = tuple(f"x{i}" for i in range(COUNT))


def start(lib: Any, size: int) -> list[Any]:
    return [normal(lib, size, seed=i, grad=True) for i in range(COUNT)]


def by_hand(size: int) -> Setup:
    def setup(lib: Any) -> Callable[[], Any]:
        first = start(lib, size)

        def work() -> Any:
            state = first
            for _ in range(STEPS):
                middle = [x + 0.5 * DT * -x for x in state]
                state = [x + DT * -y for x, y in zip(state, middle, strict=True)]
            total = (state[0] * state[0]).sum()
            for x in state[1:]:
                total = total + (x * x).sum()
            return lib.autograd.grad(total, first)

        return work

    return setup


def written(arguments: str, field: str, state_class: Any) -> Any:
    """A function that makes a state field by field, as one would write it out."""
    parts = ", ".join(field.format(name) for name in NAMES)
    return eval(f"lambda {arguments}: State({parts})", {"State": state_class})


def fields(size: int) -> Setup:
    def setup(lib: Any) -> Callable[[], Any]:
        state_class: Any = make_dataclass("State", NAMES)
        first = state_class(*start(lib, size))

        moved = written("x, step, rate", "x.{0} + step * rate.{0}", state_class)
        rate = written("x", "-x.{0}", state_class)

        def work() -> Any:
            state = first
            for _ in range(STEPS):
                middle = moved(state, 0.5 * DT, rate(state))
                state = moved(state, DT, rate(middle))
            total = (state.x0 * state.x0).sum()
            for n in NAMES[1:]:
                x = getattr(state, n)
                total = total + (x * x).sum()
            gradient = lib.autograd.grad(total, first)
            return [getattr(gradient, n) for n in NAMES]

        return work

    return setup


def arithmetic(size: int) -> Setup:
    def setup(lib: Any) -> Callable[[], Any]:
        state_class: Any = lib.composite(arithmetic=True)(make_dataclass("State", NAMES))
        first = state_class(*start(lib, size))

        def work() -> Any:
            state = first
            for _ in range(STEPS):
                middle = state + 0.5 * DT * -state
                state = state + DT * -middle
            gradient = lib.autograd.grad(state.dot(state), first)
            return [getattr(gradient, n) for n in NAMES]

        return work

    return setup


# At most 1.3 times the work by hand.
LIMIT = Mark(speedup=0.77)
WORKLOADS = tuple(
    Workload(
        f"state of 20 tensors of {size}, gradient, {name}, beside by hand",
        way(size),
        LIMIT,
        peer="adjoint",
        peer_setup=by_hand(size),
    )
    for size in (3, 64)
    for name, way in (("fields", fields), ("arithmetic", arithmetic))
)
