"""The profiler: every op, forward and backward, with its time, its line and what is inside it."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import profiler
from adjoint.autograd import profiler as older


def traced(**options: Any) -> profiler.profile:
    x = ad.ones(4, 3, requires_grad=True)
    w = ad.ones(3, 2, requires_grad=True)
    with profiler.profile(**options) as prof:
        y = (x @ w).relu()
        y.sum().backward()
    return prof


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_ops_of_forward_and_backward_are_seen_in_order() -> None:
    names = [event.name for event in traced().events()]
    assert names[:3] == ["aten::matmul", "aten::relu", "aten::sum"] or names[0] == "aten::matmul"
    assert "SumBackward0" in names and "ReluBackward0" in names
    assert any(name.endswith("evaluate_function: SumBackward0") for name in names)
    assert "torch::autograd::AccumulateGrad" in names


def test_what_is_inside_is_counted_once() -> None:
    events = traced().events()
    for event in events:
        assert event.cpu_time_total >= 0
        assert event.self_cpu_time_total >= -1e-6
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
    outermost = [event for event in events if event.cpu_parent is None]
    total = sum(event.cpu_time_total for event in outermost)
    assert events.self_cpu_time_total == pytest.approx(total)


def test_events_know_the_line_that_made_them() -> None:
    events = {event.name: event for event in traced().events()}
    place = f"{Path(__file__)}({line_of('y = (x @ w).relu()')}): traced"
    assert events["aten::relu"].stack == [place]
    # The backward of a node belongs to the line of its forward.
    assert events["ReluBackward0"].stack == [place]
    assert events["ReluBackward0"].scope == 1 and events["aten::relu"].scope == 0
    inside = [e for e in events.values() if e.cpu_parent is events["ReluBackward0"]]
    assert all(event.stack == [place] for event in inside)


def test_with_stack_keeps_the_callers_too() -> None:
    events = {event.name: event for event in traced(with_stack=True).events()}
    stack = events["aten::relu"].stack
    assert stack[0].endswith(": traced") and stack[1].endswith(f": {_here()}")


def _here() -> str:
    return "test_with_stack_keeps_the_callers_too"


def test_shapes_are_kept_if_asked_for() -> None:
    events = {event.name: event for event in traced(record_shapes=True).events()}
    assert events["aten::matmul"].input_shapes == [[4, 3], [3, 2]]
    assert events["aten::relu"].input_shapes == [[4, 2]]
    assert {e.name: e.input_shapes for e in traced().events()}["aten::relu"] == []
    with profiler.profile(record_shapes=True) as prof:
        ad.cat([ad.ones(2), ad.ones(3)])
    joined = next(e for e in prof.events() if e.name == "aten::cat")
    assert joined.input_shapes[0] == [[2], [3]]


def test_averages_gather_by_name_shape_and_line() -> None:
    with profiler.profile(record_shapes=True) as prof:
        for n in (2, 2, 3):
            ad.ones(n).exp()
        ad.ones(2).exp()
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::exp"].count == 4
    assert rows["aten::exp"].cpu_time == pytest.approx(rows["aten::exp"].cpu_time_total / 4)
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert sorted(r.count for r in by_shape if r.key == "aten::exp") == [1, 3]
    by_line = prof.key_averages(group_by_stack_n=1)
    assert sorted(r.count for r in by_line if r.key == "aten::exp") == [1, 3]
    assert prof.events().total_average().count == len(prof.events())


def test_the_table_has_pytorchs_columns() -> None:
    prof = traced(record_shapes=True, profile_memory=True)
    table = prof.key_averages(group_by_input_shape=True).table(
        sort_by="cpu_time_total", row_limit=3
    )
    lines = table.splitlines()
    titles = [part for part in lines[1].split("  ") if part.strip()]
    assert [title.strip() for title in titles] == [
        "Name",
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
        "CPU Mem",
        "Self CPU Mem",
        "# of Calls",
        "Input Shapes",
    ]
    assert len(lines) == 3 + 3 + 2 and lines[-1].startswith("Self CPU time total: ")
    assert "Source Location" in prof.key_averages(group_by_stack_n=1).table()
    assert "1.000s" not in prof.key_averages().table(time_unit="us")
    with pytest.raises(AttributeError, match="nonsense"):
        prof.key_averages().table(sort_by="nonsense")


def test_memory_is_what_remains_allocated() -> None:
    x = ad.ones(1000, 1000)
    with profiler.profile(profile_memory=True) as prof:
        y = x + 1
        del y
        kept = x * 2
    rows = {event.name: event for event in prof.events()}
    assert rows["aten::add"].cpu_memory_usage >= 4_000_000
    assert rows["aten::mul"].self_cpu_memory_usage >= 4_000_000
    assert kept.numel() == 1_000_000


def test_in_place_ops_have_their_own_name() -> None:
    x = ad.ones(3)
    with profiler.profile() as prof:
        x.add_(1)
        ad.mul(x, 2, out=x)
    assert [e.name for e in prof.events() if e.cpu_parent is None] == ["aten::add_", "aten::mul"]


def test_ranges_hold_what_runs_inside() -> None:
    x = ad.ones(3)

    @profiler.record_function("decorated")
    def f() -> ad.Tensor:
        return x.exp()

    with profiler.profile() as prof:
        with profiler.record_function("block"):
            x.sin()
        f()
    block, sine, decorated, exp = prof.events()
    assert (block.name, sine.name) == ("block", "aten::sin")
    assert sine.cpu_parent is block and exp.cpu_parent is decorated
    assert block.is_user_annotation and not sine.is_user_annotation


def test_a_custom_function_is_an_event() -> None:
    class Twice(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: ad.Tensor) -> ad.Tensor:  # type: ignore[override]
            return g * 2

    x = ad.ones(2, requires_grad=True)
    with profiler.profile() as prof:
        Twice.apply(x).sum().backward()
    names = [event.name for event in prof.events()]
    assert "Twice" in names and "TwiceBackward" in names


def test_a_compiled_function_shows_its_instructions() -> None:
    f = ad.compile(lambda x: (x.exp() + 1).sum())
    x = ad.ones(8)
    f(x), f(x)
    with profiler.profile() as prof:
        f(x)
    names = [event.name for event in prof.events()]
    assert names[0] == "CompiledFunction"
    assert any(name.startswith("compiled ") for name in names[1:])


def test_the_optimizer_step_is_a_range() -> None:
    w = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.1)
    w.sum().backward()
    with profiler.profile() as prof:
        optimizer.step()
        optimizer.zero_grad()
    names = [event.name for event in prof.events()]
    assert "Optimizer.step#SGD.step" in names and "Optimizer.zero_grad#SGD.zero_grad" in names


def test_results_are_the_same_under_the_profiler() -> None:
    def run() -> list[list[float]]:
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
        x = ad.randn(5, 3)
        loss = net(x).pow(2).mean()
        loss.backward()
        grads = [p.grad for p in net.parameters()]
        return [loss.tolist(), *(g.tolist() for g in grads if g is not None)]

    plain = run()
    with profiler.profile():
        watched = run()
    assert watched == plain


def test_the_schedule_says_which_steps_are_seen() -> None:
    ready: list[list[str]] = []

    def note(prof: profiler.profile) -> None:
        ready.append([e.name for e in prof.events() if e.name.startswith("ProfilerStep")])

    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    x = ad.ones(2)
    with profiler.profile(schedule=plan, on_trace_ready=note) as prof:
        for _ in range(10):
            x.exp()
            prof.step()
    assert ready == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]


def test_schedules_are_pytorchs() -> None:
    plan = profiler.schedule(wait=2, warmup=1, active=1, repeat=1, skip_first=1)
    action = profiler.ProfilerAction
    assert [plan(i) for i in range(6)] == [
        action.NONE,
        action.NONE,
        action.NONE,
        action.WARMUP,
        action.RECORD_AND_SAVE,
        action.NONE,
    ]
    with pytest.raises(AssertionError):
        profiler.schedule(wait=0, warmup=1, active=0)


def test_the_chrome_trace_is_json_with_arrows(tmp_path: Path) -> None:
    prof = traced(record_shapes=True)
    prof.add_metadata("who", "me")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["who"] == "me"
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(prof.events())
    assert {"name", "ts", "dur", "pid", "tid", "cat", "args"} <= set(events[0])
    starts = {e["id"] for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"] for e in trace["traceEvents"] if e["ph"] == "f"}
    assert starts and starts == ends
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"]


def test_traces_for_tensorboard_and_flame_graphs(tmp_path: Path) -> None:
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "log"), "me")
    prof = traced(on_trace_ready=handler, with_stack=True)
    (file,) = (tmp_path / "log").iterdir()
    assert file.name.startswith("me.") and file.name.endswith(".pt.trace.json")
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    for line in (tmp_path / "stacks.txt").read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        assert int(count) > 0 and ";" in stack


def test_one_profiler_at_a_time() -> None:
    with profiler.profile(), pytest.raises(RuntimeError, match="a profiler is running already"):
        profiler.profile().start()
    with profiler.profile() as prof:
        ad.ones(2)
    assert len(prof.events()) == 1


def test_an_error_inside_ends_its_events() -> None:
    prof = profiler.profile()
    with pytest.raises(RuntimeError), prof:
        ad.ones(2) + ad.ones(3)
    assert all(event.time_range.end >= event.time_range.start for event in prof.events())
    assert not ad._core._profiling()


def test_other_threads_are_not_looked_at() -> None:
    with profiler.profile() as prof:
        thread = threading.Thread(target=lambda: ad.ones(3).exp())
        thread.start()
        thread.join()
    assert len(prof.events()) == 0


def test_before_its_end_there_is_nothing_to_see() -> None:
    prof = profiler.profile()
    with pytest.raises(AssertionError, match="Profiler must be initialized"):
        prof.key_averages()
    with pytest.raises(AssertionError):
        prof.events()


def test_the_older_form() -> None:
    x = ad.ones(3, requires_grad=True)
    with older.profile(record_shapes=True) as prof, older.record_function("mine"):
        x.exp().sum().backward()
    assert "mine" in [row.key for row in prof.key_averages()]
    assert prof.self_cpu_time_total > 0
    assert prof.table().startswith("---") and str(prof) == prof.table()
    with older.profile(enabled=False) as off:
        x.exp()
    assert off.function_events is None
    with pytest.raises(RuntimeError, match="didn't finish"):
        off.key_averages()


def test_tracers_of_other_machines_do_nothing_and_say_so() -> None:
    older.emit_nvtx._said = False
    with pytest.warns(UserWarning, match="emit_nvtx does nothing"), older.emit_nvtx():
        ad.ones(2)
    with older.emit_nvtx():  # said once
        pass
    with profiler.profile() as prof, profiler.itt.range("part {}", 1):
        pass
    assert [event.name for event in prof.events()] == ["part 1"]
    with pytest.raises(NotImplementedError, match="export_chrome_trace"):
        profiler.ExecutionTraceObserver()
