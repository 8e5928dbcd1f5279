"""Sequences of calls keep to their memory; and the fuzzer that says so sees it when they do not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from tests.children import ROOT, WITH_CHECKOUT
from tools.fuzzing import world as module
from tools.fuzzing.world import Step, Violation, World


def python(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the fuzzer as a command, or a program that uses it. This process should not fork."""
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "tools.fuzz", *words]
    return subprocess.run(
        command, cwd=ROOT, env=WITH_CHECKOUT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("seed", ["1", "2"])
def test_random_sequences_of_calls_keep_to_their_memory(seed: str) -> None:
    out = python("--steps", "4000", "--seed", seed)
    assert out.returncode == 0, out.stdout[-3000:] + out.stderr[-1000:]
    assert "0 kinds of failures" in out.stdout


def test_random_functions_do_compiled_what_they_do_eagerly() -> None:
    out = python("--compile", "--steps", "1500", "--seed", "1")
    assert out.returncode == 0, out.stdout[-3000:] + out.stderr[-1000:]


# --- it can fail ----------------------------------------------------------------------------------
@pytest.fixture
def world() -> Iterator[World]:
    """A tensor on a guarded array, one of the library's own, and stand-ins for broken ops."""
    made = World()
    made.names |= {"poke": poke, "strange": strange}
    for line in ("b0 = guarded('float32', 4)", "v0 = ad.from_numpy(b0)", "v1 = ad.arange(6.0)"):
        made.run(Step(line))
    yield made
    World()  # lets go of the arrays


def poke(tensor: Any, offset: int) -> None:
    """Change a byte at an offset from a tensor."""
    ctypes.c_ubyte.from_address(tensor.data_ptr() + offset).value ^= 0xFF


def strange() -> None:
    """Fail as no op may."""
    raise KeyError("inside")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Step("poke(v0, -1)", ("v0",)), "write outside"),
        (Step("poke(v0, 16)", ("v0",)), "write outside"),
        (Step("poke(v0, 500)", ("v0",)), "write outside"),
        (Step("poke(v1, 0)", ("v0",)), "write beside"),
        (Step("poke(v1, 0)"), "write beside"),
        (Step("poke(v0, 0)"), "write beside"),
        (Step("v1.add_(1); [][1]", ("v1",)), "write before error"),
        (Step("v1.add_(1)", ("v1",), "v1 + 2"), "wrong value"),
        (Step("v2 = v1[1:]", (), "v1"), "wrong shape"),
        (Step("strange()"), "strange error"),
        (Step("v2.sin(x)"), "strange error"),
    ],
)
def test_a_fault_is_seen_after_its_step(world: World, step: Step, kind: str) -> None:
    world.names.setdefault("v2", world.names["v1"].clone())
    with pytest.raises(Violation) as caught:
        world.run(step)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("start", "kind"), [(5, "view outside"), (6, "empty view outside"), (4, "")]
)
def test_a_view_outside_its_storage_is_seen(
    monkeypatch: pytest.MonkeyPatch, start: int, kind: str
) -> None:
    """The storage is said to end early: the library makes no such view."""
    place = _core._storage
    names = {"v0": ad.arange(6.0)[start : start + 1]}
    World(names)
    monkeypatch.setattr(module._core, "_storage", lambda x: (place(x)[0], place(x)[1] - 4))
    if not kind:
        World(names)
        return
    with pytest.raises(Violation) as caught:
        World(names)
    assert caught.value.kind == kind


def test_what_a_step_may_do_is_no_fault(world: World) -> None:
    for step in (
        Step("v0.add_(1)", ("v0",), "v0 + 1"),
        Step("v2 = v0[1:]", (), "v0[1:]"),
        Step("v2.fill_(7)", ("v2",), "np.full_like(v2, 7)"),
        Step("v1.requires_grad_()"),
        Step("(v1 * v1).sum().backward()", ("grad",)),
    ):
        assert world.run(step) is None
    assert isinstance(world.run(Step("v2 = v0[9]")), IndexError)
    assert isinstance(world.run(Step("v2 = v7[0]")), NameError)  # of a step that was dropped


FAULT = """
import os, sys
from tools import fuzz
from tools.fuzzing import steps, world

def fault(tensor):
    {fault}

world.NAMES["fault"] = fault
drawn = steps.Steps.draw
def draw(self):
    small = [name for name, seen in self.world.seen.items() if seen.numel]
    if len(self.world.seen) > 3 and small:
        return world.Step(f"fault({{small[0]}})", (small[0],))
    return drawn(self)
steps.Steps.draw = draw
steps.KINDS = {{"array": 1, "get": 1}}
sys.exit(fuzz.main(["--steps", "2000", "--seed", "1", "--failures", "1", "--stall", "2"]))
"""


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("os.kill(os.getpid(), 11)", "# SIGSEGV:"),
        ("os._exit(3)", "# exit code 3:"),
        ("import ctypes; ctypes.memset(tensor.data_ptr() - 1000, 1, 990)", "# write outside:"),
        pytest.param("while True: pass", "# slow:", marks=pytest.mark.slow),
    ],
)
def test_a_failure_is_told_with_a_program_of_few_steps(fault: str, kind: str) -> None:
    out = python(code=FAULT.format(fault=fault))
    assert out.returncode == 1, out.stderr
    assert kind in out.stdout
    program = out.stdout.partition(kind)[2]
    assert "fault(" in program and "seed 1/" in program
    body = program.partition("loaded\n")[2]
    assert body.count("\n") < 9, program  # an array, a tensor on it, the fault


def test_a_program_shows_its_failure(tmp_path: Path) -> None:
    from tools import fuzz
    from tools.fuzzing.child import Failure

    steps = [Step("b0 = guarded('float32', 4)"), Step("v0 = ad.from_numpy(b0)")]
    steps.append(Step("v0.add_(1)", ("v0",), "v0 + 2"))
    text = fuzz.program(Failure("wrong value", "", steps), [False, False])
    out = python(code=text)
    assert "tools.fuzzing.world.Violation: v0 is" in out.stderr
    assert python(code=text.replace("v0 + 2", "v0 + 1")).returncode == 0
