"""`ad.step`: a backward pass under control. tests/property/test_steps.py has random graphs."""

from __future__ import annotations

import gc
import io
import math
import os
import re
import signal
import threading
import weakref
from typing import Any

import pytest

import adjoint as ad


def small() -> tuple[Any, Any]:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return x, (x.exp() * x.sin()).sum()


def ops(stepper: Any) -> list[str]:
    return [step.node.op for step in stepper.history]


def test_each_step_says_what_arrived_and_where_it_went() -> None:
    x, y = small()
    s = ad.step(y)
    first = s.next()
    assert (first.node.op, first.arrived[0].values) == ("sum", (1.0,))
    second = s.next()
    assert [d.node.op for d in second.sent] == ["exp", "sin"]
    assert second.used[0].norm == pytest.approx(math.sqrt(3))
    assert s.gradients[0].tolist() == [1.0, 1.0, 1.0]
    assert [g.tolist() for g in s.results] == [x.sin().tolist(), x.exp().tolist()]
    third, fourth = s.next(), s.next()
    assert [third.sent[0].added, fourth.sent[0].added] == [False, True]  # both go to x
    last = s.next()
    assert last.node.label == "x"
    assert last.before is None
    assert last.after.values == tuple(x.grad.tolist())
    assert s.done
    assert s.next() is last


def test_back_shows_what_was_and_undoes_nothing() -> None:
    x, y = small()
    s = ad.step(y)
    s.next(5)
    grad = x.grad.clone()
    assert s.back().number == 4
    assert s.back(3).number == 1
    assert s.back() is None
    assert s.position == 0
    assert s.next().number == 1
    assert x.grad.equal(grad)
    assert len(s.history) == 5


def test_run_to_stops_before_the_node() -> None:
    x = ad.tensor([0.5], requires_grad=True)
    a = x.sin()
    b = a.exp()
    line = b.grad_fn.source
    y = (b * 2).sum()
    s = ad.step(y)
    assert s.run_to(line=f"{os.path.basename(line[0])}:{line[1]}").op == "exp"
    assert ops(s) == ["sum", "mul"]
    assert s.waiting[0][1][0].tolist() == [2.0]
    assert s.run_to(a).op == "sin"
    assert s.run_to(op="leaf").is_leaf
    with pytest.raises(ValueError, match="1 such nodes have run already"):
        s.run_to(op="exp")
    with pytest.raises(ValueError, match="there is none"):
        s.run_to(op="tanh")
    with pytest.raises(TypeError, match="a tensor, a node, line= or op="):
        s.run_to()


def test_breaks_where_a_gradient_is_made_nan() -> None:
    x = ad.tensor([0.0, 4.0], requires_grad=True)
    y = (x.sqrt() * 0).sum() + x.sum()
    s = ad.step(y).break_on(nan=True)
    stop = s.run()
    assert (stop.node.op, stop.breaks) == ("sqrt", ("`sqrt` passes on a gradient that is NaN",))
    assert s.run() is None  # the leaf passes nothing on
    assert x.grad.isnan().tolist() == [True, False]


