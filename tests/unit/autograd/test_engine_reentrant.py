"""Passes inside passes: any depth, errors and modes on the way, callbacks at the end."""

from __future__ import annotations

import contextvars
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad


def nested(depth: int, innermost: Callable[[], None]) -> Any:
    """A scalar whose backward runs `depth` passes inside one another."""
    level = [0]
    x = ad.tensor(1.0, requires_grad=True)

    def hook(_: Any) -> None:
        level[0] += 1
        if level[0] == depth:
            innermost()
            return
        with ad.enable_grad():
            y = x * 2
        y.register_hook(hook)
        y.backward()

    y = x * 2
    y.register_hook(hook)
    return x, y, level


def test_a_thousand_nested_passes() -> None:
    x, y, level = nested(1000, lambda: None)
    y.backward()
    assert level[0] == 1000
    assert x.grad.item() == 2.0 * 1000


def test_a_pass_that_starts_itself_without_end_is_refused() -> None:
    x, y, level = nested(-1, lambda: None)
    with pytest.raises(RecursionError, match="5000 levels deep") as caught:
        y.backward()
    assert level[0] == 5000
    assert "started here  test_engine_reentrant.py:" in str(caught.value)
    assert "fix: " in str(caught.value)
    x.grad = None
    (x * 3).backward()  # everything can be used again
    assert x.grad.item() == 3.0


