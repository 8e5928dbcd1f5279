"""In which step of a loop an error came."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from adjoint.compiler._names import code_of, place_of

__all__ = ["in_step"]


class in_step:
    """For the length of a block: an error tells the number of the step, and where the step is.

    The line is in the traceback already, unless what the step has returned is wrong.

    Parameters
    ----------
    number
        Of all steps of the loop, as they run, from 0.
    step
        The user's function.
    """

    # A class: entering a generator takes as long as a small step.
    __slots__ = ("_number", "_step")

    def __init__(self, number: int, step: Callable[..., Any]) -> None:
        self._number, self._step = number, step

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if not isinstance(error, Exception):
            return
        note = f"in step {self._number} of those that ran, from 0"
        code = code_of(self._step)
        if code is not None and all(f.f_code is not code for f, _ in traceback.walk_tb(trace)):
            note += f", at  {place_of(code, None)}"
        error.add_note(note)
