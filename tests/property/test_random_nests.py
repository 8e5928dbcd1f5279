"""Loops, branches, transforms, checkpoints and programs inside one another, beside plain Python.

States are composites of all kinds; steps draw random numbers, change tensors in place, call
externals; loops may have no step at all.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import func
from adjoint.utils.checkpoint import checkpoint

Code = list[tuple[Any, ...]]
UNARY = ("sin", "cos", "tanh", "sigmoid", "neg", "atan", "square")


@dataclasses.dataclass
class Data:
    a: Any
    b: Any
    name: str = "d"


class Pair(NamedTuple):
    a: Any
    b: Any


@ad.composite
class Own:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


FORMS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], tuple[Any, Any]]]] = {
    "list": (lambda a, b: [a, b], lambda s: (s[0], s[1])),
    "dict": (lambda a, b: {"p": {"a": a}, "q": [b, None]}, lambda s: (s["p"]["a"], s["q"][0])),
    "dataclass": (Data, lambda s: (s.a, s.b)),
    "namedtuple": (Pair, lambda s: (s.a, s.b)),
    "own": (Own, lambda s: (s.a, s.b)),
    "deep": (
        lambda a, b: (Data(Pair(a, "t"), {"z": Own(b, None)}),),
        lambda s: (s[0].a.a, s[0].b["z"].a),
    ),
}
outside = ad.external(lambda x: 0.8 * np.tanh(x), vjp=lambda g, x: g * 0.8 * (1 - np.tanh(x) ** 2))


class Python:
    """Each construct as it would be written without adjoint's."""

    @staticmethod
    def scan(step: Any, carry: Any, xs: Any, length: int, reverse: bool, **_: Any) -> Any:
        ys = []
        for t in reversed(range(length)) if reverse else range(length):
            carry, y = step(carry, None if xs is None else {k: x[t] for k, x in xs.items()})
            ys.append(y)
        if reverse:
            ys.reverse()
        return carry, ad.stack(ys) if ys and ys[0] is not None else None

    @staticmethod
    def until(goes_on: Any, body: Any, state: Any) -> Any:
        while bool(goes_on(*state)):
            state = body(*state)
        return state

    @staticmethod
    def cond(holds: Any, a: Any, b: Any, given: Any) -> Any:
        return a(*given) if bool(holds) else b(*given)

    @staticmethod
    def each(f: Any, xs: Any, _: bool) -> Any:
        return ad.stack([f(x) for x in xs])

    @staticmethod
    def program(f: Any) -> Any:
        return f

    @staticmethod
    def checkpoint(f: Any, *given: Any) -> Any:
        return f(*given)

    @staticmethod
    def checkpoint_loop(step: Any, carry: Any, length: int, **_: Any) -> Any:
        return Python.scan(step, carry, None, length, False)


class Ours:
    """The same by adjoint."""

    @staticmethod
    def scan(step: Any, carry: Any, xs: Any, length: int, reverse: bool, **kept: Any) -> Any:
        return ad.scan(step, carry, xs, length=length, reverse=reverse, **kept)

    until, cond, program = ad.while_loop, ad.cond, ad.compile

    @staticmethod
    def each(f: Any, xs: Any, together: bool) -> Any:
        return ad.vmap(f)(xs) if together else ad.loops.map(f, xs)

    @staticmethod
    def checkpoint(f: Any, *given: Any) -> Any:
        return checkpoint(f, *given, use_reentrant=False)

    @staticmethod
    def checkpoint_loop(step: Any, carry: Any, length: int, **kept: Any) -> Any:
        return ad.checkpoint_loop(step, carry, length=length, **kept)


BLOCKS = ("scan", "until", "cond", "each", "slope", "tangent", "program", "checkpoint", "by hand")
EFFECTS = ("random", "in place", "external", "disk")
# A batch draws no numbers of its own; checkpoints refuse forward mode, and derivatives inside.
NOT_IN_A_BATCH = {"in place", "random", "external", "checkpoint", "by hand", "disk"}
NOT_IN_A_SLOPE = {"random", "external", "checkpoint", "by hand", "disk"}


