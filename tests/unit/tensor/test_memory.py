"""Memory: nothing leaks, nothing recurses, and the figures a user can read agree."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad


def live() -> int:
    """Bytes of tensor memory in use now."""
    gc.collect()
    return int(ad.memory_stats()["allocated_bytes"])


def train(iterations: int) -> None:
    rng = np.random.default_rng(0)
    w1, w2 = (ad.tensor(rng.normal(size=s) / 4, requires_grad=True) for s in ((8, 16), (16, 1)))
    x, y = (ad.tensor(rng.normal(size=s)) for s in ((32, 8), (32, 1)))
    for _ in range(iterations):
        loss = (((x @ w1).tanh() @ w2 - y) ** 2).mean()
        loss.backward()
        with ad.no_grad():
            for w in (w1, w2):
                w -= 0.1 * w.grad
                w.grad = None


def test_live_bytes_are_flat_over_ten_thousand_training_steps() -> None:
    train(10)
    before, objects = live(), len(gc.get_objects())
    train(10_000)
    assert live() == before
    # The interpreter's own caches may move by a few; a leak of one object a step would be 10,000.
    assert abs(len(gc.get_objects()) - objects) < 100


def test_live_bytes_follow_the_tensors() -> None:
    before = live()
    x = ad.ones(1_000_000, dtype=ad.float64)
    assert 8_000_000 <= live() - before < 12_000_000
    view = x[10:]
    del x
    assert live() - before >= 8_000_000  # the view holds it
    del view
    assert live() == before


def test_a_chain_of_a_million_nodes_runs_and_is_freed() -> None:
    x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.000001
    y.backward()
    assert x.grad.item() == pytest.approx(1.000001**1_000_000, rel=1e-9)
    del y


def test_a_chain_that_is_never_run_is_freed_without_recursion() -> None:
    y = ad.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(1_000_000):
        y = y + 1
    before = live()
    del y
    assert live() < before


def test_a_chain_of_in_place_edits_and_views() -> None:
    x = ad.ones(4, requires_grad=True)
    y = x * 1
    for _ in range(20_000):
        y[1:3].mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4


def test_backward_frees_what_it_has_used() -> None:
    x = ad.ones(100_000, requires_grad=True)
    before = live()
    y = x.exp().exp().exp().sum()
    held = live() - before
    y.backward()
    x.grad = None
    assert held >= 3 * 400_000 and live() - before < 400_000


def test_intermediate_values_that_no_gradient_needs_are_freed_at_once() -> None:
    x = ad.ones(100_000, requires_grad=True)
    before = live()
    y = (((x + 1) + 1) + 1).sum()
    assert live() - before < 400_000
    y.backward()


@pytest.mark.parametrize("run", [False, True])
def test_a_graph_dies_with_its_output(run: bool) -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    references = [weakref.ref(y), weakref.ref(z)]
    if run:
        z.backward()
    del y, z
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_cycles_through_hooks_and_attributes_are_collected() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g, y=y: None)  # y -> its node -> the hook -> y
    y.self = y
    y.node = y.grad_fn
    reference = weakref.ref(y)
    del y
    gc.collect()
    assert reference() is None


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_create_graph_does_not_leak() -> None:
    """A gradient with a history that refers back to its own tensor is the classic cycle."""

    def once() -> None:
        x = ad.ones(1000, requires_grad=True)
        (x**3).sum().backward(create_graph=True)
        x.grad.sum().backward()

    once()
    before = live()
    for _ in range(50):
        once()
    assert live() == before


def test_an_error_in_the_middle_leaks_nothing() -> None:
    def fail(_: Any) -> None:
        raise ValueError("stop")

    def once() -> None:
        x = ad.ones(1000, requires_grad=True)
        y = x.exp()
        y.register_hook(fail)
        with pytest.raises(ValueError, match="stop"):
            (y * y).sum().backward()
        with pytest.raises(RuntimeError):
            ad.ones(2) + ad.ones(3)

    once()
    before = live()
    for _ in range(50):
        once()
    assert live() == before


def test_cached_memory_can_be_given_back() -> None:
    # In a process of its own: a page that holds a small tensor of another test would stay.
    code = """if True:
        import adjoint as ad
        x, small = ad.ones(4_000_000), [ad.ones(3) for _ in range(1000)]
        del x, small
        ad.release_memory()
        print(ad.memory_stats()["cached_bytes"])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_a_collection_while_a_node_is_made_takes_no_accumulator_from_it() -> None:
    """A leaf that lives in a dead graph only, which is collected while an op on it is recorded."""
    one = ad.ones(3, requires_grad=True)
    held = [one * 1.5 for _ in range(5000)]  # more than the free list of nodes has

    class Cycle:
        me: Any
        y: Any

    def leaf_of_a_dead_graph() -> Any:
        y = ad.ones(3, requires_grad=True) * 2
        accumulator = y.grad_fn.next_functions[0][0]
        cycle = Cycle()
        cycle.me, cycle.y = cycle, y
        return accumulator

    thresholds = gc.get_threshold()
    try:
        for _ in range(50):
            gc.disable()
            x = leaf_of_a_dead_graph().variable
            gc.set_threshold(1, 1, 1)
            gc.enable()
            z = x * x
            gc.disable()
            held.append(z)
            assert z.grad_fn.next_functions[0][0].variable is x
            z.sum().backward()
            assert x.grad.tolist() == [2.0, 2.0, 2.0]
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
