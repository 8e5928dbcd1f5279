"""The profiler under its older names; `adjoint.profiler` is the newer form of it."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.profiler import ProfilerActivity as ProfilerActivity
from adjoint.profiler import profiler as _newer
from adjoint.profiler._averages import FunctionEventAvg as FunctionEventAvg
from adjoint.profiler._events import EventList as EventList
from adjoint.profiler._events import FunctionEvent as FunctionEvent
from adjoint.profiler._record import record_function as record_function

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


def kineto_available() -> bool:
    """False: adjoint has a profiler of its own."""
    return False


class profile:
    """Time every op in a ``with`` block; `adjoint.profiler.profile` knows schedules, too.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.profiler.profile() as prof:
    ...     y = ad.ones(3).exp()
    >>> prof.key_averages()[0].key
    'aten::ones'
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.use_device = None
        self._profile = _newer.profile(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            acc_events=acc_events,
        )

    def __enter__(self) -> profile:
        if self.enabled:
            self._profile.start_trace()
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            self._profile.stop_trace()

    @property
    def function_events(self) -> EventList | None:
        """All events; None before the end of the block."""
        return self._profile._events

    def _complete(self) -> EventList:
        if self._profile._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._profile._events

    def __repr__(self) -> str:
        events = self.function_events
        return "<unfinished profiler_legacy.profile>" if events is None else repr(events)

    def __str__(self) -> str:
        events = self.function_events
        return "<unfinished profile>" if events is None else str(events)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **look: Any) -> str:
        """A table of all events."""
        return self._complete().table(sort_by, row_limit, **look)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row for all events of one name."""
        return self._complete().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events as one row."""
        return self._complete().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self._complete().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for ``chrome://tracing`` or https://ui.perfetto.dev."""
        self._complete().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with what they took, as flame graphs are made of."""
        self._complete().export_stacks(path, metric)


class _Silent:
    """A tracer that is not here: a ``with`` block that does nothing, and says so once."""

    _what = ""
    _said = False

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        if enabled and not type(self)._said:
            type(self)._said = True
            warnings.warn(
                f"{type(self).__name__} does nothing: adjoint does not talk to {self._what}. "
                "adjoint.profiler.profile() times ops, and export_chrome_trace() writes a trace.",
                stacklevel=2,
            )

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class emit_nvtx(_Silent):
    """NVIDIA's ranges: there is no GPU, so that this does nothing."""

    _what = "NVIDIA's tools"


class emit_itt(_Silent):
    """Intel's ranges: this does nothing."""

    _what = "Intel's tools"


def load_nvprof(path: str) -> EventList:
    """Refuse: files of nvprof speak of GPUs."""
    raise NotImplementedError(
        "load_nvprof reads files of NVIDIA's profiler, which adjoint does not.\n"
        "  fix: open the file with NVIDIA's tools"
    )
