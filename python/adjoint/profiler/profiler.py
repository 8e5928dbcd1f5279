"""`profile`: what ran while it was on."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import _core
from adjoint.profiler import _traces
from adjoint.profiler._events import EventList, from_native
from adjoint.profiler._record import record_function
from adjoint.profiler._schedule import ProfilerAction, ProfilerActivity, always
from adjoint.profiler._schedule import schedule as schedule
from adjoint.profiler._schedule import supported_activities as supported_activities

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_COLLECTING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Time every op, forward and backward, and remember the line that it came from.

    A context manager; or call `start` and `stop`.

    Parameters
    ----------
    activities
        Where to look; only CPUs are there. Others are ignored with a note.
    schedule
        Which steps to look at (`schedule`); `step` ends a step. Left out: everything.
    on_trace_ready
        Called with the profile when a cycle of the schedule, or the profile, is complete.
    record_shapes
        Whether the shapes of arguments are kept.
    profile_memory
        Whether the table says how much memory each op holds at its end.
    with_stack
        Whether the whole stack is kept with each event, rather than the user's line alone.
    with_flops, with_modules, experimental_config, execution_trace_observer
        Accepted; nothing is counted or kept for them.
    acc_events
        Whether events of earlier cycles are kept.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> with ad.profiler.profile() as prof:
    ...     (x * x).sum().backward()
    >>> [event.key for event in prof.key_averages()][:2]
    ['aten::mul', 'aten::sum']
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        if not self.activities <= supported_activities() and activities is not None:
            _note_once("profile looks at CPUs alone: there is no other device here.")
        if with_flops:
            _note_once("profile(with_flops=True): adjoint does not count operations.")
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._range: record_function | None = None
        self._collecting = False
        self._events: EventList | None = None
        self._metadata: dict[str, Any] = {}

    # -- on and off --------------------------------------------------------------------------------
    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as the schedule says for step 0."""
        if self.current_action in _COLLECTING:
            self.start_trace()
        self._begin_range()

    def stop(self) -> None:
        """End; what was being recorded is ready."""
        self._end_range()
        if self._collecting:
            self.stop_trace()
            self._trace_ready()

    def step(self) -> None:
        """A step of the loop is over: the next one is treated as the schedule says."""
        self._end_range()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self._collecting and before == ProfilerAction.RECORD_AND_SAVE:
            self.stop_trace()
            self._trace_ready()
        if self.current_action not in _COLLECTING:
            if self._collecting:
                warnings.warn(
                    "Incorrect schedule: RECORD followed by " + self.current_action.name,
                    stacklevel=2,
                )
                self.stop_trace()
        elif not self._collecting:
            self.start_trace()
        self._begin_range()

    def prepare_trace(self) -> None:
        """Accepted: there is nothing to prepare."""

    def start_trace(self) -> None:
        """Begin to time calls, whatever the schedule says."""
        if self._collecting:
            return
        _core._profile_start(self.record_shapes, self.with_stack)
        self._collecting = True

    def stop_trace(self) -> None:
        """End it, and sort what was seen."""
        if not self._collecting:
            return
        self._collecting = False
        events = from_native(
            _core._profile_stop(),
            stacks=self.with_stack,
            shapes=self.record_shapes,
            memory=self.profile_memory,
        )
        if self.acc_events and self._events is not None:
            self._events.extend(events)
        else:
            self._events = events

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Do nothing: what runs on CPUs is always looked at."""

    def _begin_range(self) -> None:
        if self.record_steps:
            self._range = record_function(f"ProfilerStep#{self.step_num}")
            self._range.__enter__()

    def _end_range(self) -> None:
        if self._range is not None:
            self._range.__exit__()
            self._range = None

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # -- what was seen -----------------------------------------------------------------------------
    def events(self) -> EventList:
        """All events, in the order in which they began."""
        if self._events is None:
            raise AssertionError(
                "Profiler must be initialized before getting events: it is complete after its with "
                "block, or in on_trace_ready"
            )
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row for all events of one name; by shapes, or by so many lines of the stack, too.

        Without ``with_stack`` each event has one line, the user's.
        """
        if self._events is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self._events.key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for ``chrome://tracing`` or https://ui.perfetto.dev; ``.gz`` compresses."""
        with _traces.opened(path) as file:
            json.dump(
                _traces.chrome(
                    self.events(),
                    {
                        "with_stack": int(self.with_stack),
                        "profile_memory": int(self.profile_memory),
                        "record_shapes": int(self.record_shapes),
                        "traceName": str(path),
                        **self._metadata,
                    },
                ),
                file,
            )

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with what they took, as flame graphs are made of."""
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refuse: memory is known per op, not per moment."""
        raise NotImplementedError(
            "profile.export_memory_timeline: adjoint knows memory per op, not per moment.\n"
            '  fix: profile_memory=True and key_averages().table(sort_by="self_cpu_memory_usage")'
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value to the trace, written as JSON."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Say where trace ids come from."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The id of the trace, if there is a callback for it."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else None


_KinetoProfile = profile


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """A function for ``on_trace_ready`` that writes each trace to a folder."""
    os.makedirs(dir_name, exist_ok=True)

    def write(prof: profile) -> None:
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".json.gz" if use_gzip else ".json"
        name = f"{worker}.{time.time_ns()}.pt.trace{ending}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write


class ExecutionTraceObserver:
    """PyTorch's recorder of arguments for its replayer; adjoint has none."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "ExecutionTraceObserver writes files for PyTorch's replayer, which adjoint has none of."
            "\n  fix: profile(record_shapes=True).export_chrome_trace(path) has ops and shapes; "
            "adjoint.compiler.show_passes shows a recorded program"
        )


_noted: set[str] = set()


def _note_once(text: str) -> None:
    if text not in _noted:
        _noted.add(text)
        warnings.warn(text, stacklevel=3)
