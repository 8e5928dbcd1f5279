"""What `adjoint.profile` estimates is what it counts where it looks at everything, within errors.

Of each stratum of m calls one is looked at and stands for m (Note [Samples of a tally] in
src/dispatch/tally.h), so a sum of values v has a variance of at most the sum of (m - 1) v^2, of
which `Row.error` squared is an estimate. A mean over so many seeds has that variance over their
number: what is compared here may be off by four such standard errors (once in 16,000 comparisons),
and by a hundredth for the ends of streams. The seeds are fixed, and time is counted by allocations,
which depend on the program alone: nothing here depends on the machine.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest

import adjoint as ad
from adjoint import _core
from adjoint.profiler._by_line import LineProfile, Row, _rows

SEEDS = 24
ALLOCATION = 40  # nanoseconds, of the clock of allocations: short calls are looked at least often
LONGEST = 256  # calls of which one is looked at, at most


class Place(NamedTuple):
    """What rows are compared by."""

    op: str
    line: int
    backward: bool


def tallied(program: Callable[[], object], exact: bool, seed: int = 0) -> dict[Place, Row]:
    _core._tally_start(exact, ALLOCATION, seed)
    try:
        program()
    finally:
        rows = _rows(_core._tally_stop())
    return {Place(row.op, row.line, row.backward): row for row in rows}


def mean_of(values: list[float]) -> float:
    return sum(values) / len(values)


def assert_estimates(program: Callable[[], object]) -> dict[Place, Row]:
    """Compare the means over all seeds with what is so; the latter is returned."""
    tallied(program, exact=True)  # what is made once, as accumulators are
    exact = tallied(program, exact=True)
    assert all(row.error == row.count_error == 0 for row in exact.values())
    samples = [tallied(program, exact=False, seed=seed) for seed in range(SEEDS)]
    for place, true in exact.items():
        rows = [s[place] for s in samples if place in s]
        assert rows, place
        missing = [0.0] * (SEEDS - len(rows))  # it was never looked at: the estimate is 0
        for figure, error in (("count", "count_error"), ("seconds", "error")):
            value = float(getattr(true, figure))
            estimate = mean_of([float(getattr(row, figure)) for row in rows] + missing)
            variance = mean_of([getattr(row, error) ** 2 for row in rows] + missing)
            within = 4 * math.sqrt(variance / SEEDS) + 0.01 * value
            assert abs(estimate - value) <= within, (place, figure, estimate, value, within)
            if figure == "count" and not place.backward:  # each call of a line keeps as much
                kept = mean_of([float(row.bytes) for row in rows] + missing)
                of_each = abs(true.bytes / true.count)
                assert kept == pytest.approx(true.bytes, abs=within * of_each), place
    assert sum(row.looked_at for row in samples[0].values()) < sum(
        row.count for row in exact.values()
    )
    return exact


def test_a_line_is_found_that_has_one_call_of_as_many_as_one_stands_for() -> None:
    x = ad.ones(3)

    def program() -> None:
        for i in range(160 * LONGEST):
            if i % LONGEST == 7:
                x * 2.0
            else:
                x * 3.0

    counts = [row.count for row in assert_estimates(program).values()]
    assert sorted(counts) == [160, 160 * (LONGEST - 1)]


def test_lines_share_an_operation_by_calls_bytes_and_time() -> None:
    few, more, many = ad.ones(3), ad.ones(15, dtype=ad.float64), ad.ones(3000)
    kept: list[ad.Tensor] = []

    def program() -> None:
        for i in range(9000):
            kept[:] = [few * 2.0]
            if i % 3 == 0:
                kept.append(more * 2.0)
            if i % 5 == 0:
                kept.append(many * 2.0)
            if i % 8 < 2:
                kept.append(few.exp())

    exact = assert_estimates(program)
    assert sorted(row.count for row in exact.values()) == [1800, 2250, 3000, 9000]


def test_forward_and_backward_of_short_operations() -> None:
    x = ad.tensor([0.1, 0.2, 0.3], requires_grad=True)
    w = ad.tensor([1.0, 1.1, 0.9], requires_grad=True)

    def program() -> None:
        for _ in range(20):
            y = x
            for i in range(300):
                y = y * w
                y = y.sin() + 0.1
                if i % 16 == 0:
                    y = y - x
            y.sum().backward()

    exact = assert_estimates(program)
    counts = {place.op: row.count for place, row in exact.items()}
    assert counts["MulBackward0"] == counts["mul"] == 6000
    assert counts["SubBackward0"] == counts["sub"] == 20 * 19


def test_views_and_reductions_go_the_general_way() -> None:
    x = ad.arange(12.0, requires_grad=True)

    def program() -> None:
        for _ in range(40):
            total = ad.zeros(())
            for i in range(60):
                part = x[i % 4 : 8]
                total = total + part.sum() * 0.5
                if i % 4 == 0:
                    total = total + ad.cat([part, part]).mean()
            total.backward()

    assert_estimates(program)


def test_operations_inside_of_a_function_have_their_own_turns() -> None:
    class Chain(ad.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: ad.Tensor) -> ad.Tensor:
            for _ in range(40):
                x = x.exp() * 0.1
            return x

        @staticmethod
        def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
            for _ in range(40):
                g = g.cos()
            return g

    x = ad.ones(3, requires_grad=True)

    def program() -> None:
        for _ in range(100):
            Chain.apply(x).sum().backward()

    counts = {place.op: row.count for place, row in tallied(program, exact=False).items()}
    assert counts["Chain"] == 100
    assert counts["exp"] == counts["mul"] == counts["cos"] == 4000  # of one line each: exactly


def test_the_calls_of_an_operation_are_counted_whichever_of_them_are_looked_at() -> None:
    x = ad.ones(3)

    def program() -> None:
        for i in range(5003):
            if i % 7:
                x * 2.0
            else:
                x * 3.0

    for seed in range(SEEDS):
        rows = tallied(program, exact=False, seed=seed).values()
        assert sum(row.count for row in rows) == 5003
        assert 256 < sum(row.looked_at for row in rows) < 400


def test_the_first_calls_are_all_looked_at_and_nothing_is_estimated() -> None:
    x = ad.ones(3)

    def program() -> None:
        for i in range(250):
            if i % 7:
                x * 2.0
            else:
                x * 3.0

    rows = tallied(program, exact=False)
    assert sorted(row.count for row in rows.values()) == [36, 214]
    assert all(row.looked_at == row.count and row.count_error == 0 for row in rows.values())


def test_an_error_in_a_call_that_is_passed_over_changes_nothing() -> None:
    x, other = ad.ones(3), ad.ones(4)

    def program() -> None:
        for _ in range(2000):
            with pytest.raises(RuntimeError):
                x + other
            x.sum()

    counts = {place.op: row.count for place, row in tallied(program, exact=False).items()}
    assert counts == {"add": 2000, "sum": 2000}


def profiled(calls: int) -> LineProfile:
    x = ad.ones(3)
    with ad.profile() as p:
        for _ in range(calls):
            x * 2.0
    return p


def test_tables_and_pages_say_what_is_estimated() -> None:
    p = profiled(4000)
    assert "~4,000" in str(p) and p.note.startswith("~ and ±: estimated from")
    assert sum(cost.seconds for cost in p.lines.values()) == pytest.approx(
        sum(cost.seconds for cost in p.ops.values())
    )
    counted = profiled(100)
    assert "~" not in str(counted) and counted.note == ""


def test_a_profile_ended_by_another_thread_leaves_nothing_behind() -> None:
    x = ad.ones(3)
    first, second = ad.profile(), ad.profile()
    first.start()
    x.exp()

    def elsewhere() -> None:
        first.stop()
        second.start()
        x.cos()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    for _ in range(10):
        x.sin()
    second.stop()
    assert set(first.ops) == {"exp"} and set(second.ops) == {"cos"}
