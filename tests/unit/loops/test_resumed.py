"""Loops with resume=True go on where a process was killed, with the same bits, or begin anew."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import CompileWarning
from adjoint.loops import _resumed, _run


def whole_run(factor: float = 1.0, **kept: Any) -> list[Any]:
    """Results, gradients and the next random number of a loop with outputs and inputs."""
    ad.manual_seed(1)
    a = ad.tensor(1.01, requires_grad=True)
    xs = ad.rand(100, 4).requires_grad_()

    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        c = c * a + factor * x.sin() * ad.rand(4)
        return c, c.sum()

    c, ys = ad.scan(step, ad.ones(4), xs, **kept)
    drawn = ad.rand(2)
    (c.square().sum() + ys.cos().sum()).backward()
    assert a.grad is not None and xs.grad is not None
    return [t.tolist() for t in (c, ys, a.grad, xs.grad, drawn, ad.rand(2))]


def run_and_be_killed(folder: str, kind: str, after: int, reverse: bool) -> None:
    """The same, until so many files of a kind are written."""
    write, written = _resumed._write, 0

    def count(path: str, *content: Any) -> None:
        nonlocal written
        write(path, *content)
        written += os.path.basename(path).startswith(kind)
        if written == after:
            os.kill(os.getpid(), signal.SIGKILL)

    _resumed._write = count  # type: ignore[assignment]
    whole_run(snapshots=6, reverse=reverse, disk=folder, resume=True)


class Steps:
    forward = 0
    backward = 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """How many steps have run in a first pass, and backward."""
    found, advance, back = Steps(), _run.LoopRun.advance, _run.LoopRun.back

    def note(self: Any, *args: Any, **more: Any) -> Any:
        found.forward += 0 if more else args[4] - args[3]
        return advance(self, *args, **more)

    def note_back(self: Any, g: Any, tape: Any, first: int, last: int) -> None:
        found.backward += last - first
        back(self, g, tape, first, last)

    monkeypatch.setattr(_run.LoopRun, "advance", note)
    monkeypatch.setattr(_run.LoopRun, "back", note_back)
    yield found


@pytest.mark.parametrize(
    ("kind", "after", "reverse"),
    [("state", 3, False), ("rows", 3, True), ("end", 1, False), ("gradients", 8, True)],
)
def test_the_next_process_goes_on_where_one_was_killed(
    kind: str, after: int, reverse: bool, tmp_path: Path, steps: Steps
) -> None:
    call = f"test_resumed.run_and_be_killed({str(tmp_path)!r}, {kind!r}, {after}, {reverse})"
    there = str(Path(__file__).parent)
    program = f"import sys; sys.path.insert(0, {there!r}); import test_resumed; {call}"
    child = subprocess.run([sys.executable, "-c", program], check=False)
    assert child.returncode == -signal.SIGKILL
    want = whole_run(snapshots=6, reverse=reverse)
    assert (steps.forward, steps.backward) == (100, 100)
    steps.forward = steps.backward = 0
    assert whole_run(snapshots=6, reverse=reverse, disk=tmp_path, resume=True) == want
    left = {"state": (20, 100), "rows": (35, 100), "end": (0, 100), "gradients": (0, 65)}
    assert (steps.forward, steps.backward) == left[kind]
    assert not os.listdir(tmp_path)


def interrupted(folder: Path, run: Callable[[], Any] | None = None) -> list[Path]:
    """The files of a run that was interrupted at its third state."""
    put = _resumed.ResumedStates.put

    def stop(self: Any, place: int, state: Any) -> None:
        put(self, place, state)
        if len(self.places()) == 3:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_resumed.ResumedStates, "put", stop)
        if run is None:
            whole_run(snapshots=6, disk=folder, resume=True)
        else:
            run()
    return sorted(folder.glob("*/state-*"))


def test_interrupted_loops_go_on_and_others_begin_anew(tmp_path: Path, steps: Steps) -> None:
    want, other = whole_run(snapshots=6), whole_run(2.0, snapshots=6)
    interrupted(tmp_path)
    steps.forward = 0
    assert whole_run(2.0, snapshots=6, disk=tmp_path, resume=True) == other
    assert whole_run(snapshots=5, disk=tmp_path, resume=True) == want
    assert steps.forward == 200
    assert whole_run(snapshots=6, disk=tmp_path, resume=True) == want
    assert steps.forward == 220
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("tensors", ["init", "xs", "reached"])
def test_other_values_begin_anew(tensors: str, tmp_path: Path, steps: Steps) -> None:
    def run(changed: str = "") -> list[float]:
        init, xs, a = (
            ad.full(shape, 1.5 if name == changed else 1.0)
            for name, shape in (("init", ()), ("xs", (40,)), ("reached", ()))
        )
        a.requires_grad_()
        end, _ = ad.scan(
            lambda c, x: (ad.sin(c * a) + x, None),
            init,
            xs,
            snapshots=6,
            disk=tmp_path,
            resume=True,
        )
        end.backward()
        assert a.grad is not None
        return [end.item(), a.grad.item()]

    want = run(tensors)
    interrupted(tmp_path, run)
    steps.forward = 0
    assert run(tensors) == want
    assert steps.forward == 40


def test_damaged_files_are_not_believed(tmp_path: Path, steps: Steps) -> None:
    want = whole_run(snapshots=6)
    files = interrupted(tmp_path)
    assert len(files) == 3
    files[2].write_bytes(files[2].read_bytes()[:-100])
    content = ad.load(files[1])
    content["carry"][0][0] += 1
    ad.save(content, files[1])
    (files[0].parent / ".adjoint-half.tmp").write_bytes(b"half")
    steps.forward = 0
    assert whole_run(snapshots=6, disk=tmp_path, resume=True) == want
    assert steps.forward == 56  # from the first of the three states on
    assert not os.listdir(tmp_path)


def test_what_is_written_is_not_what_is_changed_after_the_loop(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of the loop is the user's, while the file is still being written."""
    a = ad.tensor(1.01, requires_grad=True)

    def run() -> tuple[ad.Tensor, ad.Tensor]:
        end, ys = ad.scan(
            lambda c, _: (c * a, c * 2), ad.ones(3), length=40, disk=tmp_path, resume=True
        )
        return end, ys

    write, may_write = _resumed._write, threading.Event()
    monkeypatch.setattr(_resumed, "_write", lambda *args: (may_write.wait(), write(*args)))
    end, ys = run()
    want = end.tolist(), ys.tolist()
    with ad.no_grad():
        end.zero_()
        ys.zero_()
    may_write.set()
    for states in [one for one in gc.get_objects() if isinstance(one, _resumed.ResumedStates)]:
        states.leave()  # as if the process had ended
    steps.forward = 0
    end, ys = run()
    assert (end.tolist(), ys.tolist()) == want
    assert steps.forward == 0


