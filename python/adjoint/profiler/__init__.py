"""The profiler, under the names of `torch.profiler`: what each op took, and from which line.

- ``profiler.py`` - `profile`, what a user holds
- ``_schedule.py`` - which steps of a loop are looked at
- ``_record.py`` - named ranges
- ``_events.py``, ``_averages.py``, ``_table.py``, ``_traces.py`` - what is made of what was seen

The clock runs natively (``src/dispatch/profile.h``).
"""

from adjoint._missing import watch as _watch
from adjoint.profiler import itt as itt
from adjoint.profiler import profiler as profiler
from adjoint.profiler._record import record_function as record_function
from adjoint.profiler._schedule import ProfilerAction as ProfilerAction
from adjoint.profiler._schedule import ProfilerActivity as ProfilerActivity
from adjoint.profiler._schedule import schedule as schedule
from adjoint.profiler._schedule import supported_activities as supported_activities
from adjoint.profiler.profiler import ExecutionTraceObserver as ExecutionTraceObserver
from adjoint.profiler.profiler import _KinetoProfile as _KinetoProfile
from adjoint.profiler.profiler import profile as profile
from adjoint.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "profile",
    "profiler",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """False: adjoint has a profiler of its own."""
    return False


def __getattr__(name: str) -> object:
    from adjoint._missing import missing

    raise missing(__name__, name)


_watch(__name__)
