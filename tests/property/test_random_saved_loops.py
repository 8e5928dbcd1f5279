"""Random programs of loops inside one another, from a file: the bits of the process that saved."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import load
from tests.property.test_random_nested_loops import OURS, drawn, run
from tests.property.test_random_scans import Body


def outcome(function: Any, x: ad.Tensor, by: list[ad.Tensor]) -> list[Any]:
    found = function(x)
    if not found.requires_grad:
        return [found]
    return [found, *ad.autograd.grad(found.cos().sum(), by, allow_unused=True)]


def same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return bool(a.detach().numpy().tobytes() == b.detach().numpy().tobytes())


@pytest.mark.parametrize("seed", range(25))
def test_a_random_program_is_the_same_from_a_file(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"saved {seed}")
    ad.manual_seed(seed)
    code = drawn(rng, rng.choice((1, 2, 3)), True)
    params = [ad.randn(2, dtype=ad.float64).requires_grad_(rng.random() < 0.8) for _ in range(2)]
    on = rng.random() < 0.8

    def function(x: Any) -> Any:
        return run(code, x, params, OURS)

    def given() -> ad.Tensor:
        return (ad.randn(2, dtype=ad.float64) * rng.choice((0.1, 1, 3))).requires_grad_(on)

    with warnings.catch_warnings():
        warnings.simplefilter("error", ad.compiler.CompileWarning)
        fast = ad.compile(function)
        x = given()
        by = [t for t in (x, *params) if t.requires_grad]
        alive = outcome(fast, x, by) if rng.random() < 0.5 else fast(x)
        fast.save(tmp_path / "p.safetensors")
        again = load(tmp_path / "p.safetensors", function)
        for _ in range(4):
            x = given()
            by = [t for t in (x, *params) if t.requires_grad]
            ours, theirs = outcome(again, x, by), outcome(fast, x, by)
            assert all(map(same, ours, theirs))
            if rng.random() < 0.3:
                with ad.no_grad():
                    params[0].add_(0.01)
        assert len(again.programs) == 1
    del alive


@pytest.mark.parametrize("seed", range(25))
def test_a_random_step_is_the_same_from_a_file(seed: int, tmp_path: Path) -> None:
    """Several carries and outputs, of which some arrive, in every kind of memory."""
    rng = random.Random(f"saved step {seed}")
    ad.manual_seed(seed)
    dtype = rng.choice([ad.float32, ad.float64])
    shape = rng.choice([(), (3,), (2, 2)])
    length = rng.choice([4, 5, 7, 20])
    needs = [rng.random() < 0.7 for _ in range(6)]
    carries, rows = rng.randrange(1, 4), rng.randrange(3)
    params = [ad.randn(shape, dtype=dtype, requires_grad=rng.random() < 0.7) for _ in range(2)]
    body = Body(rng, carries, rows, params[: rng.randrange(3)])
    kept: Any = rng.choice(
        [{}, {"memory": "sqrt"}, {"snapshots": rng.randrange(1, 4)}, {"memory": "200B"}]
    )
    reverse, twice = rng.random() < 0.3, rng.random() < 0.3

    def scanned(init: Any, xs: Any) -> Any:
        carry, ys = ad.scan(body, init, xs or None, length=length, reverse=reverse, **kept)
        return (*carry, *ys)

    def function(*tensors: Any) -> Any:
        init, xs = tensors[:carries], tensors[carries:]
        if not twice:
            return scanned(init, xs)

        def outer(c: Any, _: Any) -> Any:
            found = scanned(c, xs)
            return tuple(t.tanh() for t in found[:carries]), [t.sum() for t in found[carries:]]

        carry, ys = ad.scan(outer, init, length=4)
        return (*carry, *ys)

    def given() -> list[ad.Tensor]:
        sizes = [shape] * carries + [(length, *shape)] * rows
        pairs = zip(sizes, needs, strict=False)
        return [ad.randn(size, dtype=dtype, requires_grad=on) for size, on in pairs]

    def found(f: Any, tensors: list[ad.Tensor], which: list[float]) -> list[Any]:
        results = f(*tensors)
        parts = [
            t.cos().sum() * k for t, k in zip(results, which, strict=False) if t.requires_grad and k
        ]
        by = [t for t in (*tensors, *params) if t.requires_grad]
        total = sum(parts)
        grads = ad.autograd.grad(total, by, allow_unused=True) if parts and by else []
        return [*results, *grads]

    with warnings.catch_warnings():
        warnings.simplefilter("error", ad.compiler.CompileWarning)
        fast = ad.compile(function)
        alive = fast(*given())
        fast.save(tmp_path / "p.safetensors")
        again = load(tmp_path / "p.safetensors", function)
        for _ in range(3):
            tensors, which = given(), [rng.choice((0, 1, 2)) for _ in range(6)]
            ours, theirs = found(again, tensors, which), found(fast, tensors, which)
            assert len(ours) == len(theirs) and all(map(same, ours, theirs))
        assert len(again.programs) == 1
    del alive
