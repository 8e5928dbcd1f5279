"""Events of a profile, at PyTorch's address."""

from adjoint.profiler._averages import FunctionEventAvg as FunctionEventAvg
from adjoint.profiler._events import EventList as EventList
from adjoint.profiler._events import FunctionEvent as FunctionEvent
from adjoint.profiler._events import Interval as Interval
from adjoint.profiler._times import FormattedTimes as FormattedTimesMixin
from adjoint.profiler._times import format_memory as _format_memory
from adjoint.profiler._times import format_share as _format_time_share
from adjoint.profiler._times import format_time as _format_time

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "_format_memory",
    "_format_time",
    "_format_time_share",
]
