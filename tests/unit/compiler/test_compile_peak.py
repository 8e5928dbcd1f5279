"""The peak of memory of a recorded call, and of replays, beside that of the plain call."""

from __future__ import annotations

import subprocess
import sys

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
