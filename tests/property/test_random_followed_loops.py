"""Long plain loops of compiled functions, whose steps are counted while they are recorded.

Those that are not taken over: see test_random_taken_over_loops.py.

Every bit is that of eager execution, in the recorded call, its backward pass and later calls.
"""

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
from adjoint._for_loops import _takeover

Function = Callable[..., Any]
Tensors = dict[str, ad.Tensor]


@pytest.fixture(autouse=True)
def follow_short_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_takeover, "FEWEST", 10**9)  # loops are left to themselves
    before = _core._follow_from(60), _core._roll_from(40)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def bits(x: Any) -> Any:
    """Everything but which NaN it is."""
    if x is None:
        return None
    values = np.array(x.detach())
    values[np.isnan(values)] = np.nan
    return x.dtype, x.shape, x.stride(), values.tobytes()


TERMS: list[Callable[[Tensors, int], ad.Tensor]] = [
    lambda s, _: s["a"],
    lambda s, _: s["b"],
    lambda s, _: s["before"],
    lambda s, _: s["long_before"],
    lambda s, _: s["w"] @ s["a"],
    lambda s, _: s["a"] @ s["w"].T,
    lambda s, _: ad.sin(s["b"]),
    lambda s, _: ad.tanh(s["k"] * s["a"]),
    lambda s, _: s["k"].exp() * s["b"],
    lambda s, i: s["xs"][i],
    lambda s, i: s["xs"][i % 2] * s["b"],
    lambda s, _: s["xs"][3].cos(),
    lambda s, _: ad.stack([s["a"][0], s["b"][1] * s["a"][2], s["k"]]),
    lambda s, _: s["a"].roll(1) - s["b"],
    lambda s, _: ad.tensor([0.5, 0.25, -0.5]) * s["a"],
    lambda s, _: s["first"] * s["a"],
    lambda s, i: 0.125 * (i % 3) * s["a"],
    lambda s, _: s["a"].detach() * s["b"],
    lambda s, _: s["a"].reshape(1, 3).expand(2, 3).sum(0),
    lambda s, _: ad.cat([s["a"][1:], s["b"][:1]]),
    lambda s, _: ad.where(s["a"] > 0, s["a"], 0.5 * s["b"]),
    lambda s, _: ad.outer(s["a"], s["b"])[1],
]


def quiet(s: Tensors, i: int) -> ad.Tensor:
    with ad.no_grad():
        return s["a"] * s["b"]


def in_place(s: Tensors, i: int) -> ad.Tensor:
    made = s["a"] * 1
    made.mul_(0.5)
    return made


def buffer(s: Tensors, i: int) -> ad.Tensor:
    with ad.no_grad():
        s["buffer"].mul_(0.5).add_(s["a"])
    return s["buffer"].clone() * s["b"]


RARE = [quiet, in_place, buffer]


