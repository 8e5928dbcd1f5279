"""Plain loops of compiled functions: one instruction, and every bit that eager execution has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint import _core

State = dict[str, Any]


@pytest.fixture(autouse=True)
def roll_short_programs() -> Iterator[None]:
    before = _core._roll_from(40)
    yield
    _core._roll_from(before)


def bits(x: Any) -> Any:
    """Everything but which NaN it is: of two that are added, either may come out."""
    if x is None:
        return None
    values = np.array(x.detach())
    values[np.isnan(values)] = np.nan
    return x.dtype, x.shape, x.stride(), values.tobytes()


def arguments(seed: int, wants: list[bool]) -> list[ad.Tensor]:
    ad.manual_seed(seed)
    made = [ad.randn(3), ad.randn(3), ad.tensor(0.7), 0.3 * ad.randn(50, 3), 0.4 * ad.randn(3, 3)]
    return [t.requires_grad_(on) for t, on in zip(made, wants, strict=True)]


def outcome(function: Callable[..., Any], seed: int, wants: list[bool]) -> list[Any]:
    """Results, gradients, and what the generator gives next."""
    tensors = arguments(seed, wants)
    results = function(*tensors)
    ends = [(y * ad.linspace(0.3, 1.1, y.numel()).reshape(y.shape)).sum() for y in results]
    if any(end.requires_grad for end in ends):
        sum(end for end in ends if end.requires_grad).backward()
    return [bits(y) for y in (*results, *(t.grad for t in tensors), ad.rand(2))]


def check(
    function: Callable[..., Any], seed: int = 0, wants: list[bool] | None = None
) -> list[str]:
    """Compare recorded call and replays with the function; the names of all instructions."""
    wants = wants or [True] * 5
    expected = outcome(function, seed, wants)
    fast = ad.compile(function)
    for _ in range(3):
        assert outcome(fast, seed, wants) == expected
    one = fast.programs[0]
    parts = [one.program] + ([one.backward] if one.backward is not None else [])
    return [row[0] for part in parts for row in part.code()]


def loops(names: list[str]) -> int:
    return sum(name.startswith("loop of") for name in names)


# What a step may do, on named tensors `a` and `b`, in step i.
TERMS: tuple[Callable[[State, int], Any], ...] = (
    lambda s, i: ad.sin(s["a"]),
    lambda s, i: s["b"] * s["k"],
    lambda s, i: s["a"] @ s["w"],
    lambda s, i: s["xs"][i],
    lambda s, i: s["xs"][-1 - i] * s["a"],
    lambda s, i: s["b"].roll(1) - s["b"][:1],
    lambda s, i: ad.stack([s["a"][2], s["b"][0], s["a"].sum()]),
    lambda s, i: s["a"].reshape(3, 1).T[0] * 0.5,
    lambda s, i: s["k"] * 2,
    lambda s, i: s["b"] * ad.tensor(0.25),
    lambda s, i: s["b"] * (0.01 * i),
    lambda s, i: ad.tensor(0.01 * i) + s["a"],
    lambda s, i: ad.rand(3),
    lambda s, i: s["a"].detach() * s["b"],
    lambda s, i: s["before"] * 0.3,
    lambda s, i: s["kept"][i] + s["first"],
)


def change(s: State, i: int, which: int) -> None:
    """Change something in place."""
    if which == 1:
        s["a"] = s["a"] * 1.0
        s["a"][0] = 0.5
    elif which == 2:
        s["kept"][i + 1] = s["kept"][i] + s["a"].sum().detach()
    elif which == 3:
        s["first"] += 0.1 * s["b"].detach()
    elif which == 4:
        s["b"] = s["b"] + s["first"]
        s["b"].mul_(s["k"])


def random_loop(rng: random.Random) -> Callable[..., Any]:
    count, inner = rng.randint(5, 24), rng.choice((1, 1, 1, 5))
    plan = [(rng.choice("ab"), rng.sample(TERMS, 2)) for _ in range(rng.randint(1, 4))]
    changes, appended = rng.choice((0, 0, 1, 2, 3, 4)), rng.choice("ab")
    ending, leaves_at = rng.randrange(5), rng.choice((count, rng.randint(3, count)))
    # From some step on it does something else; and one step does something more.
    turns_at, odd = (
        rng.choice((count, rng.randrange(count))),
        rng.choice((-1, rng.randrange(count))),
    )
    later = [(name, terms[::-1]) for name, terms in plan[::-1]]

    def function(*tensors: ad.Tensor) -> Any:
        s: State = dict(zip(("a", "b", "k", "xs", "w"), tensors, strict=True))
        s |= {"kept": ad.zeros(30), "first": ad.ones(3), "before": s["a"]}
        rows = []
        for i in range(count):
            for _ in range(inner):
                last = s["a"]
                for name, terms in plan if i < turns_at else later:
                    s[name] = 0.5 * terms[0](s, i) + 0.5 * s[name] * terms[1](s, i)
                change(s, i, changes)
                s["before"] = last
                rows.append(s[appended])
            if i == odd:
                s["b"] = s["b"] + s["a"] * 0.125
            if i + 1 == leaves_at:
                break
        stacked = (
            lambda: ad.stack(rows),
            lambda: ad.stack(rows[::-1]),
            lambda: ad.stack(rows[1:-1], 1),
            lambda: sum(rows),
            lambda: rows[len(rows) // 2] * rows[-2],
        )[ending]()
        return s["a"].sum() + s["b"].sum(), stacked, s["kept"] * 1, s["first"] * 1

    return function


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_random_loops_are_eager_to_the_last_bit(seed: int) -> None:
    rng = random.Random(seed)
    _core._roll_from(rng.choice((8, 40, 200)))
    check(random_loop(rng), seed % 1000, [rng.random() < 0.8 for _ in range(5)])


def heat(count: int) -> Callable[..., Any]:
    def function(a: ad.Tensor, b: ad.Tensor, k: ad.Tensor, xs: ad.Tensor, w: ad.Tensor) -> Any:
        rows = []
        for i in range(count):
            a = a + 0.1 * k * (a.roll(1) - 2 * a + a.roll(-1)) + 0.01 * ad.sin(b) * xs[i % 2]
            rows.append(a.sum())
        return (ad.stack(rows),)

    return function


def test_programs_do_not_grow_with_the_length_of_a_loop() -> None:
    short, long = check(heat(60)), check(heat(240))
    assert len(long) <= len(short) < 40
    assert loops(short) == loops(long) == 2


def test_short_programs_are_left_as_they_are() -> None:
    _core._roll_from(10_000)
    assert loops(check(heat(40))) == 0


def test_sequential_loops_are_one_instruction_each() -> None:
    def function(a: ad.Tensor, b: ad.Tensor, k: ad.Tensor, xs: ad.Tensor, w: ad.Tensor) -> Any:
        rows = []
        for _ in range(40):
            a = ad.sin(a) * k
            rows.append(a)
        for _ in range(40):
            b = ad.tanh(b @ w) + a
            rows.append(b)
        return ad.stack(rows), b

    names = check(function)
    assert loops(names) >= 4
    assert len(names) < 60


def test_rows_of_an_input_and_a_buffer_are_walked_along() -> None:
    def function(a: ad.Tensor, b: ad.Tensor, k: ad.Tensor, xs: ad.Tensor, w: ad.Tensor) -> Any:
        out = ad.zeros(50, 3)
        for i in range(49):
            a = ad.tanh(a) + xs[i + 1] - xs[i]
            out[i] = a.detach()
        return a, out

    assert loops(check(function, wants=[True, False, False, False, False])) == 2


def test_views_that_one_op_gives_together_are_taken_apart() -> None:
    def function(a: ad.Tensor, b: ad.Tensor, k: ad.Tensor, xs: ad.Tensor, w: ad.Tensor) -> Any:
        for _ in range(30):
            x, y, z = a.unbind()
            head, tail = b.split((1, 2))
            a = ad.stack([y * k, z - x, x * head[0]])
            b = ad.cat([tail, head]) * a.tanh()
        return a, b, a.unbind()[1] * k

    assert loops(check(function)) == 2


@pytest.mark.parametrize("fixed", [0, 1, 2, 7])
@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("unbound", [False, True])
def test_a_row_that_all_steps_read_is_also_the_row_of_one_of_them(
    fixed: int, times: int, unbound: bool
) -> None:
    """What backward makes again in a step is made of the rows of that step."""

    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        rows = xs[:20].unbind(0) if unbound else xs
        for i in range(20):
            b = 0.5 * b + 0.25 * a
            for _ in range(times):
                a = 0.5 * rows[i] + 0.25 * a * xs[fixed]
        return a.sum(), b * 1

    check(function)


def test_a_number_that_steps_change_in_place_is_one_number() -> None:
    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        count, total = ad.tensor(0), ad.tensor(0.0)
        for _ in range(60):
            a = ad.tanh(w @ a + b)
            count.add_(1)
            with ad.no_grad():
                total.add_(0.5)
        return a.sum(), count * 1.0, total * 1

    check(function)


def test_a_call_of_python_in_each_step_leaves_the_loop_as_it_is() -> None:
    calls = []

    def double(x: Any) -> Any:
        calls.append(1)
        return 2 * x

    doubled = ad.external(double, vjp=lambda g, x: 2 * g)

    def function(a: ad.Tensor, b: ad.Tensor, k: ad.Tensor, xs: ad.Tensor, w: ad.Tensor) -> Any:
        for _ in range(30):
            a = ad.sin(doubled(a)) * k
        return (a,)

    names = check(function)
    assert names.count("host call") >= 30


def test_an_error_inside_a_loop_leads_to_its_line() -> None:
    def function(x: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        for _ in range(60):
            x = ad.sin(x.index_select(0, at)) * 0.5
        return x

    fast = ad.compile(function)
    x = ad.ones(3)
    for _ in range(2):
        fast(x, ad.tensor([0, 1, 2]))
    assert loops([row[0] for row in fast.programs[0].program.code()]) == 1
    with pytest.raises(IndexError, match=r"out of (range|bounds)") as found:
        fast(x, ad.tensor([0, 1, 7]))
    assert "index_select" in str(found.traceback[-1].statement)
