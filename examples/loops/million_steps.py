"""
A million steps
===============

The gradient of a long loop in little memory: a heat equation, step after step.

Each run is a process of its own, so that its peak of memory is its own. The last one keeps its
states on disk, is killed on its way, and started again: it goes on from where it was, and the
gradient has the same bits.

.. code-block:: console

    python examples/loops/million_steps.py --steps 1000000     # about two minutes
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import adjoint as ad

# sphinx_gallery_thumbnail_path = "guides/images/loops_recomputation.png"
CELLS = 1000
STATES = 40  # on disk, when a run is killed


def gradient(steps: int, kept: dict[str, Any]) -> dict[str, float]:
    """The gradient of the energy that is left by the conductivity, and what it took."""
    ad.manual_seed(0)
    ad.set_num_threads(1)
    rate = ad.tensor(0.2, requires_grad=True)
    start = ad.randn(CELLS)

    def step(u: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return u + rate * (u.roll(1) - 2 * u + u.roll(-1)), None

    before = time.perf_counter()
    last, _ = ad.scan(step, start, length=steps, **kept)
    between = time.perf_counter()
    last.square().sum().backward()
    after = time.perf_counter()
    assert rate.grad is not None
    return {
        "forward": between - before,
        "backward": after - between,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "gradient": rate.grad.item(),
    }


def in_a_process(steps: int, kept: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--steps", str(steps), "--run", json.dumps(kept)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def show(name: str, steps: int, kept: dict[str, Any]) -> float:
    text, _ = in_a_process(steps, kept).communicate()
    found = json.loads(text)
    print(
        f"{name:38} forward {found['forward']:6.2f} s, backward {found['backward']:6.2f} s, "
        f"peak {found['peak']:4.0f} MB",
        flush=True,
    )
    return float(found["gradient"])


def files_in(folder: str) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def kill(steps: int, kept: dict[str, Any]) -> None:
    """Start a run, and kill it as soon as it has written some states."""
    run = in_a_process(steps, kept)
    while files_in(kept["disk"]) < STATES and run.poll() is None:
        time.sleep(0.002)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    left = files_in(kept["disk"])
    print(f"killed, with {left} files left on disk" if left else "it was done before", flush=True)


def main() -> None:
    """Show the runs."""
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--run", type=json.loads)
    given = options.parse_args()
    if given.run is not None:
        print(json.dumps(gradient(given.steps, given.run)))
        return
    budget = "100MB" if given.steps >= 100_000 else "1MB"
    with tempfile.TemporaryDirectory() as folder:
        on_disk = {"memory": budget, "disk": folder}
        lasting = {**on_disk, "resume": True}
        found = [
            show(f"memory={budget!r}", given.steps, {"memory": budget}),
            show(f"memory={budget!r}, disk=folder", given.steps, on_disk),
            show("snapshots=200", given.steps, {"snapshots": 200}),
            show("disk=folder, resume=True", given.steps, lasting),
        ]
        kill(given.steps, lasting)
        found.append(show("the same, resumed", given.steps, lasting))
        print(f"files left behind: {files_in(folder)}")
    print(f"the same gradient: {len(set(found)) == 1}")


if __name__ == "__main__":
    main()
