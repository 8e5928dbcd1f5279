"""Sums over events of one name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.profiler._times import FormattedTimes


class FunctionEventAvg(FormattedTimes):
    """What events of one key took together."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = -1
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = None
        self.overload_name = ""
        self.stack: list[str] = []
        self.scope: int | None = None
        self.cpu_children: list[Any] = []
        self.cpu_parent: Any = None
        self.device_type = "cpu"
        self.flops = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Count an event, or another sum, in."""
        if self.key is None:
            self.key = other.key
            self.input_shapes = other.input_shapes
            self.stack = other.stack
            self.scope = other.scope
            self.cpu_parent = other.cpu_parent
            self.is_user_annotation = other.is_user_annotation
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


def gather(events: Iterable[Any], by_shapes: bool, lines: int) -> list[FunctionEventAvg]:
    """A sum per name, or per name and shapes, or per name and so many lines of the stack."""
    sums: dict[tuple[Any, ...], FunctionEventAvg] = {}
    for event in events:
        key = (
            event.key,
            str(event.input_shapes) if by_shapes else "",
            tuple(event.stack[:lines]),
        )
        total = sums.get(key)
        if total is None:
            total = sums[key] = FunctionEventAvg()
        total.add(event)
    for total in sums.values():
        if not by_shapes:
            total.input_shapes = ""
        total.stack = total.stack[:lines]
    return list(sums.values())