def drawn(rng: random.Random, depth: int, allowed: set[str], folder: str) -> Code:
    def inner(without: set[str] | None = None) -> Code:
        return drawn(rng, depth - 1, allowed - (without or set()), folder)

    def kept() -> dict[str, Any]:
        some: list[dict[str, Any]] = [{}, {}, {"memory": "sqrt"}, {"memory": "200B"}]
        some.append({"snapshots": rng.randrange(1, 4)})
        if "disk" in allowed:
            some.append({"snapshots": 2, "disk": folder})
        return rng.choice(some)

    code: Code = []
    for _ in range(rng.randrange(1, 4)):
        kinds = ["op", "op", "op", "two", "two", *(k for k in EFFECTS[:3] if k in allowed)]
        if depth:
            kinds += ["scan", "scan", *(k for k in BLOCKS if k in allowed)]
        kind, form = rng.choice(kinds), rng.choice([*FORMS])
        rest: tuple[Any, ...] = (rng.randrange(2),)
        if kind == "op":
            rest = (rng.choice(UNARY), *(rng.randrange(2) for _ in range(3)), rng.random() < 0.5)
        elif kind == "two":
            rest = (rng.choice(["add", "mul", "where", "div"]), rng.randrange(2))
        elif kind == "scan":
            ys = rng.choice(["none", "carry", "new"])
            count = rng.choice([0, 1, 2, 3, 4, 7])
            rest = (inner(), count, rng.random() < 0.3, form, rng.random() < 0.5, ys, kept())
        elif kind == "until":
            rest = (inner(), rng.randrange(4))
        elif kind == "cond":
            rest = (inner(), inner(), rng.uniform(-1, 1))
        elif kind == "each":
            together = rng.random() < 0.5
            rest = (inner(NOT_IN_A_BATCH if together else set()), rng.randrange(1, 5), together)
        elif kind in ("slope", "tangent"):
            rest = (inner(NOT_IN_A_SLOPE), rng.randrange(2))
        elif kind in ("program", "checkpoint"):
            rest = (inner({"slope", "tangent"} if kind == "checkpoint" else set()),)
        elif kind == "by hand":
            rest = (inner({"slope", "tangent"}), rng.randrange(5), form, rng.randrange(1, 4))
        code.append((kind, *rest))
    return code


def run(code: Code, v: tuple[Any, Any], params: list[Any], by: Any) -> tuple[Any, Any]:
    for kind, *rest in code:
        v = RUN[kind](v, params, by, *rest)
    return v


def at(v: tuple[Any, Any], k: int, new: Any) -> tuple[Any, Any]:
    return (v[0], new) if k else (new, v[1])


def op(v: Any, ps: Any, by: Any, name: str, i: int, j: int, k: int, into: bool) -> Any:
    x = getattr(v[i] * 0.7, name)()
    return at(v, j, x * ps[k] if into else x + ps[k] * 0.1)


def two(v: Any, ps: Any, by: Any, name: str, i: int) -> Any:
    a, b = v[i], v[1 - i] * 0.5
    if name == "where":
        return at(v, i, ad.where(a > b, a.sin(), b))
    return at(v, i, a / (b * b + 1.5) if name == "div" else getattr(a * 0.8, name)(b))


def in_place(v: Any, ps: Any, by: Any, i: int) -> Any:
    x = v[i] * 1.0
    x.mul_(0.9)
    x[0] = v[1 - i][1] * 0.5
    return at(v, i, x)


def scan(
    v: Any,
    ps: Any,
    by: Any,
    inner: Code,
    n: int,
    back: bool,
    form: str,
    rows: bool,
    ys: str,
    kept: Any,
) -> Any:
    build, parts = FORMS[form]
    xs = None
    if rows:
        x = ad.stack([v[0] * (0.1 * t) for t in range(n)]) if n else v[0].new_zeros(0, 3)
        xs = {"u": x, "w": x.cos()}

    def step(s: Any, x: Any) -> Any:
        a, b = parts(s)
        if x is not None:
            a, b = a + x["u"] * 0.1, b * x["w"]
        a, b = run(inner, (a, b), ps, by)
        return build(a, b), {"none": None, "carry": a, "new": a * b}[ys]

    last, out = by.scan(step, build(*v), xs, n, back, **kept)
    a, b = parts(last)
    return (a, b) if n == 0 or ys == "none" else (a, b + (out * 0.3).sum(0))


def until(v: Any, ps: Any, by: Any, inner: Code, n: int) -> Any:
    def body(a: Any, b: Any, k: Any) -> Any:
        return *run(inner, (a, b), ps, by), k + 1

    return tuple(by.until(lambda a, b, k: k < n, body, (*v, ad.tensor(0)))[:2])


def cond(v: Any, ps: Any, by: Any, first: Code, second: Code, least: float) -> Any:
    one, other = (lambda a, b, code=c: run(code, (a, b), ps, by) for c in (first, second))
    return by.cond(v[0].sum() > least, one, other, v)


def each(v: Any, ps: Any, by: Any, inner: Code, n: int, together: bool) -> Any:
    w = v[1]
    xs = ad.stack([v[0] * (0.2 * t + 0.3) for t in range(n)])
    ys = by.each(lambda x: ad.stack(run(inner, (x, w), ps, by)), xs, together)
    return ys[:, 0].sum(0) * 0.5, (ys[:, 1] * 0.3).sum(0)


