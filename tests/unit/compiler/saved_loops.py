"""Functions with loops inside, which one process saves and another loads."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint import _tree

W = ad.tensor([0.5, -0.25, 0.75], dtype=ad.float64, requires_grad=True)
LIMIT = ad.tensor(3.0, dtype=ad.float64)
FOLDER = os.environ.get("SAVED_LOOPS_FOLDER", ".")


def scanned(x: Any) -> Any:
    """Rows, a carry that is no tensor of floats, outputs with None among them."""

    def step(carry: Any, row: Any) -> Any:
        s, count = carry["s"], carry["n"]
        s = (s * W).sin() + row["a"] * row["b"]
        return {"s": s, "n": count + 1}, {"s": s * 2, "none": None, "sum": s.sum()}

    rows = {"a": ad.linspace(0, 1, 7, dtype=ad.float64), "b": x.cumsum(0).expand(7, 3)}
    return ad.scan(step, {"s": x, "n": 0}, rows)


def backwards(x: Any) -> Any:
    """From the last row to the first; outputs only."""

    def step(carry: Any, row: Any) -> Any:
        return carry * 0.5 + row, carry.exp()

    return ad.scan(step, x, ad.stack([x * k for k in range(6)]), reverse=True)[1]


def mapped(x: Any) -> Any:
    """No carry."""
    return ad.loops.map(lambda row: (row @ row, row * W), ad.stack([x, x * 2, x.cos(), x + 1]))


def until(x: Any) -> Any:
    """As many steps as values say."""
    return ad.while_loop(
        lambda s, n: s.abs().sum() < LIMIT, lambda s, n: (s * 1.25 + W * 0.01, n + 1), (x, 0)
    )


def branch(x: Any) -> Any:
    """One of two, each of which reads something else."""
    return ad.cond(
        x.sum() > 1,
        lambda x, y: (x * W, y.sin()),
        lambda x, y: (x.cos() + LIMIT, y * x),
        (x, x * 3),
    )


def few_states(x: Any) -> Any:
    """Steps that are run again."""
    return ad.scan(lambda c, _: ((c * W + 0.1).tanh(), None), x, length=23, snapshots=3)[0]


def root_memory(x: Any) -> Any:
    """The same, by the root of the length."""
    return ad.scan(lambda c, _: ((c * W).cos(), c.sum()), x, length=17, memory="sqrt")


def budget(x: Any) -> Any:
    """The same, by bytes."""
    return ad.scan(lambda c, _: ((c * W).exp() * 0.3, None), x, length=40, memory="1KB")[0]


def on_disk(x: Any) -> Any:
    """States in files."""
    return ad.scan(lambda c, _: ((c * W).cos() + c, None), x, length=15, snapshots=2, disk=FOLDER)[
        0
    ]


def until_with_few_states(x: Any) -> Any:
    """A loop whose length is not known, and steps that are run again."""
    return ad.while_loop(
        lambda s: s.abs().sum() < LIMIT, lambda s: (s * 1.05 + W * 0.01,), (x,), snapshots=3
    )[0]


def nested(x: Any) -> Any:
    """Loops in loops in loops, and a condition in them."""

    def inner(c: Any, row: Any) -> Any:
        (c,) = ad.while_loop(lambda s: s.abs().sum() < row, lambda s: (s * 1.5 + 0.1,), (c,))
        return c * W, c.sum()

    def outer(c: Any, row: Any) -> Any:
        c, ys = ad.scan(inner, c, ad.linspace(0.5, 1.5, 5, dtype=ad.float64) * row)
        c = ad.cond(ys[0] > 0.2, lambda c: c.sin(), lambda c: c * 2 + W, (c,))
        return c, ys.sum() + ad.loops.map(lambda r: r * r, ys).sum()

    return ad.scan(outer, x, ad.linspace(1, 2, 4, dtype=ad.float64), memory="sqrt")


def in_branches(x: Any) -> Any:
    """A loop in each branch, and a branch in a loop that ends by a condition."""

    def grow(s: Any) -> Any:
        return (ad.cond(s[0] > 0, lambda s: s * 1.3 + W, lambda s: s * 1.6 - 0.1, (s,)),)

    return ad.cond(
        x.sum() > 1,
        lambda x: ad.scan(lambda c, _: (c * W + 0.2, None), x, length=5)[0],
        lambda x: ad.while_loop(lambda s: s.abs().sum() < LIMIT, grow, (x,))[0],
        (x,),
    )


def plain_around(x: Any) -> Any:
    """A plain `for`, which is rolled up, around a scan."""
    for k in range(60):
        x = x + 0.01 * (x * W).sin()
        if k % 20 == 0:
            x = ad.scan(lambda c, _: (c.cos() * W, None), x, length=4)[0]
    return x


def with_numbers(x: Any) -> Any:
    """Random numbers, before a loop and in its steps."""
    noise = ad.randn(5, 3, dtype=ad.float64)

    def step(c: Any, row: Any) -> Any:
        return c * W + row + ad.rand(3, dtype=ad.float64), c

    return ad.scan(step, x, noise)


@ad.composite
@dataclasses.dataclass
class State:
    """A structure that is carried."""

    position: Any
    speed: Any


def composites(x: Any) -> Any:
    """Structures as carry and as output."""

    def step(state: State, _: Any) -> Any:
        speed = state.speed - 0.1 * state.position * W
        return State(state.position + 0.1 * speed, speed), State(speed * 2, speed)

    last, rows = ad.scan(step, State(x, x * 0), length=9)
    return last.position, last.speed, rows.position


def some_arrive(x: Any) -> Any:
    """Outputs of which some have no gradient, and a sum that others have begun."""
    last, ys = ad.scan(lambda c, _: (c * W, (c > 0, c.detach(), c * x)), x, length=5)
    return last.detach(), ys, (x * W).sum()


def model_steps(x: Any) -> Any:
    """Layers of a module as a step."""
    return ad.scan(lambda c, _: (NET(c), None), x, length=6)[0]


def solved(x: Any) -> Any:
    """An equation, whose steps are chosen when the program runs."""
    at = ad.linspace(0, 1, 4, dtype=ad.float64)
    return ad.integrate.solve_ivp(lambda t, y: -W * y + t, (0.0, 1.0), x, t_eval=at).y


def solved_implicitly(x: Any) -> Any:
    """The same by a method whose steps are equations."""
    at = ad.linspace(0, 1, 3, dtype=ad.float64)
    return ad.integrate.solve_ivp(
        lambda t, y: -(y**3) + W, (0.0, 1.0), x, t_eval=at, method="Radau"
    ).y


ad.manual_seed(0)
NET = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 3)).double()
KINDS = [
    scanned,
    backwards,
    mapped,
    until,
    branch,
    few_states,
    root_memory,
    budget,
    on_disk,
    until_with_few_states,
    nested,
    in_branches,
    plain_around,
    with_numbers,
    composites,
    some_arrive,
    model_steps,
    solved,
    solved_implicitly,
]
_NO_SECOND = (with_numbers, until_with_few_states, until, nested, solved, solved_implicitly)
INPUTS = ([0.3, 0.2, -0.1], [0.9, 0.7, 0.2], [-0.2, 0.01, 0.02], [2.0, 2.0, 1.5])


def bits(t: Any) -> Any:
    """A tensor to the last bit."""
    return t if not isinstance(t, ad.Tensor) else [str(t.dtype), t.detach().numpy().tobytes().hex()]


def outcome(function: Any, start: list[float]) -> Any:
    """Results and gradients."""
    ad.manual_seed(3)
    x = ad.tensor(start, dtype=ad.float64, requires_grad=True)
    leaves, _ = _tree.flatten(function(x))
    found = [bits(t) for t in leaves]
    by = [x, W, *NET.parameters()]
    parts = [t for t in leaves if isinstance(t, ad.Tensor) and t.requires_grad]
    for some in (parts, parts[:1]):
        total = sum((t * (k + 1)).sum() for k, t in enumerate(some))
        grads = ad.autograd.grad(total, by, retain_graph=True, allow_unused=True)
        found += [bits(t) for t in grads]
    return found


def second(function: Any, start: list[float]) -> list[float]:
    """Gradients of gradients, for which the function itself runs once more."""
    x = ad.tensor(start, dtype=ad.float64, requires_grad=True)
    leaves, _ = _tree.flatten(function(x))
    parts = [t for t in leaves if isinstance(t, ad.Tensor) and t.requires_grad]
    (slope,) = ad.autograd.grad(sum(t.square().sum() for t in parts), x, create_graph=True)
    made: list[float] = ad.autograd.grad(slope.sum(), x)[0].tolist()
    return made


def outcomes(function: Any, plain: Any) -> Any:
    """Both, for some inputs."""
    has_second = plain not in _NO_SECOND
    return (
        [outcome(function, start) for start in INPUTS],
        [second(function, start) for start in INPUTS if has_second],
    )


def main(folder: str) -> None:
    """Load all of them, and tell what they give and how often their Python ran."""
    import warnings

    warnings.simplefilter("error")
    told = {}
    for function in KINDS:
        fast = ad.compiler.load(Path(folder) / f"{function.__name__}.safetensors", function)
        runs: list[str] = []

        def watch(frame: Any, event: str, _: Any, runs: Any = runs, of: Any = function) -> None:
            if event == "call" and frame.f_code is of.__code__:
                runs.append(event)

        sys.setprofile(watch)
        first = outcome(fast, INPUTS[0])
        sys.setprofile(None)
        told[function.__name__] = [len(runs), len(fast.programs), first, *outcomes(fast, function)]
    print(json.dumps(told))