def random_loop(rng: random.Random) -> Function:
    """A function with one or two loops whose steps are mostly the same."""

    def step() -> Any:
        terms = rng.choices(TERMS, k=rng.randint(2, 4))
        if rng.random() < 0.15:
            terms.append(rng.choice(RARE))
        return [
            (name, rng.choice(terms), rng.choice(terms)) for name in rng.choice(("a", "ab", "ba"))
        ]

    loops = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        plan = step()
        loops.append(
            {
                "count": rng.choice((rng.randint(45, 110), rng.randint(110, 250))),
                "inner": rng.choice((1, 1, 1, 2, 30)),
                "plan": plan,
                "other": step(),
                # From which step on another plan; one step that does something besides.
                "turns": rng.choice((10**9, 10**9, 40, 70, 97)),
                "odd": rng.choice((-1, -1, -1, 3, 50, 96)),
                "appends": rng.choice(("", "a", "a", "b", "view")),
                "keeps": rng.choice((0, 1, 17, 44)),
            }
        )
    ending = rng.randrange(7)
    view_out, early = rng.random() < 0.2, rng.random() < 0.3

    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        s = {"a": a, "b": b, "k": k, "xs": xs, "w": w, "first": a, "before": b, "long_before": a}
        s["buffer"] = ad.zeros(3)
        rows, kept = [], []
        for loop in loops:
            for i in range(loop["count"]):
                for _ in range(loop["inner"] if i % 20 == 7 or loop["inner"] < 9 else 1):
                    last = s["a"]
                    for name, left, right in loop["plan"] if i < loop["turns"] else loop["other"]:
                        s[name] = 0.5 * left(s, i) + 0.25 * s[name] * right(s, i)
                    s["long_before"], s["before"] = s["before"], last
                if loop["appends"]:
                    rows.append(
                        s["a"][:2] if loop["appends"] == "view" else s[loop["appends"]][:2] * 1
                    )
                if i == loop["odd"]:
                    s["b"] = s["b"] + s["a"] * 0.125
                if i == loop["keeps"]:
                    kept.append(s["b"])
                    s["first"] = s["a"]
        total = sum(t.sum() for t in kept)
        stacked: Any = s["a"] * 1
        if rows:
            stacked = (
                lambda: ad.stack(rows),
                lambda: ad.stack(rows[::-1]),
                lambda: ad.stack(rows[1:-1], 1),
                lambda: sum(rows),
                lambda: rows[len(rows) // 2] * rows[-2],
                lambda: ad.stack(rows[::2]),
                lambda: ad.cat(rows),
            )[ending]()
        results = [s["a"].sum() + total, stacked]
        if early:
            results.append(rows[20] * 1 if rows else kept[0] * 1)
        if view_out and rows:
            results.append(rows[30])
        return tuple(results)

    return function


def outcome(function: Function, seed: int, wants: list[bool], way: int) -> list[Any]:
    """Results, gradients, and what the generator gives next."""
    ad.manual_seed(seed)
    made = [ad.randn(3), ad.randn(3), ad.tensor(0.7), 0.3 * ad.randn(300, 3), 0.4 * ad.randn(3, 3)]
    tensors = [t.requires_grad_(on) for t, on in zip(made, wants, strict=True)]
    results = function(*tensors)
    ends = [(y * ad.linspace(0.3, 1.1, y.numel()).reshape(y.shape)).sum() for y in results]
    ends = [end for end in ends if end.requires_grad]
    found: list[Any] = []
    if ends and way == 0:
        sum(ends).backward()
    elif ends and way == 1:  # some results alone, then again
        ends[0].backward(retain_graph=True)
        sum(ends).backward()
    elif ends and way == 2:
        asked = [t for t in tensors if t.requires_grad]
        first = ad.autograd.grad(sum(ends), asked, create_graph=True, allow_unused=True)
        total = sum((g * g).sum() for g in first if g is not None)
        found += first
        if isinstance(total, ad.Tensor) and total.requires_grad:
            found += ad.autograd.grad(total, asked, allow_unused=True)
    return [bits(y) for y in (*results, *found, *(t.grad for t in tensors), ad.rand(2))]


def check(seed: int) -> None:
    rng = random.Random(seed)
    _core._follow_from(rng.choice((30, 60, 60, 200)))
    _core._roll_from(rng.choice((400, 1000, 2000)))
    function = random_loop(rng)
    wants = [rng.random() < 0.8 for _ in range(5)]
    way = rng.choice((0, 0, 0, 1, 2))
    expected = outcome(function, seed % 1000, wants, way)
    fast = ad.compile(function)
    for _ in range(3):
        assert outcome(fast, seed % 1000, wants, way) == expected
    other = outcome(function, seed % 1000 + 1, wants, way)
    assert outcome(fast, seed % 1000 + 1, wants, way) == other


def oscillator(steps: int) -> Function:
    """Its path, and where it ends."""

    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        rows = []
        for _ in range(steps):
            a, b = a + 0.1 * b, b - 0.1 * ad.sin(k.exp() * a) + 0.01 * (w.T @ a)
            rows.append(a)
        return ad.stack(rows), b * 1

    return function


def rows_that_are_read(steps: int) -> Function:
    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        for i in range(steps):
            a = ad.tanh(w @ a + xs[i])
        return (a * b,)

    return function


WANTS = [True, True, True, False, True]


@pytest.mark.parametrize("loop", [oscillator, rows_that_are_read])
def test_steps_that_repeat_are_counted_alone(loop: Callable[[int], Function]) -> None:
    _core._roll_from(1000)
    ad.manual_seed(0)
    tensors = [ad.randn(3), ad.randn(3), ad.tensor(0.7), ad.randn(300, 3), 0.4 * ad.randn(3, 3)]
    fast = ad.compile(loop(300))
    results = fast(*[t.requires_grad_(on) for t, on in zip(tensors, WANTS, strict=True)])
    recording = fast.programs[0].first()._recording
    assert recording.followed() > 0.9 * recording.size()
    assert results[0].requires_grad


@pytest.mark.parametrize("loop", [oscillator, rows_that_are_read])
@pytest.mark.parametrize("way", range(3))
def test_programs_are_those_of_loops_that_are_found_afterwards(
    loop: Callable[[int], Function], way: int
) -> None:
    _core._roll_from(1000)
    sizes = []
    for follow_from in (60, 10**9):
        _core._follow_from(follow_from)
        function = loop(300)
        expected = outcome(function, 3, WANTS, way)
        fast = ad.compile(function)
        for _ in range(3):
            assert outcome(fast, 3, WANTS, way) == expected
        one = fast.programs[0]
        sizes.append([len(one.program.code()), len(one.backward.code())])
    assert all(a <= b + 8 for a, b in zip(*sizes, strict=True))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**9))
