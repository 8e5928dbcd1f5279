"""Results do not depend on the number of threads, and several of Python's may work at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

N = 300_007  # well above the size from which work is shared, and not a multiple of anything


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


def data(*shape: int) -> Any:
    return ad.tensor(np.random.default_rng(0).uniform(0.1, 2, shape).astype(np.float32))


WORK: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "sin": lambda x: x.sin(),
    "chain": lambda x: x.sin() * (-x * x).exp() + x**2,
    "strided": lambda x: x[::3].tanh(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "prod": lambda x: (x / x.mean()).log().sum().exp(),
    "norm": lambda x: x.norm(),
    "var": lambda x: x.var(),
    "max": lambda x: x.max(),
    "argmax": lambda x: x.argmax(),
    "rows": lambda x: x[:300_000].view(300, 1000).sum(1),
    "columns": lambda x: x[:300_000].view(300, 1000).sum(0),
    "logsumexp": lambda x: x[:300_000].view(300, 1000).logsumexp(1),
    "softmax": lambda x: x[:300_000].view(3, 100_000).softmax(1),
    "cumsum": lambda x: x.cumsum(0),
    "matmul": lambda x: x[:250_000].view(500, 500) @ x[:250_000].view(500, 500),
    "batched": lambda x: x[:240_000].view(60, 80, 50) @ x[:240_000].view(60, 50, 80),
    "gather": lambda x: x[(ad.arange(N) * 7919) % N],
    "cast": lambda x: x.double().to(ad.bfloat16).float(),
    "dot": lambda x: x @ x,
}


@pytest.mark.parametrize("name", WORK)
def test_values_and_gradients_do_not_depend_on_the_number_of_threads(name: str) -> None:
    results = []
    for threads in (1, 2, 3):
        ad.set_num_threads(threads)
        x = data(N).requires_grad_()
        y = WORK[name](x)
        parts = [y.detach().numpy().copy()]
        if y.requires_grad:
            y.sum().backward()
            parts.append(x.grad.numpy().copy())
        results.append(parts)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_same_run_gives_the_same_bits() -> None:
    ad.set_num_threads(2)
    first, *others = (WORK["chain"](data(N)).sum().item() for _ in range(5))
    assert all(o == first for o in others)


def test_the_number_of_threads_can_be_read_and_set() -> None:
    ad.set_num_threads(2)
    assert ad.get_num_threads() == 2
    for bad in (0, -1):
        with pytest.raises(RuntimeError, match=str(bad)):
            ad.set_num_threads(bad)
    with pytest.raises(RuntimeError, match="expects an int, but got str"):
        ad.set_num_threads("two")
    assert ad.get_num_threads() == 2


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in threads that start at once; an error in one is an error here."""
    results: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(i: int) -> None:
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as error:  # handed to the caller below
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
        assert not t.is_alive(), "a thread hangs"
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results


def test_python_threads_compute_and_differentiate_at_once() -> None:
    def work(i: int) -> float:
        total = 0.0
        for k in range(20):
            x = data(20_000).requires_grad_()
            (x.sin() * (i + 1)).sum().backward()
            total += x.grad.sum().item() * (k + 1)
        return total

    alone = [work(i) for i in range(4)]
    assert together(4, work) == alone


def test_grad_mode_is_of_a_thread() -> None:
    def work(i: int) -> bool:
        if i:
            return bool(ad.is_grad_enabled())
        with ad.no_grad():
            return bool(ad.is_grad_enabled())

    with ad.no_grad():
        assert together(3, work) == [False, True, True]


def test_gradients_of_a_shared_leaf_add_up() -> None:
    x = ad.ones(50_000, requires_grad=True)

    def work(_: int) -> None:
        for _ in range(25):
            (x * 2).sum().backward()

    together(4, work)
    assert (x.grad == 200).all()
