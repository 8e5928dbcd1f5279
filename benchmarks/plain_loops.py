"""First calls of a plain `for` in a compiled function: time and memory by the number of steps.

`python -m benchmarks.plain_loops` prints two tables: Lorenz' equations by RK4 with the gradient by
the start and three parameters; and eight pendulums that are pushed at random, whose velocities
change in place and whose path is written row by row. Each cell is a process of its own, on one
thread. PyTorch is eager there, and left out where it is not installed or would take minutes.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import time
from typing import Any

LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
WAYS = {"adjoint eager": 100_000, "adjoint compiled": 1_000_000, "PyTorch eager": 10_000}


def lorenz(lib: Any, steps: int) -> Any:
    """The path of x, and where y ends."""

    def rates(x: Any, y: Any, z: Any, s: Any, r: Any, b: Any) -> Any:
        return s * (y - x), x * (r - z) - y, x * y - b * z

    def path(x: Any, y: Any, z: Any, *p: Any) -> Any:
        h, total = 0.01, 0.0
        for _ in range(steps):
            k = rates(x, y, z, *p)
            m = rates(x + h / 2 * k[0], y + h / 2 * k[1], z + h / 2 * k[2], *p)
            n = rates(x + h / 2 * m[0], y + h / 2 * m[1], z + h / 2 * m[2], *p)
            q = rates(x + h * n[0], y + h * n[1], z + h * n[2], *p)
            x = x + h / 6 * (k[0] + 2 * m[0] + 2 * n[0] + q[0])
            y = y + h / 6 * (k[1] + 2 * m[1] + 2 * n[1] + q[1])
            z = z + h / 6 * (k[2] + 2 * m[2] + 2 * n[2] + q[2])
            total = total + x
        return total / steps + y

    return path


def pendulums(lib: Any, steps: int) -> Any:
    """The mean square of the angles."""

    def path(start: Any, speed: Any, k: Any) -> Any:
        x, v = start, speed * 1
        out = lib.empty(steps, 8, dtype=lib.float64)
        for i in range(steps):
            v -= 0.01 * k * lib.sin(x)
            v += 0.02 * lib.randn(8, dtype=lib.float64)
            x = x + 0.01 * v
            out[i] = x
        return out.square().mean()

    return path


WORKS: dict[str, tuple[Any, list[Any]]] = {
    "Lorenz by RK4, with gradient": (lorenz, [1.0, 1.0, 1.0, 10.0, 28.0, 8 / 3]),
    "pendulums, with gradient": (pendulums, [[0.1 * k for k in range(8)], [0.0] * 8, 2.0]),
}


def measured(work: str, way: str, steps: int) -> tuple[float, float, float]:
    """Seconds of the first call with its gradient and of later ones, and MB at the most."""
    if way.startswith("PyTorch"):
        import torch as lib

        lib.set_num_threads(1)
    else:
        import adjoint as lib  # type: ignore[no-redef]
    make, values = WORKS[work]
    given = [lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in values]
    function = make(lib, steps)
    function = lib.compile(function) if way.endswith("compiled") else function
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(5 if way.endswith("compiled") else 2):
        start = time.perf_counter()
        lib.autograd.grad(function(*given), given)
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return times[0], min(times[1:]), peak / 1024


def table(work: str) -> str:
    """One row for each way and length."""
    lines = [f"| {work} | steps | first call | later | MB |", "|---|---|---|---|---|"]
    for way, most in WAYS.items():
        if way.startswith("PyTorch") and importlib.util.find_spec("torch") is None:
            continue
        for steps in (one for one in LENGTHS if one <= most):
            command = [sys.executable, "-m", __spec__.name, work, way, str(steps)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, check=True, env=environment)
            first, later, peak = map(float, done.stdout.split())
            lines.append(f"| {way} | {steps:,} | {first:.3g} s | {later:.3g} s | {peak:,.0f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*measured(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        print("\n\n".join(map(table, WORKS)))