def test_nested_passes_do_not_use_up_the_recursion_limit() -> None:
    """The innermost of 500 still has room for as many Python calls as a fresh thread."""

    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + deep(n - 1)

    found: list[int] = []
    _, y, _ = nested(500, lambda: found.append(deep(sys.getrecursionlimit() // 2)))
    y.backward()
    assert found == [sys.getrecursionlimit() // 2]


@pytest.mark.parametrize("depth", [1, 39, 41, 130])
def test_an_error_inside_reaches_the_caller_with_its_traceback(depth: int) -> None:
    def fail() -> None:
        raise KeyError("innermost")

    x, y, _ = nested(depth, fail)
    with pytest.raises(KeyError, match="innermost") as caught:
        y.backward()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fail" and names.count("hook") == depth
    # Everything can be used again.
    x.grad = None
    (x * 3).backward()
    assert x.grad.item() == 3.0


def test_nested_passes_see_the_modes_and_context_of_their_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[Any] = []
    _, y, _ = nested(100, lambda: seen.append((variable.get(), ad.is_grad_enabled())))
    variable.set("mine")
    y.backward()
    assert seen == [("mine", False)]
    assert ad.is_grad_enabled()


def test_grad_mode_is_restored_after_a_nested_pass() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    modes: list[bool] = []

    def hook(_: Any) -> None:
        modes.append(ad.is_grad_enabled())
        with ad.enable_grad():
            inner = x * x
        inner.backward(create_graph=False)
        modes.append(ad.is_grad_enabled())

    y = x * 3
    y.register_hook(hook)
    y.backward()
    assert modes == [False, False] and ad.is_grad_enabled()
    assert x.grad.item() == 4.0 + 3.0


def test_a_hook_may_run_a_pass_over_the_graph_it_hangs_on() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * 5
    once = [True]

    def hook(_: Any) -> None:
        if once:
            once.clear()
            z.backward(retain_graph=True)

    y.register_hook(hook)
    z.backward(retain_graph=True)
    assert x.grad.item() == 2 * 20.0


def test_a_pass_inside_may_free_the_graph_of_the_pass_outside() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * 5
    once = [True]

    def hook(_: Any) -> None:
        if once:
            once.clear()
            z.backward()

    y.register_hook(hook)
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()
    x.grad = None
    (x * x).backward()
    assert x.grad.item() == 4.0


def test_ctrl_c_stops_a_deeply_nested_pass() -> None:
    def forever() -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            sum(range(100))

    x, y, _ = nested(90, forever)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        y.backward()
    assert time.monotonic() - start < 15
    x.grad = None
    (x * 3).backward()
    assert x.grad.item() == 3.0


def test_ctrl_c_stops_a_deeply_nested_pass_that_calls_no_python() -> None:
    main = threading.main_thread().ident
    assert main is not None

    def long_pass() -> None:
        with ad.enable_grad():
            z = ad.ones(50_000, requires_grad=True)
            for _ in range(4000):
                z = z * 1.0
            z.register_hook(lambda _: signal.pthread_kill(main, signal.SIGINT))
            z = z * 1.0
        z.backward(ad.ones(50_000))

    x, y, _ = nested(90, long_pass)
    with pytest.raises(KeyboardInterrupt):
        y.backward()
    x.grad = None
    (x * 3).backward()
    assert x.grad.item() == 3.0


def test_ctrl_c_stops_a_long_pass_and_leaves_the_graph_usable() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(2000):
        y = y * 1.0
    asked = [False]

    def interrupt(_: Any) -> None:
        if not asked[0]:
            asked[0] = True
            signal.raise_signal(signal.SIGINT)

    middle = y
    middle.register_hook(interrupt)
    z = y
    for _ in range(10):
        z = z * 1.0
    with pytest.raises(KeyboardInterrupt):
        z.backward(retain_graph=True)
    assert x.grad is None
    z.backward()
    assert x.grad.item() == 1.0


def test_callbacks_run_at_the_end_of_the_pass_they_were_queued_in() -> None:
    order: list[str] = []
    engine = ad.autograd.Variable._execution_engine
    x = ad.tensor(2.0, requires_grad=True)

    def last() -> None:
        order.append(f"last {x.grad.item()}")

    def first() -> None:
        order.append("first")
        engine.queue_callback(last)

    def hook(_: Any) -> None:
        engine.queue_callback(first)
        order.append("hook")

    y = x * 3
    y.register_hook(hook)
    y.backward()
    assert order == ["hook", "first", "last 3.0"]


def test_callbacks_belong_to_their_own_pass() -> None:
    order: list[str] = []
    engine = ad.autograd.Variable._execution_engine
    x = ad.tensor(2.0, requires_grad=True)

    def inner(_: Any) -> None:
        engine.queue_callback(lambda: order.append("inner"))

    def outer(_: Any) -> None:
        engine.queue_callback(lambda: order.append("outer"))
        with ad.enable_grad():
            y = x * 2
        y.register_hook(inner)
        y.backward()
        order.append("hook over")

    y = x * 3
    y.register_hook(outer)
    y.backward()
    assert order == ["inner", "hook over", "outer"]


def test_a_callback_outside_of_a_pass_is_refused() -> None:
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        ad.autograd.Variable._execution_engine.queue_callback(lambda: None)


def test_an_error_in_a_callback_reaches_the_caller() -> None:
    x = ad.tensor(2.0, requires_grad=True)

    def fail() -> None:
        raise ZeroDivisionError("callback")

    y = x * 3
    y.register_hook(lambda _: ad.autograd.Variable._execution_engine.queue_callback(fail))
    with pytest.raises(ZeroDivisionError, match="callback"):
        y.backward()
    assert x.grad.item() == 3.0


def test_each_pass_has_a_number() -> None:
    from adjoint import _C

    seen: list[int] = []
    x = ad.tensor(2.0, requires_grad=True)
    y = x * 3
    y.register_hook(lambda _: seen.append(_C._current_graph_task_id()))
    assert _C._current_graph_task_id() == -1
    y.backward(retain_graph=True)
    y.backward()
    assert seen[0] >= 0 and seen[1] == seen[0] + 1
    assert _C._current_graph_task_id() == -1


def test_a_pass_knows_the_nodes_it_reaches_and_their_order() -> None:
    from adjoint import _C

    a, b = (ad.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    c = a.sin()
    d = b.cos()
    out = c * d
    found: list[Any] = []

    def hook(_: Any) -> None:
        found.append([n.name() for n in _C._current_graph_task_execution_order()])
        found.append([_C._will_engine_execute_node(t.grad_fn) for t in (c, d)])

    out.register_hook(hook)
    out.backward(retain_graph=True)
    assert found[1] == [True, True]
    assert found[0][:3] == ["MulBackward0", "CosBackward0", "torch::autograd::AccumulateGrad"]
    out.backward(inputs=[a])
    assert found[3] == [True, False]
    for ask in (
        _C._current_graph_task_execution_order,
        lambda: _C._will_engine_execute_node(c.grad_fn),
    ):
        with pytest.raises(RuntimeError, match="during the backward pass"):
            ask()
    with pytest.raises(RuntimeError, match="expects an grad_fn"):
        _C._will_engine_execute_node(3)


def test_deeply_nested_passes_find_the_saved_tensor_hooks_of_their_caller() -> None:
    packed: list[int] = []

    def pack(t: Any) -> Any:
        packed.append(threading.get_ident())
        return t

    def innermost() -> None:
        x = ad.tensor(2.0, requires_grad=True)
        with ad.enable_grad():
            y = x.exp()
        y.backward()
        assert x.grad is not None

    _, y, _ = nested(90, innermost)
    with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y.backward()
    assert packed[-1] != threading.get_ident()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_anomaly_detection_goes_along_with_nested_passes() -> None:
    def innermost() -> None:
        x = ad.tensor(0.0, requires_grad=True)
        with ad.enable_grad():
            y = x.sqrt() * 0
        y.backward()

    for depth in (2, 90):
        _, y, _ = nested(depth, innermost)
        with pytest.raises(RuntimeError, match="returned nan"), ad.autograd.detect_anomaly():
            y.backward()


def test_functions_can_be_traced_after_an_interrupt() -> None:
    """A pending interrupt that is cancelled would hold every traced function up in CPython 3.11."""
    program = """
import signal, sys, threading
import adjoint as ad

class Deep(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return x * 2

    @staticmethod
    def backward(ctx, g):
        with ad.enable_grad():
            y = ad.ones(2, requires_grad=True)
            if ctx.n > 0:
                Deep.apply(y, ctx.n - 1).sum().backward()
            else:
                main = threading.main_thread().ident
                threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
                while True:
                    z = y
                    for _ in range(2000):
                        z = z * 1.0
                    z.sum().backward()
        return g * 2, None

x = ad.ones(2, requires_grad=True)
try:
    Deep.apply(x, 60).sum().backward()
except KeyboardInterrupt:
    print("interrupted")
sys.settrace(lambda *_: None)
(lambda: 1)()
print("traced")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["interrupted", "traced"]
