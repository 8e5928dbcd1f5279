"""How far training, halos and maps scale: a cost model, measured here and simulated beyond.

`python -m benchmarks.scaling [--write]` measures latency and bandwidth of MPI between two processes
of this machine and the times of a training step, simulates steps on up to 4,096 ranks, and writes
the tables of docs/scaling.md (between its marks) and its picture.

The model: a message of n bytes takes α + n β. An all_reduce of n bytes over p ranks takes
2 ⌈log2 p⌉ α + 2 (p - 1) / p n β (recursive halving and doubling). Gradients come out of backward
layer by layer, the last layer first; a bucket is reduced when it is full, one after the other,
while backward goes on. Each rank's computation is slower or faster by a few per cent at random.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import adjoint as ad
from adjoint import _mpiexec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scaling.md"
RANKS = (2, 16, 256, 4096)
JITTER = 0.03  # standard deviation of a rank's time, relative
BUCKET = 25e6  # bytes: DistributedDataParallel's bucket_cap_mb=25

PING = """
import json, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
found = {}
for size in (8, 1024, 65536, 1048576, 16777216):
    data = np.zeros(size, np.uint8)
    turns = max(5, min(2000, int(2e8 / (size + 1e5))))
    best = 1e9
    for _ in range(5):
        comm.Barrier()
        start = time.perf_counter()
        for _ in range(turns):
            if comm.rank == 0:
                comm.Send(data, 1); comm.Recv(data, 1)
            else:
                comm.Recv(data, 0); comm.Send(data, 0)
        best = min(best, (time.perf_counter() - start) / turns / 2)
    found[size] = best
if comm.rank == 0:
    print(json.dumps(found))