def test_breaks_where_a_gradient_is_zero_or_large() -> None:
    x = ad.tensor([-1.0, -2.0], requires_grad=True)
    assert ad.step(x.relu().sum()).break_on(zero=True).run().node.op == "relu"
    stop = ad.step((x * 1e6).sum()).break_on(norm=1e3).run()
    assert stop.breaks == ("`mul` passes on a gradient that is of norm above 1000",)
    assert ad.step((x * 1e6).sum()).break_on(where=lambda s: s.node.op == "sum").run().number == 1
    with pytest.raises(ValueError, match="norm must be a number from 0 on"):
        ad.step(x.sum()).break_on(norm=math.nan)
    with pytest.raises(ValueError, match="norm must be a number from 0 on, got 'much'"):
        ad.step(x.sum()).break_on(norm="much")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="where must be a function of a step, got 3"):
        ad.step(x.sum()).break_on(where=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the name of an op, such as 'mul', got 3"):
        ad.step(x.sum()).run_to(op=3)  # type: ignore[arg-type]


def test_a_condition_that_raises_leaves_the_step_in_the_history() -> None:
    x, y = small()
    s = ad.step(y).break_on(where=lambda step: 1 / 0 > 1)
    with pytest.raises(ZeroDivisionError):
        s.run()
    assert [step.number for step in s.history] == [1]
    s.break_on(where=lambda step: False).run()
    assert s.done
    assert [step.number for step in s.history] == list(range(1, len(s.graph) + 1))
    assert x.grad is not None


def test_breaks_where_a_hook_or_a_sum_spoils_a_gradient() -> None:
    x = ad.tensor([1.0], requires_grad=True)
    a = x * 2
    a.register_hook(lambda g: g * math.nan)
    stop = ad.step(a.sum()).break_on(nan=True).run()
    assert (stop.node.op, stop.breaks[0]) == ("mul", "hooks made the gradient NaN")
    assert stop.changed_by_hooks
    b = ad.tensor([1.0], requires_grad=True)
    c = b.clone()
    y = (c * math.inf).sum() - (c * math.inf).sum()
    stop = ad.step(y).break_on(nan=True).run()
    assert stop.node.op == "clone"
    assert "though no node passed on such a one" in stop.breaks[0]


def test_what_is_freed_adds_up_to_what_the_graph_kept() -> None:
    x = ad.rand(100, requires_grad=True)
    y = (x.exp() * x.sin()).sum()
    kept = ad.graph(y).saved_bytes
    s = ad.step(y)
    s.finish()
    assert sum(step.freed for step in s.history) == kept > 0
    s = ad.step((x.exp() * x.sin()).sum(), retain_graph=True)
    s.finish()
    assert not any(step.freed for step in s.history)


def test_a_pass_without_accumulation_or_with_a_graph_of_its_own() -> None:
    x = ad.tensor([2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="reference cycle"):
        (x**3).sum().backward(create_graph=True)
    want = x.grad.clone()
    x.grad = None
    s = ad.step((x**3).sum(), create_graph=True)
    s.finish()
    assert x.grad.equal(want)
    assert x.grad.requires_grad
    x.grad = None


def test_an_error_in_a_hook_ends_the_pass_as_in_backward() -> None:
    x, y = small()
    x.register_hook(lambda g: 1 / 0)
    s = ad.step(y)
    with pytest.raises(ZeroDivisionError):
        s.run()
    assert s.done
    assert x.grad is None
    assert s.run() is None


def test_a_step_inside_a_step_is_refused() -> None:
    x, y = small()
    steppers: list[Any] = []
    x.register_hook(lambda g: steppers[0].next())
    steppers.append(ad.step(y))
    with pytest.raises(RuntimeError, match="in the middle of a step"):
        steppers[0].run()


def test_other_passes_may_run_inside_and_between_steps() -> None:
    x, y = small()
    want = ad.autograd.grad(y, x, retain_graph=True)[0]
    inner = []

    def hook(g: Any) -> None:
        if not inner:  # the graph of y, again
            inner.append(None)
            inner.append(ad.autograd.grad(y, x, retain_graph=True)[0])

    x.register_hook(hook)
    s = ad.step(y, retain_graph=True)
    s.next(2)
    between = ad.autograd.grad(y, x, retain_graph=True)[0]
    s.run()
    assert between.equal(want)
    assert inner[1].equal(want)
    assert x.grad.equal(want)


def test_steps_may_come_from_several_threads() -> None:
    x, y = small()
    want = ad.autograd.grad(y, x, retain_graph=True)[0]
    s = ad.step(y)
    for _ in range(5):
        thread = threading.Thread(target=s.next)
        thread.start()
        thread.join()
    assert s.done
    assert x.grad.equal(want)


def test_modes_of_the_pass_hold_in_each_step_and_end_with_it() -> None:
    x = ad.tensor([0.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection"), ad.autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()
        s = ad.step(y)
    assert not ad.is_anomaly_enabled()
    s.next(2)
    assert not ad.is_anomaly_enabled()
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="nan"):
        s.next()
    with ad.no_grad():  # the mode of the caller does not matter
        z = (x * 2).detach()
    assert not z.requires_grad
    assert ad.is_grad_enabled()


def test_a_pass_inside_transforms_is_refused() -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="inside vmap or forward mode"):
        ad.vmap(lambda v: ad.step((v * x.sum()).sum()) and v)(ad.ones(2))


def test_a_compiled_function_that_steps_runs_eagerly() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)

    def f(v: Any) -> Any:
        y = (v * v).sum()
        s = ad.step(y, retain_graph=True)
        s.finish()
        return y

    compiled = ad.compile(f)
    with pytest.warns(ad.compiler.CompileWarning, match="a backward pass is stepped through"):
        compiled(x)
    for _ in range(3):
        x.grad = None
        compiled(x)
        assert x.grad.tolist() == [2.0, 4.0]


def test_an_abandoned_pass_is_freed_with_its_last_holder() -> None:
    x, y = small()
    s = ad.step(y)
    s.next(2)
    watched = weakref.ref(s)
    del s
    assert watched() is None
    assert y.grad_fn is not None
    x.mine = ad.step(small()[1])  # a cycle through the graph that it holds
    x.mine.next()
    x.mine.own = x
    watched = weakref.ref(x.mine)
    del x, y
    gc.collect()
    assert watched() is None


def test_ctrl_c_ends_a_step_as_any_call() -> None:
    x, y = small()
    x.register_hook(lambda g: os.kill(os.getpid(), signal.SIGINT))
    s = ad.step(y)
    with pytest.raises(KeyboardInterrupt):
        s.run()
    assert s.done


def test_errors_are_those_of_backward() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        ad.step(ad.ones(1))
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        ad.step(x * 2)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        ad.step(x.sum(), inputs=[])
    with pytest.raises(ValueError, match="a number of steps"):
        ad.step(x.sum()).next(-1)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        ad.step(y).run()


def test_composites_and_several_outputs() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    state = {"a": (x * 2).sum(), "b": (x * 3).sum()}
    ad.step(state).run()
    assert x.grad.tolist() == [5.0, 5.0]
    ad.step([x * 1, x.sum()], [ad.tensor([1.0, 10.0]), None]).run()
    assert x.grad.tolist() == [7.0, 16.0]


def test_printed() -> None:
    _, y = small()
    s = ad.step(y)
    assert "0 of 5 nodes have run" in str(s)
    s.next(2)
    text = str(s)
    assert "2 of 5 nodes have run" in text
    assert re.search(r"^ran +mul \[3\] .*test_step.py", text, re.M)
    assert re.search(r"^next +sin ", text, re.M)
    s.back()
    assert "step 1 is in view" in str(s)
    assert repr(s.current).startswith("<step 1: sum")
    s.finish()
    assert ".grad is" in str(s.history[-1])


def test_the_prompt_steps() -> None:
    from rich.console import Console

    from adjoint.graph.stepping._terminal import interact

    def said(text: str) -> tuple[str, Any]:
        _, y = small()
        s = ad.step(y)
        lines = iter(text.splitlines())
        console = Console(file=io.StringIO(), width=100)

        def read(prompt: str = "", **_: object) -> str:
            try:
                return next(lines)
            except StopIteration:
                raise EOFError from None

        console.input = read  # type: ignore[method-assign]
        interact(s, console)
        return console.file.getvalue(), s  # type: ignore[attr-defined]

    text, s = said("n 2\nb\n\ns\nq")
    assert (s.position, len(s.history)) == (2, 2)
    assert "→" in text
    text, s = said("o exp\nnan\nnorm 1e9\nw\nr\n")
    assert s.done
    text, s = said("o nowhere\nn x\nhelp\n")
    assert "no node that is still to run is meant" in text
    assert "invalid literal" in text
    assert "run to a line" in text
    assert not s.history


def test_the_prompt_does_not_hide_the_error_of_a_hook() -> None:
    from rich.console import Console

    from adjoint.graph.stepping._terminal import interact

    x, y = small()
    x.register_hook(lambda grad: int("a hook's"))
    console = Console(file=io.StringIO(), width=100)
    console.input = lambda *_, **__: "r"  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="a hook's"):
        interact(ad.step(y), console)


