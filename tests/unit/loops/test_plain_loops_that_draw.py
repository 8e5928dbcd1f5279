"""Plain `for` loops of compiled functions that draw random numbers, and become scans.

The numbers are those of eager execution: in the loop, behind it, and in later calls, which draw
others. See test_plain_for_loops.py for the loops themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from adjoint._for_loops import _takeover
from adjoint._for_loops._frames import understood

Function = Callable[..., Any]
pytestmark = pytest.mark.skipif(not understood(), reason="frames of this Python are not known")
N = 150
own = ad.Generator()


@pytest.fixture(autouse=True)
def look_at_short_programs() -> Iterator[None]:
    before = _core._follow_from(60), _core._roll_from(1000)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def outcomes(function: Function) -> list[Any]:
    """Of some calls in a row: results, gradients, and what is drawn behind them."""
    ad.manual_seed(3)
    own.manual_seed(3)
    a, w = ad.randn(3).requires_grad_(), (0.4 * ad.randn(3, 3)).requires_grad_()
    found = []
    for _ in range(4):
        result = function(a, w)
        (slope, other) = ad.autograd.grad((result * ad.tensor([0.3, 0.5, 0.7])).sum(), (a, w))
        after = ad.rand(2), ad.randn(3), ad.rand(2, generator=own)
        found.append([t.tolist() for t in (result, slope, other, *after)])
    return found


def what_becomes_of(function: Function) -> list[str]:
    expected = outcomes(function)
    fast = ad.compile(function, fullgraph=True)
    _takeover.decisions.clear()
    assert outcomes(fast) == expected
    assert len(fast.programs) == 1
    return [*_takeover.decisions]


def noise(a: Any, w: Any) -> Any:
    for _ in range(N):
        a = ad.tanh(w @ a) + 0.1 * ad.rand(3)
    return a + ad.rand(3)


def several_kinds(a: Any, w: Any) -> Any:
    for _ in range(N):
        m = ad.nn.functional.dropout(w, 0.3)
        a = ad.tanh(m @ a) + 0.1 * ad.randn_like(a) * ad.normal(a.detach(), 0.5)
        a = a + ad.bernoulli(ad.full((3,), 0.5)) + 0.01 * ad.randint(3, (3,))
    return a


def numbers_that_nobody_reads(a: Any, w: Any) -> Any:
    for _ in range(N):
        ad.randn(5)
        a = ad.tanh(w @ a)
    return a


def loops_in_a_loop(a: Any, w: Any) -> Any:
    for _ in range(30):
        for _ in range(40):
            a = ad.tanh(w @ a) + 0.1 * ad.rand(3)
        a = a * ad.rand(())
    return a


def a_solver(a: Any, w: Any) -> Any:
    """An error of a step: the plain loop goes on, and draws for itself."""
    try:
        m = ad.eye(3)
        for _ in range(N):
            m = m - ad.eye(3) / 128
            a = ad.linalg.solve(m, w @ a + ad.rand(3)) / 128
    except RuntimeError:
        a = a * 0.5
    return a


@pytest.mark.parametrize(
    "function", [noise, several_kinds, numbers_that_nobody_reads, loops_in_a_loop]
)
def test_numbers_are_those_of_the_plain_loop(function: Function) -> None:
    assert "taken over" in what_becomes_of(function)


def test_numbers_after_an_error_are_those_of_the_plain_loop() -> None:
    expected = outcomes(a_solver)
    with pytest.warns(ad.compiler.CompileWarning):
        assert outcomes(ad.compile(a_solver)) == expected


def test_a_generator_of_ones_own() -> None:
    """Its numbers are not drawn twice where a step was only tried."""

    def function(a: Any, w: Any) -> Any:
        for _ in range(N):
            a = ad.tanh(w @ a) + 0.1 * ad.rand(3, generator=own)
        return a

    assert "taken over" not in what_becomes_of(function)


def test_a_generator_of_ones_own_in_loops_of_other_kinds() -> None:
    def by_scan(a: Any, w: Any) -> Any:
        def step(a: Any, _: Any) -> Any:
            return ad.tanh(w @ a) + 0.1 * ad.rand(3, generator=own), None

        return ad.scan(step, a, length=20)[0]

    def by_cond(a: Any, w: Any) -> Any:
        def drawn(a: Any) -> Any:
            return w @ a + ad.rand(3, generator=own)

        return ad.cond(a.sum() > 0, drawn, drawn, (a,))

    def by_while_loop(a: Any, w: Any) -> Any:
        def more(a: Any) -> Any:
            return a + w.sum() ** 2 + ad.rand(3, generator=own)

        return ad.while_loop(lambda a: a.sum() < 100, more, a)

    for function in (by_scan, by_cond, by_while_loop):
        expected = outcomes(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ad.compiler.CompileWarning)
            assert outcomes(ad.compile(function)) == expected


def test_scans_draw_what_plain_loops_draw_from_a_generator_of_ones_own() -> None:
    def step(a: Any, _: Any) -> Any:
        return ad.tanh(a) + ad.rand(3, generator=own), None

    own.manual_seed(3)
    a = ad.ones(3)
    for _ in range(20):
        a, _ = step(a, None)
    own.manual_seed(3)
    assert ad.scan(step, ad.ones(3), length=20)[0].tolist() == a.tolist()


def test_a_state_that_is_differentiated_by_inside() -> None:
    """The call is made once more, from the numbers that it began with."""

    def function(a: Any, w: Any) -> Any:
        states = []
        for _ in range(N):
            a = ad.tanh(w @ a) + 0.1 * ad.rand(3)
            states.append(a)
        return ad.autograd.grad(a.sum(), states[-30], create_graph=True)[0] + ad.rand(3)

    assert what_becomes_of(function) == ["taken over"]


def test_programs_do_not_grow_with_the_length() -> None:
    sizes = []
    for count in (500, 5000):

        def function(a: Any, w: Any, count: int = count) -> Any:
            for _ in range(count):
                a = ad.tanh(w @ a) + 0.1 * ad.rand(3)
            return a

        fast = ad.compile(function)
        a, w = ad.ones(3, requires_grad=True), ad.ones(3, 3)
        for _ in range(2):
            fast(a, w).sum().backward()
        (one,) = fast.programs
        sizes.append((len(one.program.code()), len(one.backward.code())))
    assert max(*sizes[0], *sizes[1]) < 300  # some steps are left, which make no whole round


def test_programs_in_files(tmp_path: Path) -> None:
    fast = ad.compile(noise)
    outcomes(fast)
    fast.save(tmp_path / "loop.safetensors")
    loaded = ad.compiler.load(tmp_path / "loop.safetensors", noise)
    expected = outcomes(noise)
    assert outcomes(loaded) == expected


def test_verified_calls() -> None:
    expected = outcomes(noise)
    assert outcomes(ad.compile(noise, verify=True)) == expected
