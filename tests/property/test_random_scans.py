"""Random steps: `scan` beside the plain loop, to the last bit."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

UNARY = ("sin", "cos", "tanh", "exp", "sigmoid", "neg", "square")
BINARY = ("add", "sub", "mul")


class Body:
    """A step of random instructions on the carry, a row, and parameters from outside."""

    def __init__(
        self, rng: random.Random, carries: int, rows: int, params: list[ad.Tensor]
    ) -> None:
        self.params = params
        there = carries + rows + len(params)
        self.code: list[tuple[str, int, int]] = []
        for _ in range(rng.randrange(1, 8)):
            name = rng.choice([*UNARY, *BINARY, *BINARY, "roll", "sum"])
            self.code.append((name, rng.randrange(there), rng.randrange(there)))
            there += 1
        made = range(there - len(self.code), there)
        self.carry = [rng.choice(made) if rng.random() < 0.9 else k for k in range(carries)]
        self.ys = [
            rng.choice(self.carry) if rng.random() < 0.4 else rng.randrange(there)
            for _ in range(rng.randrange(3))
        ]
        # Where a tensor is handed on unchanged, all steps add to the gradient of the same tensor,
        # and the loop does so in another order.
        fresh = set(made)
        outside = set(range(carries + rows, carries + rows + len(params)))
        self.exact = len(set(self.carry) & fresh) == carries and not outside & set(self.ys)

    def __call__(self, carry: Any, x: Any) -> tuple[Any, Any]:
        values = [*carry, *(x or ()), *self.params]
        for name, i, j in self.code:
            a, b = values[i] * 0.5, values[j] * 0.3
            if name == "roll":
                values.append(a.roll(1))
            elif name == "sum":
                values.append(a.sum() * 0.1 + b)
            else:
                values.append(getattr(a, name)(*([b] if name in BINARY else [])))
        return tuple(values[k] for k in self.carry), [values[k] for k in self.ys]


def plain(step: Callable[..., Any], carry: Any, xs: Any, length: int, reverse: bool) -> Any:
    ys = []
    for t in reversed(range(length)) if reverse else range(length):
        carry, y = step(carry, None if xs is None else tuple(x[t] for x in xs))
        ys.append(y)
    if reverse:
        ys.reverse()
    return [*carry, *(ad.stack(column) for column in zip(*ys, strict=True))]


def agree(a: Any, b: Any, exact: bool) -> bool:
    if a is None or b is None:
        return a is b
    if not exact:
        return bool(ad.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))
    return a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("seed", range(150))
def test_a_random_step(seed: int) -> None:
    rng = random.Random(seed)
    ad.manual_seed(seed)
    dtype = rng.choice([ad.float32, ad.float64])
    shape = rng.choice([(), (3,), (2, 2)])
    length = rng.choice([1, 2, 3, 7, 20])

    def drawn(*size: int) -> ad.Tensor:
        return ad.randn(size, dtype=dtype).requires_grad_(rng.random() < 0.7)

    init = tuple(drawn(*shape) for _ in range(rng.randrange(1, 4)))
    xs = tuple(drawn(length, *shape) for _ in range(rng.randrange(3))) or None
    params = [drawn(*shape) for _ in range(rng.randrange(3))]
    used = [p * 1.5 if rng.random() < 0.5 else p for p in params]
    body = Body(rng, len(init), len(xs or ()), used)
    reverse = rng.random() < 0.3
    kept: Any = rng.choice(
        [{}, {"memory": "sqrt"}, {"snapshots": rng.randrange(1, 4)}, {"memory": "200B"}]
    )
    want = plain(body, init, xs, length, reverse)
    carry, ys = ad.scan(body, init, xs, length=length, reverse=reverse, **kept)
    found = [*carry, *ys]
    assert len(found) == len(want) and all(
        agree(a, b, True) for a, b in zip(found, want, strict=True)
    )
    asked = [k for k, t in enumerate(want) if t.requires_grad and rng.random() < 0.6]
    leaves = [t for t in (*init, *(xs or ()), *params) if t.requires_grad]
    if not asked or not leaves:
        return
    seeds = [ad.randn(want[k].shape, dtype=dtype) for k in asked]
    of_loop, of_scan = (
        ad.autograd.grad([ts[k] for k in asked], leaves, seeds, allow_unused=True)
        for ts in (want, found)
    )
    assert all(agree(a, b, body.exact) for a, b in zip(of_scan, of_loop, strict=True))


@pytest.mark.parametrize("seed", range(100))
def test_gradients_from_elsewhere(seed: int) -> None:
    """What the steps read is read before and after them too, or is the first carry itself."""
    rng = random.Random(3000 + seed)
    ad.manual_seed(seed)
    length = rng.choice([2, 4, 5, 12])
    params = [ad.randn(3, requires_grad=True) for _ in range(rng.randrange(1, 3))]
    scaled = [rng.random() < 0.3 for _ in params]
    own = [ad.randn(3, requires_grad=True) for _ in range(rng.randrange(1, 3))]
    first = [rng.randrange(len(params)) if rng.random() < 0.3 else -1 for _ in own]
    xs = (ad.randn(length, 3, requires_grad=True),) if rng.random() < 0.5 else None
    body = Body(rng, len(own), len(xs or ()), params)
    leaves = [*params, *own, *(xs or ())]
    kept = rng.choice([{}, {"memory": "sqrt"}, {"snapshots": 2}])
    around, form = rng.random() < 0.4, rng.choice(["alone", "compiled", "graph"])

    def scanned(step: Any, carry: Any, xs: Any, length: int, reverse: bool) -> Any:
        carry, ys = ad.scan(step, carry, xs, length=length, reverse=reverse, **kept)
        return [*carry, *ys]

    def run(loop: Callable[..., Any]) -> Any:
        used = [p * 1.5 if on else p for p, on in zip(params, scaled, strict=True)]
        init = tuple(t if k < 0 else used[k] for t, k in zip(own, first, strict=True))
        step = copy.copy(body)
        step.params = used

        def twice(c: Any, _: Any) -> Any:
            last = loop(step, c, xs, length, False)[: len(c)]
            return tuple(t.tanh() + used[0] * 0.1 for t in last), []

        before = [(t * 0.7).sin() for t in leaves]
        made = loop(twice, init, None, 5, False) if around else loop(step, init, xs, length, False)
        after = [(t * 0.3).cos() for t in (*leaves, *used)]
        return sum(((t * t).sum() for t in (*before, *made, *after)), ad.zeros(()))

    def slopes(loop: Callable[..., Any]) -> Any:
        graph = form == "graph"
        return ad.autograd.grad(run(loop), leaves, allow_unused=True, create_graph=graph)

    call = ad.compile(lambda: slopes(scanned)) if form == "compiled" else lambda: slopes(scanned)
    wanted = slopes(plain)
    for _ in range(2):
        assert all(agree(a, b, body.exact) for a, b in zip(call(), wanted, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_the_second_derivative_of_a_random_step(seed: int) -> None:
    rng = random.Random(1000 + seed)
    ad.manual_seed(seed)
    length = rng.choice([2, 3, 9])

    def drawn(*size: int) -> ad.Tensor:
        return ad.randn(size, dtype=ad.float64).requires_grad_(rng.random() < 0.8)

    init = tuple(drawn(3) for _ in range(rng.randrange(1, 3)))
    xs = tuple(drawn(length, 3) for _ in range(rng.randrange(2))) or None
    params = [drawn(3) for _ in range(rng.randrange(1, 3))]
    used = [p * 1.5 if rng.random() < 0.5 else p for p in params]
    body = Body(rng, len(init), len(xs or ()), used)
    reverse = rng.random() < 0.3
    want = plain(body, init, xs, length, reverse)
    carry, ys = ad.scan(body, init, xs, length=length, reverse=reverse)
    found = [*carry, *ys]
    asked = [k for k, t in enumerate(want) if t.requires_grad and rng.random() < 0.7]
    leaves = [t for t in (*init, *(xs or ()), *params) if t.requires_grad]
    if not asked or not leaves:
        return
    seeds = [ad.randn(want[k].shape, dtype=ad.float64, requires_grad=True) for k in asked]
    first = [
        ad.autograd.grad(
            [ts[k] for k in asked], leaves, seeds, create_graph=True, allow_unused=True
        )
        for ts in (want, found)
    ]
    assert all(agree(a, b, body.exact) for a, b in zip(*first, strict=True))
    second = []
    for gs in first:
        loss = sum(((g * g.cos()).sum() for g in gs if g is not None), ad.zeros(()))
        there = loss.requires_grad
        by = [*leaves, *seeds]
        second.append(ad.autograd.grad(loss, by, allow_unused=True) if there else None)
    assert (second[0] is None) == (second[1] is None)
    if second[0] is not None:
        for a, b in zip(*second, strict=True):
            zero = [None if t is None or not t.any() else t for t in (a, b)]
            assert agree(*zero, False)


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "vmap": lambda f, args, k: ad.vmap(f)(*(ad.stack([a, a * 0.5]) for a in args)),
    "vmap of one": lambda f, args, k: ad.vmap(
        f, in_dims=tuple(0 if n == k else None for n in range(len(args)))
    )(*(ad.stack([a, a * 0.5]) if n == k else a for n, a in enumerate(args))),
    "jvp": lambda f, args, k: ad.func.jvp(
        lambda z: f(*args[:k], z, *args[k + 1 :]), (args[k],), (args[k].cos(),)
    ),
    "jacfwd": lambda f, args, k: ad.func.jacfwd(f, argnums=k)(*args),
    "jacrev": lambda f, args, k: ad.func.jacrev(f, argnums=k)(*args),
    "hessian": lambda f, args, k: ad.func.hessian(
        lambda *a: sum((t.sin().sum() for t in f(*a)), ad.zeros((), dtype=ad.float64)), argnums=k
    )(*args),
}


@pytest.mark.parametrize("seed", range(60))
def test_a_random_step_in_a_transform(seed: int) -> None:
    rng = random.Random(2000 + seed)
    ad.manual_seed(seed)
    length, reverse = rng.choice([2, 3, 4, 7]), rng.random() < 0.3
    carries, rows, params = rng.randrange(1, 3), rng.randrange(2), rng.randrange(1, 3)
    sizes = [(2,)] * carries + [(length, 2)] * rows + [(2,)] * params
    args = [ad.randn(size, dtype=ad.float64) for size in sizes]
    body = Body(rng, carries, rows, args[carries + rows :])
    name, k = rng.choice(list(TRANSFORMS)), rng.randrange(len(args))

    def run(scanned: bool) -> Callable[..., tuple[ad.Tensor, ...]]:
        def f(*a: ad.Tensor) -> tuple[ad.Tensor, ...]:
            own = copy.copy(body)
            own.params = list(a[carries + rows :])
            init, xs = a[:carries], a[carries : carries + rows] or None
            if not scanned:
                return tuple(plain(own, init, xs, length, reverse))
            carry, ys = ad.scan(own, init, xs, length=length, reverse=reverse)
            return (*carry, *ys)

        return f

    found, wanted = (
        ad.utils._pytree.tree_leaves(TRANSFORMS[name](run(on), args, k)) for on in (True, False)
    )
    exact = name not in ("jacrev", "hessian")
    assert all(agree(a, b, exact) for a, b in zip(found, wanted, strict=True))