def test_what_looks_like_markup_is_shown() -> None:
    """Rich takes ``[nan, 1]`` for a style, and ``[/x]`` for the end of one."""
    from rich.console import Console

    from adjoint.graph.stepping._terminal import interact

    x = ad.ones(2, requires_grad=True)
    s = ad.step((x * 2).sum(), ad.tensor(float("nan")), names={"[b]x": x})
    s.finish()
    assert "[nan, nan]" in str(s) and "leaf [b]x" in str(s)
    console = Console(file=io.StringIO(), width=100)
    console.input = lambda *_, **__: "q"  # type: ignore[method-assign]
    interact(s, console)
    assert "[nan, nan]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_long_lines_leave_room_for_numbers() -> None:
    x = ad.tensor([1.0], requires_grad=True)
    y = (x * 1.0 * 2.0 * 3.0 * 4.0 * 5.0 * 6.0 * 7.0).sum() + 0.0 * (x + 1.0).sum() + 1.0 + 2.0
    s = ad.step(y)
    s.next()
    assert "[1]  norm 1" in str(s)
    assert "…" in str(s)


def test_text_is_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rich would write into the cell."""
    _, y = small()
    s = ad.step(y)
    step, before = s.next(), str(s)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(s) == before
    assert str(step).startswith("step 1")
