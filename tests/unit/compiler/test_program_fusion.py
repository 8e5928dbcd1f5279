"""Elementwise ops of a recorded program become few instructions, and give what they gave alone.

A function is recorded once and its program run on other values; every result has to be the eager
one bit for bit, strides included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint as ad
from adjoint import _core

Function = Callable[..., Any]


def record(f: Function, arguments: Sequence[ad.Tensor]) -> Any:
    recording = _core._Recording(list(arguments))
    recording.start()
    try:
        out = f(*arguments)
    finally:
        recording.stop()
    assert recording.refused() is None, recording.refused()
    outputs = list(out) if isinstance(out, (list, tuple)) else [out]
    return recording.program(0, recording.size(), list(arguments), outputs)


def names(program: Any) -> list[str]:
    return [line[0] for line in program.code()]


def bits(t: ad.Tensor) -> bytes:
    t = t.detach()
    if t.dtype in (ad.float16, ad.bfloat16):
        t = t.to(ad.float32)  # exact
    return np.ascontiguousarray(t.numpy()).tobytes()


def steps(t: ad.Tensor) -> list[int]:
    """Give the strides that say something."""
    return [step for step, n in zip(t.stride(), t.shape, strict=True) if n != 1 and t.numel()]


def check(f: Function, make: Callable[[int], Sequence[ad.Tensor]], runs: int = 2) -> Any:
    """Record f on make(0), then compare its program with f on other values."""
    program = record(f, make(0))
    for seed in range(1, runs + 1):
        arguments = make(seed)
        got = program.run(list(arguments))
        want = f(*arguments)
        want = list(want) if isinstance(want, (list, tuple)) else [want]
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype
            assert g.shape == w.shape
            assert steps(g) == steps(w)
            assert bits(g) == bits(w)
    return program


def uniform(seed: int, *shape: int, dtype: ad.dtype = ad.float32) -> ad.Tensor:
    values = np.random.default_rng(seed).uniform(-2, 2, shape)
    return ad.tensor(values, dtype=ad.float64).to(dtype)


def expression(x: ad.Tensor) -> ad.Tensor:
    return ad.sin(x) * ad.exp(-x * x) + x**2


# --- what is fused ----------------------------------------------------------------------------


def test_a_chain_is_one_instruction() -> None:
    program = check(expression, lambda s: [uniform(s, 1000)])
    assert names(program) == ["fused"]


def test_a_gradient_joins_the_function_it_belongs_to() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = expression(x).sum()
        return [y, *ad.autograd.grad(y, x, ad.ones_like(y))]

    program = check(f, lambda s: [uniform(s, 17001).requires_grad_()])
    assert names(program) == ["fused"]
    small = check(f, lambda s: [uniform(s, 777).requires_grad_()])
    assert names(small) == ["fused"]


def test_a_recurrence_of_numbers_is_one_instruction() -> None:
    def f(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        for _ in range(50):
            a = ad.sin(a) * b + 0.1
        return a

    program = check(f, lambda s: [uniform(s), uniform(s + 10)])
    assert names(program) == ["fused"]


def test_views_are_read_where_they_lie() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return x[1:, 0] * 2 - x[:-1, 1].exp()

    program = check(f, lambda s: [uniform(s, 9, 3)])
    assert names(program) == ["fused"]


def test_a_view_of_a_result_parts_two_groups() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.exp()
        return y + y.t() * 2

    program = check(f, lambda s: [uniform(s, 200, 200)])
    assert names(program) == ["fused", "fused"]
    small = check(f, lambda s: [uniform(s, 5, 5)])
    assert names(small) == ["fused"]


def test_other_instructions_may_stand_between() -> None:
    def f(x: ad.Tensor, y: ad.Tensor) -> list[ad.Tensor]:
        a = x * 2
        m = y @ y
        b = a + 1
        n = m @ y
        return [b * a, m, n, n.exp() + m]

    program = check(f, lambda s: [uniform(s, 4), uniform(s + 5, 40, 40)])
    assert names(program) == ["fused", "matmul", "matmul", "fused"]
    small = check(f, lambda s: [uniform(s, 4), uniform(s + 5, 3, 3)])
    assert names(small) == ["fused"]


def test_small_sums_and_copies_stay_in_the_block() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        d = x[1:] - x[:-1]
        length = (d * d).sum(-1, keepdim=True).sqrt()
        force = d / length * (length - 1)
        zero = ad.zeros(1, 3)
        total = ad.cat([force, zero]) - ad.cat([zero, force])
        s = (total * total).mean() + ad.stack([length.sum(), force.sum()], 0).sum()
        return [s, *ad.autograd.grad(s, x, ad.ones_like(s))]

    program = check(f, lambda s: [uniform(s, 9, 3).requires_grad_()])
    assert names(program) == ["fused"]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16, ad.int32, ad.bool])
@pytest.mark.parametrize("shape", [(7, 5), (1, 5), (40, 50), (0, 5)])
def test_sums_over_axes(dtype: ad.dtype, shape: tuple[int, int]) -> None:
    def f(x: ad.Tensor, y: ad.Tensor) -> list[ad.Tensor]:
        z = x * y
        sums = [z.sum(), z.sum(0), z.sum(-1, keepdim=True), z.t().sum(1), z[1:, ::2].sum(0)]
        if dtype.is_floating_point:
            sums += [z.mean(), z.mean(1), (z + 1).sum_to_size(1, shape[1]), z.sum_to_size(shape[1])]
        return [s * 2 for s in sums]

    check(f, lambda s: [uniform(s, *shape, dtype=dtype), uniform(s + 1, shape[1], dtype=dtype)])


@pytest.mark.parametrize("n", range(1, 15))
def test_short_rows_are_summed_as_if_alone(n: int) -> None:
    for dtype in (ad.float32, ad.float64):
        x = uniform(n, 600, n, dtype=dtype)
        x[0] = -0.0
        assert bits(x.sum(-1)) == bits(ad.stack([row.clone().sum() for row in x]))


def test_sums_of_one_number() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        return [ad.ones_like(x).sum() * x, ad.full((3, 2), 0.1).sum(0), ad.zeros(3).mean() + x]

    check(f, lambda s: [uniform(s, 4)])


@pytest.mark.parametrize("dtype", [ad.float32, ad.float16, ad.int64])
def test_pieces_of_results(dtype: ad.dtype) -> None:
    def f(x: ad.Tensor, y: ad.Tensor) -> list[ad.Tensor]:
        a, b = x * 2, y.t() + 1
        return [
            ad.cat([a, b[:2], x], 0),
            ad.cat([a, ad.ones(3, 2, dtype=ad.float64)], 1),
            ad.stack([a[0], y[:, 1], x[1]], -1),
            ad.cat([a.flatten(), ad.zeros(0, dtype=dtype)]),
        ]

    check(f, lambda s: [uniform(s, 3, 4, dtype=dtype), uniform(s + 1, 4, 5, dtype=dtype)])


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16, ad.int64, ad.complex64])
@pytest.mark.parametrize("n", [1, 4, 20])
def test_small_products(dtype: ad.dtype, n: int) -> None:
    def f(a: ad.Tensor, b: ad.Tensor, x: ad.Tensor) -> list[ad.Tensor]:
        c = a * 2
        return [
            c @ b,
            c.t() @ b.t() + 1,
            c @ x,
            b.t() @ x * 2,
            c[:, 0] @ x,
            ad.outer(x, c[1 % n]),
            ad.stack([c, b]) @ ad.stack([b, c]).transpose(1, 2),
            ad.addmm(x, c, b, beta=2, alpha=3),
            ad.addmm(b, c, b, beta=0),
            ad.nn.functional.linear(c, b, x),
            ad.nn.functional.linear(ad.stack([c, b]), b.t()),
            ad.ones(n, n, dtype=dtype) @ c,
        ]

    def make(s: int) -> list[ad.Tensor]:
        return [
            uniform(s + k, *shape, dtype=dtype) for k, shape in enumerate([(n, n), (n, n), (n,)])
        ]

    check(f, make)


def test_large_products_stay_alone() -> None:
    program = check(lambda a, b: (a * 2) @ b, lambda s: [uniform(s, 32, 32), uniform(s, 32, 32)])
    assert names(program) == ["fused", "matmul"]


def test_a_network_and_its_gradients() -> None:
    def f(x: ad.Tensor, w: ad.Tensor, b: ad.Tensor, v: ad.Tensor) -> list[ad.Tensor]:
        h = ad.tanh(ad.nn.functional.linear(x, w, b))
        loss = ((h @ v) ** 2).mean()
        return [loss, *ad.autograd.grad(loss, [x, w, b, v], ad.ones_like(loss))]

    def make(s: int) -> list[ad.Tensor]:
        shapes = [(5, 7), (6, 7), (6,), (6,)]
        return [uniform(s + k, *shape).requires_grad_() for k, shape in enumerate(shapes)]

    program = check(f, make)
    assert names(program) == ["fused"]


def test_gradients_of_slices() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = (x[1:, ::2].exp() * x[:-1, 1::2]).sum() + x[2].sin().sum() + x[..., -1].prod()
        return [y, *ad.autograd.grad(y, x, ad.ones_like(y))]

    check(f, lambda s: [uniform(s, 6, 4).requires_grad_()])


# --- values -----------------------------------------------------------------------------------

UNARY: list[Callable[[ad.Tensor], ad.Tensor]] = [
    lambda x: x.sin(),
    lambda x: x.exp(),
    lambda x: -x,
    lambda x: x.abs(),
    lambda x: x.tanh(),
    lambda x: x.sqrt(),
    lambda x: x.sigmoid(),
    lambda x: x.relu(),
    lambda x: x * 3,
    lambda x: 1 - x,
    lambda x: x + 0.5,
    lambda x: x**3,
    lambda x: x**2.5,
    lambda x: x / 7,
    lambda x: x.clamp(-0.5, 0.75),
    lambda x: x.to(ad.float64),
    lambda x: x.to(ad.float32),
    lambda x: x.clone(),
    lambda x: x > 0.25,
    lambda x: ad.where(x < 0, 0.0, x),
    lambda x: x.isnan(),
    lambda x: ad.ones_like(x) * x,
    lambda x: ad.zeros_like(x),
    lambda x: ad.full((3, 1), 0.3),
    lambda x: x.sum(-1, keepdim=True),
    lambda x: x.sum(0) if x.ndim else x.sum(),
    lambda x: x.transpose(0, -1) if x.ndim else x,
    lambda x: x[..., :1] if x.ndim else x,
    lambda x: x[..., ::2] if x.ndim else x,
    lambda x: x[0] if x.ndim and x.shape[0] else x,
    lambda x: ad.cat([x, x * 2], -1) if x.ndim else ad.stack([x, x]),
    lambda x: x.reshape(-1),
    lambda x: x.expand(2, *x.shape),
]
BINARY: list[Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: ad.rsub(x, y) if ad.bool not in (x.dtype, y.dtype) else x & y,
    lambda x, y: x / y,
    lambda x, y: ad.maximum(x, y),
    lambda x, y: ad.add(x, y, alpha=2) if ad.bool not in (x.dtype, y.dtype) else x | y,
    lambda x, y: x < y,
    lambda x, y: x == y,
    lambda x, y: ad.where(x > y, x, y),
    lambda x, y: ad.atan2(x, y),
    lambda x, y: ad.cat([x.reshape(-1), y.reshape(-1)]),
    lambda x, y: x @ y,
]

CHANGES: list[Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = [
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.add_(y),
    lambda x, y: x[..., :1].sub_(y, alpha=2),
    lambda x, y: x[:1].copy_(y),
    lambda x, y: x.zero_(),
    lambda x, y: x.transpose(0, -1).mul_(y),
    lambda x, y: x.masked_fill_(x > 0.5, 0.25),
]

SHAPES = [
    [(), (), ()],
    [(1,), (1,), (1,)],
    [(3,), (3,), ()],
    [(0,), (0,), (1,)],
    [(4, 0), (1, 0), (4, 1)],
    [(17,), (17,), (1,)],
    [(700,), (700,), ()],
    [(5, 7), (7,), (5, 1)],
    [(3, 40), (40,), (3, 1)],
    [(2, 3, 5), (3, 1), (2, 1, 5)],
    [(13, 129), (13, 1), (129,)],
    [(3, 1), (1, 4), (4,)],
]
DTYPES = [ad.float32, ad.float64, ad.float16, ad.bfloat16, ad.int32, ad.int64, ad.uint8, ad.bool]


@st.composite
def layouts(draw: st.DrawFn) -> Callable[[ad.Tensor], ad.Tensor]:
    kind = draw(st.sampled_from(["dense", "dense", "transposed", "stepped", "expanded"]))

    def lay_out(t: ad.Tensor) -> ad.Tensor:
        if kind == "transposed" and t.ndim > 1:
            return t.transpose(0, -1).contiguous().transpose(0, -1)
        if kind == "stepped" and t.ndim:
            return ad.cat([t, t], -1).contiguous()[..., : 2 * t.shape[-1] : 2]
        if kind == "expanded" and t.ndim and t.shape[0]:
            return t[:1].expand(t.shape)
        return t

    return lay_out


@st.composite
def programs(
    draw: st.DrawFn, changes: bool = False
) -> tuple[Function, Callable[[int], list[ad.Tensor]]]:
    shapes = draw(st.sampled_from(SHAPES))
    dtypes = [draw(st.sampled_from(DTYPES)) for _ in shapes]
    orders = [draw(layouts()) for _ in shapes]
    special = draw(st.booleans())
    steps: list[tuple[int, int, int]] = []
    for k in range(draw(st.integers(1, 12))):
        n = len(shapes) + k
        pair = draw(st.booleans())
        which = draw(st.integers(0, len(BINARY if pair else UNARY) - 1))
        i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1)) if pair else -1
        if changes and draw(st.booleans()):
            which, j = -2 - draw(st.integers(0, len(CHANGES) - 1)), draw(st.integers(0, n - 1))
        steps.append((which, i, j))
    shown = draw(st.sets(st.integers(0, len(steps) - 1), max_size=3)) | {len(steps) - 1}

    def make(seed: int) -> list[ad.Tensor]:
        random = np.random.default_rng(seed)
        arguments = []
        for shape, dtype, lay_out in zip(shapes, dtypes, orders, strict=True):
            values = random.uniform(-3, 3, shape)
            if special and dtype.is_floating_point:
                choice = random.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40], shape)
                values = np.where(random.uniform(0, 1, shape) < 0.3, choice, values)
            elif not dtype.is_floating_point:
                values = np.round(np.abs(values))
            arguments.append(lay_out(ad.tensor(values, dtype=ad.float64).to(dtype)))
        return arguments

    def apply(values: list[ad.Tensor], which: int, i: int, j: int) -> ad.Tensor:
        if which == -1:
            return values[i] * 3
        if which < -1:
            return CHANGES[-2 - which](values[i], values[j])
        return UNARY[which](values[i]) if j < 0 else BINARY[which](values[i], values[j])

    # Some ops do not take some dtypes: bool has no sign, integers no negative powers.
    trial = make(0)
    for k, (which, i, j) in enumerate(steps):
        try:
            trial.append(apply(trial, which, i, j))
        except (RuntimeError, NotImplementedError, ValueError, IndexError):
            steps[k] = (-1, i, j)
            trial.append(apply(trial, *steps[k]))

    def f(*arguments: ad.Tensor) -> list[ad.Tensor]:
        values = list(arguments)
        for step in steps:
            values.append(apply(values, *step))
        return [values[len(arguments) + k] for k in sorted(shown)]

    return f, make


@pytest.mark.parametrize("wanted", [ad.float64, ad.complex128])
def test_numbers_of_a_narrow_dtype_are_widened(wanted: ad.dtype) -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        return [x * ad.full((7,), 0.1), x + ad.full((7,), 3, dtype=ad.int8)]

    check(f, lambda s: [uniform(s, 7).to(wanted)])


@pytest.mark.parametrize("shape", [(3,), (4, 3), (70, 30), (20000,)])
@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.int64, ad.bool])
def test_a_copy_that_is_only_read_converted_fills_no_tile(
    dtype: ad.dtype, shape: tuple[int, ...]
) -> None:
    def make(seed: int) -> list[ad.Tensor]:
        row = uniform(seed, shape[-1]) * 3
        return [row[:1].to(dtype).expand(shape), row.to(dtype).expand(shape)]

    check(lambda x, y: [x.sin(), x.clone().sin(), y.exp(), y.clone().exp()], make)


@settings(max_examples=300, deadline=None)
@given(programs())
def test_random_programs_give_what_eager_gives(
    drawn: tuple[Function, Callable[[int], list[ad.Tensor]]],
) -> None:
    f, make = drawn
    with np.errstate(all="ignore"):
        check(f, make)


@settings(max_examples=200, deadline=None)
@given(programs(changes=True))
def test_random_programs_with_changes_in_place(
    drawn: tuple[Function, Callable[[int], list[ad.Tensor]]],
) -> None:
    f, make = drawn
    program = record(f, make(0))
    ours, theirs = make(1), make(1)
    results = [*program.run(ours), *ours]
    expected = [*f(*theirs), *theirs]
    for got, want in zip(results, expected, strict=True):
        assert (got.dtype, got.shape, bits(got)) == (want.dtype, want.shape, bits(want))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16])
@pytest.mark.parametrize("n", [511, 512, 513, 40_000, 1_000_003])
def test_sizes_beyond_a_tile(n: int, dtype: ad.dtype) -> None:
    check(expression, lambda s: [uniform(s, n, dtype=dtype)], runs=1)


def test_large_broadcast_and_transposed_operands() -> None:
    def f(x: ad.Tensor, row: ad.Tensor, column: ad.Tensor) -> list[ad.Tensor]:
        y = x.t() * row + column
        return [y, (y.exp() - x.t()) / 3, y > 1]

    check(f, lambda s: [uniform(s, 300, 1000), uniform(s, 300), uniform(s, 1000, 1)], runs=1)


def test_sixteen_bit_floats_are_rounded_after_every_op() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return (x * 1.01 + x) * x - x / 3

    for dtype in (ad.float16, ad.bfloat16):
        check(f, lambda s, dtype=dtype: [uniform(s, 100, dtype=dtype)])


def test_many_results_of_a_large_group() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        return [(x * k).sin().sum() for k in range(40)]

    check(f, lambda s: [uniform(s, 20_000)], runs=1)


# --- order ------------------------------------------------------------------------------------


def test_an_integer_divided_by_zero_is_an_error() -> None:
    program = record(lambda x, y: (x + 1) // y, [ad.tensor([4, 5]), ad.tensor([1, 2])])
    assert names(program) == ["fused"]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        program.run([ad.tensor([4, 5]), ad.tensor([1, 0])])
    assert program.run([ad.tensor([4, 5]), ad.tensor([1, 3])])[0].tolist() == [5, 2]


def test_changes_in_place_stay_in_their_places() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = x * 2
        a = y + 1
        y.mul_(3)
        b = y + 1
        v = y[1:]
        v.add_(5)
        return [a, b, y + 1, a * b]

    check(f, lambda s: [uniform(s, 6)])


def test_a_fill_that_is_changed_later() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = ad.zeros(3, 3)
        before = y + x
        y.diagonal().copy_(x)
        return [before, y @ x, y]

    check(f, lambda s: [uniform(s, 3)])


def test_a_change_of_an_argument_is_seen_by_later_reads_only() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        a = x + 1
        x.mul_(2)
        return [a, x + 1]

    program = record(f, [uniform(0, 4)])
    x = uniform(1, 4)
    want = f(x.clone())
    got = program.run([x])
    assert [bits(t) for t in got] == [bits(t) for t in want]
    assert bits(x) == bits(uniform(1, 4) * 2)


def test_results_do_not_share_memory() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = x + 1
        return [y, y.clone(), y.to(ad.float32)]

    program = record(lambda x: f(x)[:2], [uniform(0, 3)])
    a, b = program.run([uniform(1, 3)])
    a.zero_()
    assert bits(b) == bits(uniform(1, 3) + 1)


def test_a_large_result_takes_the_memory_of_what_nobody_reads() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.exp()
        s = y.sum()
        return y * s + y.sin()

    check(f, lambda s: [uniform(s, 100_000)])
    x = uniform(3, 100_000)
    program = record(lambda x: x * 2 + 1, [x])
    before = bits(x)
    program.run([x])
    assert bits(x) == before


def test_a_run_inside_of_another_thread() -> None:
    import threading

    x = uniform(0, 200_000)
    program = record(expression, [x])
    results: list[bytes] = []

    def run() -> None:
        results.extend(bits(program.run([x])[0]) for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(results) == {bits(expression(x))}
    assert len(results) == 15


def distant_readers(seed: int) -> Function:
    """Make a program whose values are read never, once or often, some long after they were made."""
    draw = np.random.default_rng(seed)
    choices = []
    for k in range(int(draw.integers(4, 24))):
        op = ("add", "sub", "mul", "square", "neg", "sin", "double")[int(draw.integers(7))]
        choices.append((op, int(draw.integers(3 + k)), int(draw.integers(3 + k))))
    kept = sorted(set(draw.integers(3, 3 + len(choices), size=3).tolist()))
    summed = bool(draw.integers(2))

    def f(*arguments: ad.Tensor) -> list[ad.Tensor]:
        values = list(arguments)
        for op, a, b in choices:
            x, y = values[a], values[b]
            if op in ("square", "neg", "sin"):
                values.append(getattr(ad, op)(x))
            elif op == "double":
                values.append(ad.mul(x, 2.0))
            else:
                values.append(getattr(ad, op)(x, y))
        results = [values[k] for k in kept]
        return [*results, values[-1].sum()] if summed else results

    return f


@pytest.mark.parametrize("seed", range(40))
def test_loops_that_move_to_their_readers_give_the_same_bits(seed: int) -> None:
    shape = ((3000,), (7, 1300), (40,), (20000,))[seed % 4]
    dtype = (ad.float32, ad.float64)[seed // 4 % 2]

    def make(n: int) -> list[ad.Tensor]:
        draw = np.random.default_rng(n)
        rows = [draw.standard_normal(s) for s in (shape, shape, shape[-1:])]
        rows[0].flat[n] = (np.inf, np.nan, -0.0)[n % 3]
        return [ad.tensor(r, dtype=dtype) for r in rows]

    f = distant_readers(seed)
    program = record(f, make(0))
    for n in (1, 2, 3):
        for got, want in zip(program.run(make(n)), f(*make(n)), strict=True):
            # Which of two NaNs a sum or a product is made of, the processor chooses.
            assert bits(got.nan_to_num(1.25)) == bits(want.nan_to_num(1.25))
            assert bool((got.isnan() == want.isnan()).all())
