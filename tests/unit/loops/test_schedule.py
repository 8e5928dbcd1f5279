"""Checkpoints: the fewest steps again that there can be, in memory and on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.loops import _run
from adjoint.loops._schedule import fewest_steps, first_sweep, split


@cache
def by_trying(steps: int, snapshots: int) -> int:
    """The least number of steps forward, by trying all places for the next state."""
    if steps <= 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    return min(
        m + by_trying(steps - m, snapshots - 1) + by_trying(m, snapshots) for m in range(1, steps)
    )


@cache
def by_split(steps: int, snapshots: int) -> int:
    if steps <= 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    m = split(steps, snapshots)
    return m + by_split(steps - m, snapshots - 1) + by_split(m, snapshots)


def test_no_other_schedule_runs_fewer_steps() -> None:
    for steps in range(1, 60):
        for snapshots in range(1, 9):
            least = by_trying(steps, snapshots)
            assert by_split(steps, snapshots) == least == fewest_steps(steps, snapshots)


def test_the_first_sweep_keeps_no_more_than_there_is_room_for() -> None:
    for steps in (1, 2, 10, 100):
        for snapshots in (1, 2, 3, 50, 200):
            places = first_sweep(steps, snapshots)
            assert places == sorted(set(places)) and places[0] == 0 and places[-1] < max(steps, 1)
            assert len(places) <= snapshots


@pytest.mark.parametrize("snapshots", [1, 2, 3, 7, 20])
def test_a_loop_runs_the_least_number_of_steps_again(
    snapshots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[_run.LoopRun] = []
    on = _run.LoopRun.on

    def note(self: _run.LoopRun, reached: list[ad.Tensor]) -> _run.LoopRun:
        runs.append(on(self, reached))
        return runs[-1]

    monkeypatch.setattr(_run.LoopRun, "on", note)
    a = ad.tensor(1.01, requires_grad=True)
    last, _ = ad.scan(lambda c, _: (c * a, None), 1.0, length=57, snapshots=snapshots)
    last.backward()
    # The first way to the last step was the call itself.
    assert runs[0].steps_again == fewest_steps(57, snapshots) - 56


def test_files_are_there_during_the_loop_and_gone_after_it(tmp_path: Path) -> None:
    a = ad.tensor(1.01, requires_grad=True)

    def run() -> ad.Tensor:
        return ad.scan(
            lambda c, _: (c * a, None), ad.ones(5), length=40, snapshots=6, disk=tmp_path
        )[0]

    want = ad.autograd.grad(run().sum(), a)[0]
    assert not os.listdir(tmp_path)
    last = run()
    assert len(os.listdir(tmp_path)) == 1
    del last
    assert not os.listdir(tmp_path)
    last = run()
    first = ad.autograd.grad(last.sum(), a, retain_graph=True)[0]
    assert first == want == ad.autograd.grad(last.sum(), a)[0]
    assert not os.listdir(tmp_path)


def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        import adjoint as ad
        a = ad.tensor(1.01, requires_grad=True)
        step = lambda c, _: (c * a, None)
        last, _ = ad.scan(step, ad.ones(5), length=40, snapshots=6, disk=sys.argv[1])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=False)
    assert len(os.listdir(tmp_path)) == 1
    a = ad.tensor(1.01, requires_grad=True)
    last, _ = ad.scan(lambda c, _: (c * a, None), ad.ones(5), length=40, snapshots=6, disk=tmp_path)
    assert len(os.listdir(tmp_path)) == 1
    last.sum().backward()
    assert not os.listdir(tmp_path)


def test_a_disk_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    a = ad.tensor(1.01, requires_grad=True)
    monkeypatch.setattr("adjoint.loops._states._write", full)
    last, _ = ad.scan(lambda c, _: (c * a, None), ad.ones(5), length=40, snapshots=6, disk=tmp_path)
    with pytest.raises(OSError, match="No space left"):
        last.sum().backward()
    del last
    assert not os.listdir(tmp_path)


def test_the_memory_of_states_is_bounded() -> None:
    """A long loop on 80 KB with room for 2 MB."""
    program = """
        import resource
        import adjoint as ad
        a = ad.tensor(0.1, requires_grad=True)
        def step(u, _):
            return u + a * (u.roll(1) - 2 * u + u.roll(-1)), None
        def used():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        u = ad.rand(20_000)
        ad.scan(step, u, length=3)[0].sum().backward()
        before = used()
        last, _ = ad.scan(step, u, length=1000, memory="2MB")
        last.square().sum().backward()
        print(used() - before)
    """
    child = [sys.executable, "-c", textwrap.dedent(program)]
    out = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    assert int(out) < 10  # keeping everything takes 80 MB and more
