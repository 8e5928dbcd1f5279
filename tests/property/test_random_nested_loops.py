"""Random programs of scans, branches and loops inside one another, beside the same in Python."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import adjoint as ad

UNARY = ("sin", "cos", "tanh", "sigmoid", "neg", "exp")
Code = list[tuple[Any, ...]]


class Ways(NamedTuple):
    scan: Callable[..., Any]
    cond: Callable[..., Any]
    until: Callable[..., Any]


def scan_in_python(step: Any, carry: Any, xs: Any, reverse: bool, **_: Any) -> Any:
    ys = []
    for x in reversed(list(xs)) if reverse else xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, ad.stack(ys[::-1] if reverse else ys)


def until_in_python(goes_on: Any, body: Any, state: Any) -> Any:
    while bool(goes_on(*state)):
        state = body(*state)
    return state


OURS = Ways(
    lambda step, c, xs, reverse, **kept: ad.scan(step, c, xs, reverse=reverse, **kept),
    lambda holds, a, b, c: ad.cond(holds, a, b, (c,)),
    ad.while_loop,
)
PYTHON = Ways(scan_in_python, lambda holds, a, b, c: a(c) if holds else b(c), until_in_python)


def drawn(rng: random.Random, depth: int, branches: bool) -> Code:
    code: Code = []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.random() if depth else 1.0
        if kind < 0.25:
            kept = rng.choice([{}, {"memory": "sqrt"}, {"snapshots": 2}])
            inner = drawn(rng, depth - 1, branches)
            code.append(("scan", inner, rng.randrange(2, 7), rng.random() < 0.3, kept))
        elif kind < 0.4 and branches:
            both = drawn(rng, depth - 1, branches), drawn(rng, depth - 1, branches)
            code.append(("cond", *both, rng.uniform(-1, 1)))
        elif kind < 0.5 and branches:
            code.append(("until", drawn(rng, depth - 1, branches), rng.randrange(4)))
        else:
            code.append(("op", rng.choice(UNARY), rng.randrange(2), rng.random() < 0.5))
    return code


def run(code: Code, c: ad.Tensor, params: list[ad.Tensor], ways: Ways) -> ad.Tensor:
    for kind, *rest in code:
        if kind == "op":
            w = params[rest[1]]
            c = getattr(c * 0.7, rest[0])()
            c = c * w if rest[2] else c + w * 0.1
        elif kind == "scan":
            inner, count, reverse, kept = rest

            def step(s: Any, x: Any, inner: Code = inner) -> Any:
                s = run(inner, s + x * 0.05, params, ways)
                return s, s * 0.5

            xs = ad.stack([c * (0.1 * k) for k in range(count)])
            last, ys = ways.scan(step, c, xs, reverse, **kept)
            c = last + ys.sum(0) * 0.1
        elif kind == "cond":
            first, second, least = rest

            def one(c: Any, code: Code = first) -> Any:
                return run(code, c, params, ways)

            def other(c: Any, code: Code = second) -> Any:
                return run(code, c, params, ways)

            c = ways.cond(c.sum() > least, one, other, c)
        else:

            def goes_on(_: Any, n: Any, most: int = rest[1]) -> Any:
                return n < most

            def body(s: Any, n: Any, code: Code = rest[0]) -> Any:
                return run(code, s, params, ways), n + 1

            c, _n = ways.until(goes_on, body, (c, ad.zeros(())))
    return c


def by_scan(code: Code, x: Any, params: Any, ways: Ways) -> Any:
    def step(c: Any, _: Any) -> Any:
        return run(code, c, params, ways), c

    return ways.scan(step, x, ad.zeros(4, dtype=x.dtype), False)[0]


def agree(a: Any, b: Any) -> bool:
    a, b = (ad.zeros(2, dtype=ad.float64) if t is None else t for t in (a, b))
    return bool(ad.allclose(a, b, rtol=1e-7, atol=1e-10, equal_nan=True))


@pytest.mark.parametrize("how", ["alone", "compiled", "in a scan", "twice", "vmap", "jvp"])
@pytest.mark.parametrize("seed", range(10))
def test_a_random_program(seed: int, how: str) -> None:
    rng = random.Random(f"{seed} {how}")
    ad.manual_seed(seed)
    code = drawn(rng, 3, True)
    params = [
        ad.randn(2, dtype=ad.float64).requires_grad_(rng.random() < 0.8 and how != "jvp")
        for _ in range(2)
    ]

    def of(ways: Ways) -> Callable[[ad.Tensor], Any]:
        whole = by_scan if how == "in a scan" else run
        if how == "jvp":
            return lambda x: ad.func.jvp(lambda y: run(code, y, params, ways), (x,), (x.cos(),))[1]
        if how == "vmap" and ways is PYTHON:
            return lambda x: ad.stack([run(code, row, params, ways) for row in x])
        if how == "vmap":
            return ad.vmap(lambda x: run(code, x, params, ways))
        return lambda x: whole(code, x, params, ways)

    ours, python = of(OURS), of(PYTHON)
    if how == "compiled":
        ours = ad.compile(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ad.compiler.CompileWarning)  # some run as Python
        for _ in range(2):
            x = ad.randn((3, 2) if how == "vmap" else 2, dtype=ad.float64)
            x.requires_grad_(rng.random() < 0.7 and how != "jvp")
            found, wanted = ours(x), python(x)
            assert agree(found, wanted)
            leaves = [t for t in (x, *params) if t.requires_grad]
            if not leaves or not wanted.requires_grad:
                continue
            twice = how == "twice"
            first, second = (
                ad.autograd.grad(t.cos().sum(), leaves, allow_unused=True, create_graph=twice)
                for t in (found, wanted)
            )
            assert all(map(agree, first, second))
            if twice:
                sums = [
                    sum(((g * g).sum() for g in gs if g is not None), ad.zeros(()))
                    for gs in (first, second)
                ]
                if all(t.requires_grad for t in sums):
                    more = [ad.autograd.grad(t, leaves, allow_unused=True) for t in sums]
                    assert all(map(agree, *more))
