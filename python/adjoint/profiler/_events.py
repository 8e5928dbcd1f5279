"""What a profile saw: events, one inside the other."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

from adjoint.profiler import _averages, _table, _traces
from adjoint.profiler._times import FormattedTimes


class Kind(IntEnum):
    """As in ``src/dispatch/profile.h``."""

    OP = 0
    NODE = 1
    ENGINE = 2
    RANGE = 3
    INSTRUCTION = 4
    FUNCTION = 5


# PyTorch's numbers for where a call comes from: forward code, backward code, a range of the user's.
_SCOPES = {Kind.NODE: 1, Kind.ENGINE: 1, Kind.RANGE: 7}


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """How long."""
        return self.end - self.start


class FunctionEvent(FormattedTimes):
    """One call: an op, the backward of a node, or a range that the program named."""

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        cpu_memory_usage: int = 0,
        sequence_nr: int = -1,
        kind: Kind = Kind.OP,
    ) -> None:
        self.id = id
        self.node_id = -1
        self.name = self.trace_name = name
        self.overload_name = ""
        self.time_range = Interval(start_us, end_us)
        self.thread = thread
        self.fwd_thread = thread if kind in (Kind.NODE, Kind.ENGINE) else None
        self.kernels: list[Any] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes = input_shapes if input_shapes is not None else []
        self.concrete_inputs: list[Any] = []
        self.stack = stack if stack is not None else []
        self.scope = _SCOPES.get(kind, 0)
        self.kind = kind
        self.cpu_memory_usage = cpu_memory_usage
        self.live_bytes = 0  # in use when it began
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.sequence_nr = sequence_nr
        self.is_async = self.is_remote = self.is_legacy = False
        self.is_user_annotation = kind == Kind.RANGE
        self.use_device: str | None = None
        self.device_type = "cpu"
        self.device_index = 0
        self.flops = 0
        self.device_time_total = self.self_device_time_total = 0.0

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Put an event inside this one."""
        self.cpu_children.append(child)

    @property
    def key(self) -> str:
        """What events are gathered by: the name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from its start to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """The same without the events inside."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that it holds more at its end, without those of the events inside."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def cuda_time_total(self) -> float:
        """0: there is no GPU."""
        return 0.0

    def __repr__(self) -> str:
        inside = [child.id for child in self.cpu_children]
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} cpu_children={inside} "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


class EventList(list[Any]):
    """Events, or averages of events of one key."""

    def __init__(
        self,
        *events: Any,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        with_shapes: bool = False,
        with_lines: bool = False,
    ) -> None:
        super().__init__(*events)
        self._profile_memory = profile_memory
        self._with_shapes = with_shapes
        self._with_lines = with_lines

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return float(sum(event.self_cpu_time_total for event in self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table for people.

        Parameters
        ----------
        sort_by
            A column, largest first: ``cpu_time``, ``cpu_time_total``, ``self_cpu_time_total``,
            ``cpu_memory_usage``, ``self_cpu_memory_usage``, ``count``. Left out: as they began.
        row_limit
            Rows; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width
            Where these columns are cut off.
        header
            A line above it.
        top_level_events_only
            Whether events inside others are left out.
        time_unit
            ``"s"``, ``"ms"`` or ``"us"`` for all times; left out, each has its own.
        """
        return _table.build(
            self,
            _table.Look(
                sort_by,
                row_limit,
                max_src_column_width,
                max_name_column_width,
                max_shapes_column_width,
                header,
                top_level_events_only,
                time_unit,
                self._profile_memory,
                self._with_shapes,
                self._with_lines,
            ),
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row for all events of one name; of one name and shapes, or one name and lines."""
        rows = _averages.gather(self, group_by_input_shapes, group_by_stack_n)
        return EventList(
            rows,
            profile_memory=self._profile_memory,
            with_shapes=group_by_input_shapes,
            with_lines=group_by_stack_n > 0,
        )

    def total_average(self) -> _averages.FunctionEventAvg:
        """All events as one row."""
        total = _averages.FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for ``chrome://tracing`` or https://ui.perfetto.dev."""
        with _traces.opened(path) as file:
            json.dump(_traces.chrome(self, {}), file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can weigh stacks by."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write stacks with what they took, as flame graphs are made of."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}, got {metric!r}"
            )
        with open(path, "w") as file:
            file.writelines(_traces.stacks(self, metric))


def from_native(raw: list[Any], *, stacks: bool, shapes: bool, memory: bool) -> EventList:
    """The events that ``_core._profile_stop`` gave, with those inside others in their place."""
    base = raw[0][2] if raw else 0
    events: list[FunctionEvent] = []
    recorded: dict[int, list[str]] = {}  # by node: where the call was that recorded it
    for name, kind, start, end, thread, parent, seq, grown, live, sizes, stack in raw:
        event = FunctionEvent(
            len(events),
            name,
            thread,
            (start - base) / 1000,
            (end - base) / 1000,
            sizes,
            [_shown(*place) for place in stack],
            grown,
            seq or -1,
            Kind(kind),
        )
        event.live_bytes = live
        if parent >= 0:
            event.cpu_parent = events[parent]
            events[parent].cpu_children.append(event)
        _give_lines(event, recorded)
        events.append(event)
    return EventList(events, profile_memory=memory, with_shapes=shapes, with_lines=stacks)


def _shown(file: str, line: int, function: str) -> str:
    return f"{file}({line}): {function}" if function else f"{file}({line})"


def _give_lines(event: FunctionEvent, recorded: dict[int, list[str]]) -> None:
    """What runs for a node belongs to the line that made the node."""
    outer = event.cpu_parent
    if event.kind in (Kind.NODE, Kind.ENGINE):
        event.stack = recorded.get(event.sequence_nr, event.stack)
    elif outer is not None and outer.scope == 1 and event.scope == 0:
        event.scope, event.stack, event.sequence_nr = 1, outer.stack, outer.sequence_nr
    elif event.sequence_nr >= 0:
        recorded.setdefault(event.sequence_nr, event.stack)