"""


@dataclass(frozen=True)
class Network:
    """Seconds for a message, and for each byte of it."""

    name: str
    alpha: float
    beta: float

    def all_reduce(self, count: float, ranks: int) -> float:
        """The time of one all_reduce."""
        if ranks == 1:
            return 0.0
        return 2 * math.ceil(math.log2(ranks)) * self.alpha + (
            2 * (ranks - 1) / ranks * count * self.beta
        )


@dataclass(frozen=True)
class Work:
    """A training step: forward, backward by layers (the last first), the optimiser; in seconds."""

    name: str
    forward: float
    backward: tuple[float, ...]
    gradients: tuple[float, ...]  # bytes, in the same order
    update: float


def measured_network() -> Network:
    """A fit to ping-pong between two processes."""
    starter = _mpiexec.find()
    if starter is None:
        raise RuntimeError(_mpiexec.MISSING)
    done = subprocess.run(
        [starter, "-n", "2", sys.executable, "-c", PING],
        env=os.environ | _mpiexec.OPEN_MPI,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {int(size): seconds for size, seconds in json.loads(done.stdout).items()}
    small = [found[8], found[1024]]
    large = found[16777216]
    return Network("this machine, shared memory", min(small), large / 16777216)


def measured_work(layers: int = 6, width: int = 512, batch: int = 64) -> Work:
    """A stack of linear layers, timed layer by layer."""
    ad.set_num_threads(1)
    net = [ad.nn.Linear(width, width) for _ in range(layers)]
    optimizer = ad.optim.AdamW([p for layer in net for p in layer.parameters()])
    x = ad.randn(batch, width)
    best = [math.inf] * 3
    for _ in range(8):
        start = time.process_time()
        h = x
        for layer in net:
            h = layer(h).relu()
        middle = time.process_time()
        h.square().mean().backward()
        end = time.process_time()
        optimizer.step()
        parts = (middle - start, end - middle, time.process_time() - end)
        best = [min(pair) for pair in zip(best, parts, strict=True)]
    size = 4.0 * (width * width + width)
    forward, backward, update = best
    name = f"{layers} layers of {width}, batch {batch}"
    return Work(name, forward, (backward / layers,) * layers, (size,) * layers, update)


def larger(work: Work, factor: float) -> Work:
    """The same with so many times the parameters and the computation."""
    return Work(
        f"{work.name}, {factor:g} times",
        work.forward * factor,
        tuple(t * factor for t in work.backward),
        tuple(n * factor for n in work.gradients),
        work.update * factor,
    )


def step(work: Work, network: Network, ranks: int, rng: np.random.Generator) -> float:
    """One simulated step: all ranks wait for the slowest in each reduction."""
    slow = float(np.exp(JITTER * rng.standard_normal(ranks)).max()) if ranks > 1 else 1.0
    now = work.forward * slow
    free, full = 0.0, 0.0  # when the network is free; bytes of the bucket
    for seconds, count in zip(work.backward, work.gradients, strict=True):
        now += seconds * slow
        full += count
        if full >= BUCKET:
            free = max(free, now) + network.all_reduce(full, ranks)
            full = 0.0
    if full:
        free = max(free, now) + network.all_reduce(full, ranks)
    return max(now, free) + work.update * slow


def efficiency(work: Work, network: Network, ranks: int, steps: int = 20) -> float:
    """Work done for each rank and second, beside one rank alone."""
    rng = np.random.default_rng(0)
    alone = step(work, network, 1, rng)
    return alone / float(np.mean([step(work, network, ranks, rng) for _ in range(steps)]))


def halo_efficiency(network: Network, cells: int, seconds_per_cell: float) -> float:
    """A cube of cells for each rank, six faces exchanged in each step; any number of ranks."""
    compute = cells**3 * seconds_per_cell
    faces = 6 * (network.alpha + 8 * cells**2 * network.beta)
    return compute / (compute + faces)


def map_limit(network: Network, shared: float, seconds: float) -> float:
    """How many workers one parent keeps busy: it sends and receives what all share, one by one."""
    return seconds / (2 * (network.alpha + shared * network.beta))


def tables(networks: list[Network], works: list[Work]) -> str:
    lines = ["| network | α | 1/β |", "|---|---|---|"]
    lines += [f"| {n.name} | {1e6 * n.alpha:.1f} us | {1e-9 / n.beta:.1f} GB/s |" for n in networks]
    lines += ["", "Data parallel steps, work per rank and second beside one rank alone:", ""]
    lines.append("| step | network | " + " | ".join(f"{p:,} ranks" for p in RANKS) + " |")
    lines.append("|---|---|" + "---|" * len(RANKS))
    for work in works:
        for network in networks:
            cells = " | ".join(f"{efficiency(work, network, p):.0%}" for p in RANKS)
            lines.append(f"| {work.name} | {network.name} | {cells} |")
    lines += [
        "",
        "Halos of width 1 in three dimensions, 10 ns for a cell and step, any number of ranks:",
        "",
    ]
    lines += ["| cells of a rank | " + " | ".join(n.name for n in networks) + " |"]
    lines.append("|---|" + "---|" * len(networks))
    for cells in (16, 32, 64, 128):
        values = " | ".join(f"{halo_efficiency(n, cells, 1e-8):.0%}" for n in networks)
        lines.append(f"| {cells}³ | {values} |")
    lines += [
        "",
        "Workers that one parent of `parallel.map` keeps busy, for members of one second:",
        "",
    ]
    lines += ["| shared parameters | " + " | ".join(n.name for n in networks) + " |"]
    lines.append("|---|" + "---|" * len(networks))
    for count in (1e4, 1e6, 1e8):
        values = " | ".join(f"{map_limit(n, 8 * count, 1.0):,.0f}" for n in networks)
        lines.append(f"| {count:.0e} float64 | {values} |")
    return "\n".join(lines)


def picture(networks: list[Network], works: list[Work], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), dpi=110, layout="constrained")
    axes = figure.subplots()
    ranks = [2**k for k in range(1, 13)]
    for work, style in zip(works, ("-", "--", ":"), strict=False):
        for network, colour in zip(networks, ("#2062b4", "#cd4830", "#2e8c57"), strict=False):
            values = [100 * efficiency(work, network, p) for p in ranks]
            axes.plot(ranks, values, style, color=colour, label=f"{work.name}; {network.name}")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 105)
    axes.set_xlabel("ranks")
    axes.set_ylabel("efficiency, %")
    axes.grid(color="0.9")
    axes.legend(fontsize="small", loc="lower left")
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/scaling.md's tables")
    args = parser.parse_args()
    networks = [
        measured_network(),
        Network("assumed: 100 Gb/s, 2 us", 2e-6, 1 / 12.5e9),
        Network("assumed: 10 Gb/s, 20 us", 20e-6, 1 / 1.25e9),
    ]
    small = measured_work()
    works = [small, larger(small, 50)]
    text = tables(networks, works)
    print(text)
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- figures -->\n")
        _, _, after = rest.partition("<!-- end of figures -->")
        PAGE.write_text(
            f"{before}<!-- figures -->\n{text}\n\n<!-- end of figures -->{after}", encoding="utf-8"
        )
        picture(networks, works, ROOT / "docs" / "images" / "scaling.png")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
