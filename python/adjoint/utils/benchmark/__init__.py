"""`torch.utils.benchmark`: times of small pieces of code, and tables of them.

- ``_timer.py`` - `Timer`: runs a statement often enough for the clock
- ``_measurement.py`` - `Measurement`: the times, and what to say about them
- ``_compare.py`` - `Compare`: measurements side by side
"""

from typing import Any

from adjoint.utils.benchmark._compare import Compare as Compare
from adjoint.utils.benchmark._measurement import Measurement as Measurement
from adjoint.utils.benchmark._measurement import TaskSpec as TaskSpec
from adjoint.utils.benchmark._measurement import ordered_unique as ordered_unique
from adjoint.utils.benchmark._measurement import select_unit as select_unit
from adjoint.utils.benchmark._measurement import trim_sigfig as trim_sigfig
from adjoint.utils.benchmark._measurement import unit_to_english as unit_to_english
from adjoint.utils.benchmark._timer import Language as Language
from adjoint.utils.benchmark._timer import Timer as Timer
from adjoint.utils.benchmark._timer import set_torch_threads as set_torch_threads
from adjoint.utils.benchmark._timer import timer as timer

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "timer"]


def __getattr__(name: str) -> Any:
    from adjoint._missing import missing

    raise missing(__name__, name)
