"""The process in which one library runs one workload, told what to do by harness.py.

python -m benchmarks.worker LIBRARY WORKLOAD THREADS ROLE, where the role is subject or peer;
requests and answers are lines of JSON:
{"save": path} runs once and writes the results; {"seconds": s} runs for about s seconds and
answers with the seconds per call; {"first": true} runs a first time and a few times more, and
answers with the seconds of the first and the most memory that the process ever took beyond that
after the import.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import find


def as_array(result: Any) -> Any:
    if not hasattr(result, "detach"):
        return np.asarray(result)
    tensor = result.detach()
    narrow = str(tensor.dtype).endswith("float16")  # NumPy has no bfloat16
    return (tensor.float() if narrow else tensor).numpy()


def save(result: Any, path: str) -> None:
    tensors = result if isinstance(result, tuple | list) else [result]
    arrays = {str(i): as_array(t) for i, t in enumerate(tensors)}
    np.savez(path, **arrays)


def run(work: Callable[[], Any], seconds: float, calls: int) -> dict[str, float]:
    """Seconds per call over as many repetitions as fit, at least one."""
    start = time.perf_counter()
    work()
    once = max(time.perf_counter() - start, 1e-9)
    repetitions = range(max(1, int(seconds / once)))
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in repetitions:
        work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    scale = len(repetitions) * calls
    return {"wall": wall / scale, "cpu": cpu / scale}


def first_call(work: Callable[[], Any], before: int) -> dict[str, float]:
    """Seconds of the first call on the wall, and bytes at most, a few more calls included."""
    start = time.perf_counter()
    work()
    wall = time.perf_counter() - start
    for _ in range(3):  # backward passes may be compiled late
        work()
    return {"wall": wall, "peak": max(0, peak() - before)}


def forget_peak() -> int:
    """Bytes that the process has now, from where `peak` counts anew where the system can."""
    own = Path("/proc/self")
    try:
        (own / "clear_refs").write_text("5")
    except OSError:
        return peak()
    return int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Bytes that the process had at most."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def limit_threads(lib: Any, threads: int) -> None:
    if hasattr(lib, "set_num_threads"):
        lib.set_num_threads(threads)
    elif hasattr(os, "sched_setaffinity"):  # JAX takes as many threads as there are cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> None:
    name, workload_name, threads, role = sys.argv[1:5]
    lib = importlib.import_module(name)
    limit_threads(lib, int(threads))
    before = forget_peak()
    workload = find(workload_name)
    own = workload.peer_setup if role == "peer" else None
    work = (own or workload.setup)(lib)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        if "save" in request:
            save(work(), request["save"])
            answer: dict[str, float] = {}
        elif "first" in request:
            answer = first_call(work, before)
        else:
            answer = run(work, request["seconds"], workload.calls)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
