"""Events as files: Chrome's format of traces, and stacks for flame graphs."""

from __future__ import annotations

import gzip
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import IO, Any


def opened(path: str) -> IO[str]:
    """A file to write to, compressed if its name says so."""
    if str(path).endswith(".gz"):
        return gzip.open(path, "wt")
    return open(path, "w")


def chrome(events: Iterable[Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """The trace, with an arrow from each call to the backward of the node that it recorded."""
    process = os.getpid()
    events = list(events)
    base = time.time() * 1e6 - max((e.time_range.end for e in events), default=0.0)
    entries: list[dict[str, Any]] = [
        _metadata("process_name", process, 0, {"name": "python"}),
        _metadata("process_labels", process, 0, {"labels": "CPU"}),
    ]
    for thread in sorted({event.thread for event in events}):
        label = {"name": f"thread {thread} (python)"}
        entries.append(_metadata("thread_name", process, thread, label))
    entries += [
        {
            "ph": "X",
            "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
            "name": event.name,
            "pid": process,
            "tid": event.thread,
            "ts": base + event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": _details(event),
        }
        for event in events
    ]
    entries += _arrows(events, process, base)
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "displayTimeUnit": "ms",
        "traceEvents": entries,
        **metadata,
    }


def _metadata(name: str, process: int, thread: int, args: dict[str, str]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": process, "tid": thread, "ts": 0, "args": args}


def _details(event: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"External id": event.id}
    if event.sequence_nr >= 0:
        details["Sequence number"] = event.sequence_nr
    if event.input_shapes:
        details["Input Dims"] = event.input_shapes
    if event.stack:
        details["Call stack"] = ";".join(event.stack)
    if event.cpu_memory_usage:
        details["Bytes"] = event.cpu_memory_usage
    return details


def _arrows(events: list[Any], process: int, base: float) -> Iterator[dict[str, Any]]:
    calls = {e.sequence_nr: e for e in events if e.scope == 0 and e.sequence_nr >= 0}
    for event in events:
        call = calls.get(event.sequence_nr)
        outermost = event.scope == 1 and (event.cpu_parent is None or event.cpu_parent.scope != 1)
        if call is None or not outermost:
            continue
        common = {"id": event.sequence_nr, "pid": process, "cat": "fwdbwd", "name": "fwdbwd"}
        yield {"ph": "s", "tid": call.thread, "ts": base + call.time_range.start, **common}
        yield {
            "ph": "f",
            "bp": "e",
            "tid": event.thread,
            "ts": base + event.time_range.start,
            **common,
        }


def stacks(events: Iterable[Any], metric: str) -> Iterator[str]:
    """Lines ``outermost;...;innermost;op microseconds``."""
    sums: defaultdict[str, int] = defaultdict(int)
    for event in events:
        value = int(getattr(event, metric.replace("cuda", "device").replace("xpu", "device")))
        if value > 0 and event.stack:
            frames = [*reversed(event.stack), event.name]
            sums[";".join(f.replace(" ", "_").replace(";", "_") for f in frames)] += value
    return (f"{stack} {value}\n" for stack, value in sums.items())
