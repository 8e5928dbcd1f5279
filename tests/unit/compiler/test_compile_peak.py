"""The peak of memory of a recorded call, and of replays, beside that of the plain call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

PROGRAM = """
import adjoint as ad

def f(x):
    for _ in range(12):
        x = (x.sin() * x.roll(1) - x.roll(-1) * 0.5).tanh()
    return (x * x).sum()

gradient, x = ad.func.grad(f), ad.ones(300_000)
peaks = []
def call(f):
    f(x)
    peaks.append(ad.memory_stats()["peak_bytes"])

compiled = ad.compile(gradient, fullgraph=True)
call(gradient)
call(compiled)
call(compiled)
call(compiled)
print(*peaks)
"""


def test_a_recorded_call_takes_about_as_much_memory_as_a_plain_one() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    plain, recorded, *replayed = map(int, ran.stdout.split())
    assert plain > 12 * 1_200_000
    assert recorded <= 1.25 * plain
    assert max(replayed) == recorded  # they take no more


def waves(u: ad.Tensor) -> ad.Tensor:
    for _ in range(12):
        u = (u.sin() * u.roll(1, 0) - u.roll(-1, 1) * 0.5).tanh()
    return (u * u).sum()


def heat(u: ad.Tensor) -> ad.Tensor:
    for _ in range(30):
        u = u + 0.2 * (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u) * u
    return (u * u).sum()


def reserved(call: Callable[[], Any]) -> int:
    """Bytes that a call takes from the system where nothing is cached."""
    call()
    ad.release_memory()
    before = ad.memory_stats()["reserved_bytes"]
    call()
    return ad.memory_stats()["reserved_bytes"] - before


@pytest.mark.parametrize("loop", [waves, heat])
def test_a_compiled_loop_over_a_grid_takes_no_more_memory_than_a_plain_one(loop: Any) -> None:
    u = ad.rand(200, 200, requires_grad=True)
    whole = ad.compile(ad.func.grad(loop), fullgraph=True)
    forward = ad.compile(loop, fullgraph=True)

    def backward(f: Any) -> Callable[[], Any]:
        return lambda: ad.autograd.grad(f(u), u)

    plain = reserved(lambda: ad.func.grad(loop)(u.detach()))
    assert 0 < reserved(lambda: whole(u.detach())) <= plain
    assert 0 < reserved(backward(forward)) <= reserved(backward(loop))


STEPS = """
import sys
import adjoint as ad

def f(u, p):
    for _ in range(3000):
        x, y, z = u[0], u[1], u[2]
        u = u + 1e-3 * ad.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])
    return u.sum()

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

f = ad.compile(f) if sys.argv[1] == "compiled" else f
before = peak()
f(ad.ones(3), ad.tensor([10.0, 28.0, 2.5], requires_grad=True)).backward()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_recording_of_many_small_steps_is_in_memory_once() -> None:
    plain, recorded = (
        int(
            subprocess.run(
                [sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("plain", "compiled")
    )
    # The graph, and instructions and registers of both directions. With all instructions twice it
    # is over 4.
    assert recorded < 3.6 * plain