def test_a_loop_without_gradients_is_resumed_too(tmp_path: Path, steps: Steps) -> None:
    def run() -> list[float]:
        end, ys = ad.scan(
            lambda c, x: (ad.sin(c) + x, c.sum()), ad.ones(3), ad.rand(40), **on_disk(tmp_path)
        )
        return [*end.tolist(), *ys.tolist()]

    ad.manual_seed(0)
    want = run()
    assert not os.listdir(tmp_path)
    ad.manual_seed(0)
    interrupted(tmp_path, run)
    ad.manual_seed(0)
    steps.forward = 0
    assert run() == want
    assert 0 < steps.forward < 40
    assert not os.listdir(tmp_path)


def test_a_step_that_calls_python_begins_anew_and_says_so(tmp_path: Path) -> None:
    a = ad.tensor(1.01, requires_grad=True)

    def in_a_loop(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return ad.scan(lambda c, _: (c * a, None), c, length=5)[0], None

    numbers = ad.Generator()

    def with_numbers(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * a + ad.rand(3, generator=numbers), None

    for step, why in ((in_a_loop, "calls Python"), (with_numbers, "a generator")):
        with pytest.warns(CompileWarning, match=f"resume=True begins anew.*{why}"):
            end, _ = ad.scan(step, ad.ones(3), length=40, **on_disk(tmp_path))
        end.sum().backward()
        assert not os.listdir(tmp_path)


def test_another_backward_pass_begins_anew(tmp_path: Path, steps: Steps) -> None:
    """The gradient of the step is the user's, and may have changed since."""

    def run(slope: float) -> float:
        class Same(ad.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
                return x * 1

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return grads[0] * slope

        a = ad.tensor(1.01, requires_grad=True)
        end, _ = ad.scan(
            lambda c, _: (Same.apply(c) * a, None), 1.0, length=40, **on_disk(tmp_path)
        )
        end.backward()
        assert a.grad is not None
        return float(a.grad.item())

    def stopped() -> None:
        note, notes = _resumed.GradientFiles.note, 0

        def stop(self: Any, place: int) -> None:
            nonlocal notes
            note(self, place)
            notes += place in self._stops
            if notes == 2:
                raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(_resumed.GradientFiles, "note", stop)
            run(0.5)

    want, other = run(0.5), run(0.25)
    for slope, expected, anew in ((0.5, want, False), (0.25, other, True)):
        stopped()
        steps.forward = steps.backward = 0
        assert run(slope) == expected
        assert steps.forward == 0 and (steps.backward == 40) == anew
    assert want != other and not os.listdir(tmp_path)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    a = ad.tensor(1.01, requires_grad=True)

    def run() -> ad.Tensor:
        end: ad.Tensor = ad.scan(lambda c, _: (c * a, None), 1.0, length=40, **on_disk(tmp_path))[0]
        return end

    first = run()
    with pytest.warns(CompileWarning, match="runs in this folder at the moment"):
        second = run()
    ad.scan(lambda c, _: (c * a, None), 1.0, length=40, snapshots=6, disk=tmp_path)[0].backward()
    assert ad.autograd.grad(first, a) == ad.autograd.grad(second, a)
    assert not os.listdir(tmp_path)


def test_a_loop_without_it_removes_what_is_left(tmp_path: Path) -> None:
    interrupted(tmp_path)
    assert len(os.listdir(tmp_path)) == 1
    whole_run(snapshots=6, disk=tmp_path)
    assert not os.listdir(tmp_path)


def test_it_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="give disk="):
        ad.scan(lambda c, _: (c, None), 1.0, length=4, resume=True)


def on_disk(folder: Path) -> dict[str, Any]:
    return {"snapshots": 6, "disk": folder, "resume": True}