def slope(v: Any, ps: Any, by: Any, inner: Code, i: int) -> Any:
    def f(x: Any) -> Any:
        a, b = run(inner, at(v, i, x), ps, by)
        return (a.sin() + b).sum()

    return at(v, i, func.grad(f)(v[i]).tanh())


def tangent(v: Any, ps: Any, by: Any, inner: Code, i: int) -> Any:
    found = func.jvp(lambda x: ad.stack(run(inner, at(v, i, x), ps, by)), (v[i],), (v[i].cos(),))
    return found[0][0], found[1][1].tanh()


def by_hand(v: Any, ps: Any, by: Any, inner: Code, n: int, form: str, room: int) -> Any:
    build, parts = FORMS[form]

    def step(s: Any, _: Any) -> Any:
        a, b = parts(s)
        return build(*run(inner, (-a if a.sum() > 0 else a, b), ps, by)), None

    return parts(by.checkpoint_loop(step, build(*v), n, snapshots=room)[0])


RUN: dict[str, Callable[..., Any]] = {
    "op": op,
    "two": two,
    "in place": in_place,
    "random": lambda v, ps, by, i: at(v, i, v[i] + ad.rand(3, dtype=ad.float64) * 0.1),
    "external": lambda v, ps, by, i: at(v, i, outside(v[i])),
    "scan": scan,
    "until": until,
    "cond": cond,
    "each": each,
    "slope": slope,
    "tangent": tangent,
    "program": lambda v, ps, by, c: tuple(by.program(lambda a, b: run(c, (a, b), ps, by))(*v)),
    "checkpoint": lambda v, ps, by, c: by.checkpoint(lambda a, b: run(c, (a, b), ps, by), *v),
    "by hand": by_hand,
}


def agree(a: Any, b: Any, close: float) -> bool:
    a, b = (ad.zeros(3, dtype=ad.float64) if t is None else t for t in (a, b))
    return bool(ad.allclose(a, b, rtol=close, atol=close, equal_nan=True))


@pytest.mark.parametrize("how", ["alone", "compiled", "twice", "in a scan", "in a checkpoint"])
@pytest.mark.parametrize("seed", range(30))
def test_a_random_nest(seed: int, how: str, tmp_path: Path) -> None:
    rng = random.Random(f"nest {seed} {how}")
    allowed = {k for k in (*BLOCKS, *EFFECTS) if rng.random() < 0.6}
    if how == "in a checkpoint":
        allowed -= {"slope", "tangent"}
    code = drawn(rng, rng.choice([1, 2, 2, 3]), allowed, str(tmp_path))
    ad.manual_seed(seed)
    leaves = [ad.randn(3, dtype=ad.float64).requires_grad_(rng.random() < 0.8) for _ in range(4)]
    asked = [t for t in leaves if t.requires_grad]

    def outcome(by: Any) -> list[tuple[float, Any]]:
        def f(a: Any, b: Any) -> Any:
            return run(code, (a, b), leaves[2:], by)

        def in_a_scan(a: Any, b: Any) -> Any:
            return by.scan(lambda c, _: (f(*c), None), (a, b), None, 4, False)[0]

        call = {"compiled": by.program(f), "in a scan": in_a_scan}.get(how, f)
        if how == "in a checkpoint":
            call = lambda *v: by.checkpoint(f, *v)  # noqa: E731
        ad.manual_seed(seed)
        found: list[tuple[float, Any]] = []
        for _ in range(2):
            results = call(*leaves[:2])
            found += [(1e-12, t.detach()) for t in results]
            ends = [t for t in results if t.requires_grad]
            if ends and asked:
                twice = how == "twice"
                loss = sum((t * t.detach().cos()).sum() for t in ends)
                slopes = ad.autograd.grad(loss, asked, allow_unused=True, create_graph=twice)
                found += [(1e-11, t) for t in slopes]
                more = [t.sin().sum() for t in slopes if t is not None and t.requires_grad]
                if twice and more:
                    seconds = ad.autograd.grad(sum(more), asked, allow_unused=True)
                    found += [(1e-9, t) for t in seconds]
            found.append((0.0, ad.rand(3, dtype=ad.float64)))  # the generator is where it should be
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ad.compiler.CompileWarning)  # some run as Python
        ours, wanted = outcome(Ours), outcome(Python)
    assert len(ours) == len(wanted)
    assert all(agree(a, b, close) for (close, a), (_, b) in zip(ours, wanted, strict=True))
    assert not any(tmp_path.iterdir())
