"""Machine code by llvmlite: the bits of eager execution, and nothing left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

from .native_programs import native_names, normal

binding = pytest.importorskip("llvmlite.binding")


@pytest.fixture(autouse=True)
def always() -> Iterator[None]:
    ad.compiler.set_native("always")
    yield
    ad.compiler.set_native("auto")


def slope(x: ad.Tensor) -> list[Any]:
    y = (ad.sin(x) * ad.exp(-x * x) + x**2).sum()
    return [y, *ad.autograd.grad(y, [x])]


def engines() -> int:
    gc.collect()
    return sum(isinstance(o, binding.ExecutionEngine) for o in gc.get_objects())


def warm(f: Any, x: ad.Tensor) -> list[Any]:
    for _ in range(3):
        found = f(x)
    return normal(found)


@pytest.mark.parametrize("isa", ["base", "v3", "v4"])
def test_drawn_functions_have_the_bits_of_eager_execution(isa: str) -> None:
    program = "from tests.unit.compiler.native_programs import main; print(main(0, 24))"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "ADJOINT_ISA": isa},
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(ran.stdout) >= 20


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("n", [1, 15, 16, 4097, 40_001])
def test_lengths_that_are_no_multiple_of_a_vector(n: int, dtype: ad.dtype) -> None:
    x = (10 * ad.randn(n, dtype=dtype)).requires_grad_()
    with ad.no_grad():
        x[:: max(n // 3, 1)] = 3e5  # beyond what is computed in place: the library is asked
    f = ad.compile(slope, fullgraph=True)
    assert warm(f, x) == normal(slope(x))
    assert native_names(f)


def test_bodies_in_space_are_one_nest_of_loops() -> None:
    def f(x: ad.Tensor) -> list[Any]:
        apart = x[None] - x[:, None]
        squares = (apart * apart).sum(-1) + 0.01
        pull = (apart / (squares * squares.sqrt())[:, :, None]).sum(1)
        total = (pull * pull).sum() + pull.sum(0).sum()
        return [pull, total, *ad.autograd.grad(total, [x])]

    for count in (16, 32, 33):
        x = ad.randn(count, 3, requires_grad=True)
        assert warm(ad.compile(f, fullgraph=True), x) == normal(f(x))


def test_what_cannot_be_written_stays_as_it_is() -> None:
    def f(x: ad.Tensor) -> list[Any]:
        return [(x * 2 + 1).relu() * x, (x[:50].half() * 3 + 1).float() + x[:50], (x > 0).sum()]

    x = ad.randn(200)
    compiled = ad.compile(f, fullgraph=True)
    assert warm(compiled, x) == normal(f(x))
    assert any(" of " in name for name in native_names(compiled))


def test_loops_run_their_steps_as_machine_code() -> None:
    def loop(u: ad.Tensor, steps: int = 40) -> list[Any]:
        def step(u: Any, _: Any) -> Any:
            return u + 0.1 * (ad.roll(u, 1) - 2 * u + ad.roll(u, -1)) * u.cos(), None

        last, _ = ad.scan(step, u, length=steps)
        total = (last * last).sum()
        return [last, total, *ad.autograd.grad(total, [u])]

    u = ad.randn(100, requires_grad=True)
    found = normal(loop(u))
    ad.compiler.set_native("never")
    assert found == normal(loop(u))


def test_it_comes_when_it_pays_and_not_before() -> None:
    ad.compiler.set_native("auto")
    f, x = ad.compile(slope, fullgraph=True), ad.randn(20_000, requires_grad=True)
    want = warm(f, x)
    assert not native_names(f)
    end = time.monotonic() + 20
    while not native_names(f) and time.monotonic() < end:
        for _ in range(100):
            found = f(x)
    assert native_names(f)
    assert normal(found) == want


def test_never_means_never() -> None:
    ad.compiler.set_native("never")
    f, x = ad.compile(slope), ad.randn(50, requires_grad=True)
    warm(f, x)
    assert not native_names(f)
    with pytest.raises(ValueError, match="'auto', 'always' or 'never', not 'maybe'"):
        ad.compiler.set_native("maybe")


def test_a_failure_of_llvmlite_is_told_and_changes_no_result(monkeypatch: Any) -> None:
    def fail(text: str) -> Any:
        raise RuntimeError("no such instruction")

    f, x = ad.compile(slope, fullgraph=True), ad.randn(50, requires_grad=True)
    f(x)
    monkeypatch.setattr(binding, "parse_assembly", fail)
    with pytest.warns(UserWarning, match=r"no such instruction. Compiled functions go on without"):
        assert warm(f, x) == normal(slope(x))
    assert not native_names(f)


def test_machine_code_goes_with_its_program() -> None:
    before = engines()
    f, x = ad.compile(slope, fullgraph=True), ad.randn(50, requires_grad=True)
    warm(f, x)
    assert engines() > before
    del f
    assert engines() == before


def test_threads_that_run_a_program_while_it_is_compiled() -> None:
    x = ad.randn(70_000)
    f = ad.compile(lambda x: [(x.sin() * x).exp(), (x * x).sum()], fullgraph=True)
    want = normal([(x.sin() * x).exp(), (x * x).sum()])
    ad.compiler.set_native("auto")
    warm(f, x)
    wrong: list[int] = []

    def run(thread: int) -> None:
        for call in range(40):
            if thread == 0 and call == 5:
                ad.compiler.set_native("always")
            if normal(f(x)) != want:
                wrong.append(call)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert native_names(f)


def test_a_process_that_was_forked_goes_on() -> None:
    program = """
import os, sys, adjoint as ad
from tests.unit.compiler.test_native import slope, normal, warm
ad.set_num_threads(1)
ad.compiler.set_native("always")
f, x = ad.compile(slope, fullgraph=True), ad.randn(300, requires_grad=True)
want = warm(f, x)
child = os.fork()
g = ad.compile(lambda x: x.cos() * x + 1)
same = normal(f(x)) == want and normal([g(x)] and [g(x)]) == normal([x.cos() * x + 1])
if child == 0:
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_special_values() -> None:
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1e-38, 87.1, -104, 5e4]
    x = ad.tensor(values * 3)

    def f(x: ad.Tensor) -> list[Any]:
        y = x.flip(0)
        return [
            x.exp(), x.sin(), x.cos(), x / y, x * y - y, ad.maximum(x, y), x.clamp(-1, 1), x.sign(),
            x.relu(), x.sqrt(), x.rsqrt(), x.round(), ad.where(x < y, x, y), x.abs(),
            ad.lerp(x, y, 0.3), ad.addcmul(x, x, y, value=0.7), ad.add(x, y, alpha=0.3),
            x.reciprocal(), x.floor(),
        ]  # fmt: skip

    assert warm(ad.compile(f, fullgraph=True), x) == normal(f(x))