def test_followed_loops_are_eager_to_the_last_bit(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("turns", [0, 1, 3, 41])
@pytest.mark.parametrize("first", [lambda t: 3 * t, ad.exp])
def test_what_stands_before_the_steps_that_repeat_is_not_taken_for_one(
    turns: int, first: Callable[[Any], Any]
) -> None:
    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        for i in range(300):
            x, y = b[0], a[1]
            a = a * 0.9 + ad.sin(x * y * k)
            b = 2 * a if i >= turns else first(a)
        return b.sum(), a * 1

    _core._roll_from(1000)
    expected = outcome(function, 0, WANTS, 0)
    fast = ad.compile(function)
    for _ in range(3):
        assert outcome(fast, 0, WANTS, 0) == expected


def same_in_every_call(function: Function, wants: list[bool] = WANTS) -> Any:
    expected = outcome(function, 0, wants, 0)
    fast = ad.compile(function)
    for _ in range(3):
        assert outcome(fast, 0, wants, 0) == expected
    return fast


def several_ops(a: Any, b: Any, times: int) -> Any:
    for _ in range(times):
        a = 0.9 * a + 0.1 * ad.sin(a * b)
    return a


@pytest.mark.parametrize("late", [40, 60])
@pytest.mark.parametrize("after", [400, 1500])
def test_a_value_of_many_steps_ago_is_no_value_of_the_part_before(late: int, after: int) -> None:
    """Backward steps read what a step long before made; all steps have as many registers."""

    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        values, x = [], a
        for _ in range(late):
            x = 0.99 * x
            values.append(x)
        for _ in range(2 * late):
            x = several_ops(0.5 * values[-1] + 0.25 * values[-late] * b, b, 5)
            values.append(x)
        for i in range(late):
            x = -several_ops(0.5 * x + 0.25 * values[i - late] * b, b, 5)
        for _ in range(after):
            x = several_ops(0.5 * x + 0.125 * x * x, b, 5)
        return (x * 1,)

    _core._roll_from(1000)
    same_in_every_call(function)


@pytest.mark.parametrize("picked", [(100,), (100, 200)])
@pytest.mark.parametrize("times", [4, 5, 6, 10])
def test_a_stack_has_few_values_of_a_second_loop(picked: tuple[int, ...], times: int) -> None:
    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        rows = []
        for i in range(300):
            a = several_ops(a, b, times)
            if 100 <= i < 200:
                rows.append(a)
        for i in range(300):
            a = 0.8 * several_ops(a, b, times) + 0.2 * ad.cos(a * b) * b
            if i in picked:
                rows.append(a)
        return ad.stack(rows), a * 1

    _core._roll_from(1000)
    assert same_in_every_call(function, [False] * 5).programs


@pytest.mark.parametrize("turn", [50, 51, 80])
def test_all_steps_may_read_what_the_first_has_made(turn: int) -> None:
    def function(a: Any, b: Any, k: Any, xs: Any, w: Any) -> Any:
        x, y, z = b, a, a * 0.5
        for i in range(300):
            once = 0.5 * a.roll(1)
            x = 0.6 * x + 0.3 * ad.sin(once)
            y = 0.6 * y + 0.3 * ad.sin(once.cumsum(0) * 0.1)
            x, y, z = y, z, x
            if i == turn:
                a = x
        return x * y + z, a * 1

    _core._roll_from(1000)
    same_in_every_call(function)
