"""Large, deep, long and parallel: what must hold however much there is of it.

All of it runs in the sanitized build too.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs `work(i)` in `count` threads that start together; raises what they raise."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def body(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_a_chain_of_a_million_nodes() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y
    (z,) = ad.autograd.grad(x * 2, x)
    assert z.item() == 2.0


def test_a_chain_of_many_nodes_is_freed_without_running() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + x
    first = weakref.ref(y.grad_fn)
    del y
    assert first() is None


def test_a_chain_of_many_nodes_through_grad_and_its_own_gradient() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(50_000):
        y = y * 1.0
    y = y * y
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    (h,) = ad.autograd.grad(g, x)
    assert (g.item(), h.item()) == (2.0, 2.0)


@pytest.mark.parametrize(
    "join", [ad.stack, ad.hstack, lambda some: ad.cat([t[None] for t in some])]
)
def test_more_tensors_in_one_op_than_16_bits_can_count(join: Any) -> None:
    k = ad.tensor(2.0, requires_grad=True)
    count = 66_000
    joined = join([k * 1.0 for _ in range(count)])
    assert ad.autograd.grad(joined.sum(), k)[0].item() == count


def test_more_results_of_one_op_than_16_bits_can_count() -> None:
    x = ad.ones(66_000, requires_grad=True)
    x.unbind(0)[65_990].backward()
    assert x.grad is not None
    assert x.grad.nonzero().tolist() == [[65_990]]


def test_ten_thousand_views_of_views() -> None:
    x = ad.arange(4.0).requires_grad_()
    y = x.clone()
    v = y
    for i in range(10_000):
        v = v.view(2, 2) if i % 2 == 0 else v.view(4)
    v.mul_(3)
    (y.sum() + v.sum()).backward()
    assert x.grad.tolist() == [6.0] * 4


def test_ten_thousand_changes_in_place() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.clone()
    for i in range(10_000):
        y[i % 3].mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_a_thousand_passes_in_each_of_eight_threads_into_shared_leaves() -> None:
    small = ad.ones(3, requires_grad=True)
    scalar = ad.tensor(1.0, requires_grad=True)

    def work(_: int) -> None:
        for _ in range(1000):
            (small * scalar).sum().backward()

    in_threads(8, work)
    assert small.grad.tolist() == [8000.0] * 3
    assert scalar.grad.item() == 24000.0


def test_large_gradients_from_eight_threads_into_one_leaf() -> None:
    large = ad.ones(40_000, requires_grad=True)

    def work(_: int) -> None:
        for _ in range(20):
            (large * 2).sum().backward()

    in_threads(8, work)
    assert large.grad[0].item() == large.grad[-1].item() == 8 * 20 * 2.0


def test_threads_share_a_part_of_a_graph() -> None:
    x = ad.ones(3, requires_grad=True)
    shared = (x * 2).exp()
    want = ad.autograd.grad(shared.sum(), x, retain_graph=True)[0].tolist()

    def work(i: int) -> None:
        for _ in range(100):
            (g,) = ad.autograd.grad((shared * (i + 1)).sum(), x, retain_graph=True)
            assert g.tolist() == pytest.approx([w * (i + 1) for w in want])

    in_threads(4, work)


@pytest.mark.parametrize("size", [3, 40_000])
def test_a_shared_part_freed_by_another_thread_is_an_error_not_a_crash(size: int) -> None:
    for _ in range(20):
        x = ad.ones(size, requires_grad=True)
        shared = (x * 2).exp().sin()
        outcomes: list[str] = []

        def work(_: int, shared: Any = shared, outcomes: list[str] = outcomes) -> None:
            try:
                shared.sum().backward()
                outcomes.append("done")
            except RuntimeError as error:
                assert "second time" in str(error)
                outcomes.append("refused")

        in_threads(2, work)
        assert "done" in outcomes and len(outcomes) == 2
        x.grad = None
        (x * 2).sum().backward()
        assert x.grad[0].item() == 2.0


def test_a_long_pass_lets_other_threads_work() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(300_000):
        y = y * 1.0
    count = [0]
    over = threading.Event()
    ready = threading.Event()

    def other() -> None:
        ready.set()
        while not over.is_set():
            count[0] += 1

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    during = 0
    for _ in range(10):  # a busy machine may not run the other thread during one of them
        before = count[0]
        y.backward(retain_graph=True)
        during = count[0] - before
        if during:
            break
    over.set()
    thread.join()
    assert during > 0


def live_bytes() -> int:
    gc.collect()
    return int(ad._core.memory_stats()["allocated_bytes"])


@pytest.mark.filterwarnings("ignore:Using backward")
def test_nothing_grows_over_ten_thousand_iterations() -> None:
    """Cycles of every kind: recorded gradients, hooks that hold tensors, ctx that holds tensors."""

    class Keeps(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.own = y
            ctx.save_for_backward(x)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def step() -> weakref.ref[Any]:
        x = ad.ones(8, requires_grad=True)
        y = x * x
        seen: list[Any] = []
        y.register_hook(lambda g: seen.append(y))
        y.retain_grad()
        Keeps.apply(y).sum().backward(create_graph=True)
        return weakref.ref(x)

    for _ in range(50):
        step()
    before = live_bytes()
    last = None
    for i in range(10_000):
        last = step()
        if i % 500 == 0:
            gc.collect()
    after = live_bytes()
    assert last is not None and last() is None
    assert after <= before + 4096


def test_saved_values_are_freed_node_by_node() -> None:
    x = ad.ones(1000, requires_grad=True)
    held: list[int] = []
    y = x
    for _ in range(20):
        y = y.exp().log()
        y.register_hook(lambda g: held.append(live_bytes()))
    y.sum().backward()
    assert held[-1] < held[0] - 10 * 4000
