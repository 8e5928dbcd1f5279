"""What an instruction that is about to run finds in its frame, as the core reads it.

Python shows a frame's variables to a trace function but not its stack, where the object of an
attribute access and the callee of a call stand. `KNOWN` is False in a Python whose frames the core
cannot read (src/bindings/frames.h), or where they are not what it takes them for. Read next:
`_watch`.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any

from adjoint import _core

__all__ = [
    "CALLEE_WITH_STARS",
    "KNOWN",
    "callee_of",
    "function_of",
    "harmless",
    "is_made",
    "operand",
    "variable",
]

operand = _core._frame_operand
variable = _core._frame_variable
function_of = _core._frame_function
callee_of = _core._frame_callee
is_made = _core._watch_is_made
harmless = _core._watch_harmless

# How far below its arguments the callee of ``f(*args)`` stands.
CALLEE_WITH_STARS = 1 if sys.version_info < (3, 13) else 2


def _probe() -> bool:
    """Whether frames are what the core takes them for: look at one attribute access."""
    if not _core._frames_known:
        return False
    mark = 3.25
    seen: list[Any] = []

    def access(thing: Any) -> Any:
        return thing.real

    def look(frame: FrameType, _: Any) -> None:
        seen.extend((operand(frame, 0), variable(frame, 0), function_of(frame)))

    def describe(code: CodeType) -> list[tuple[Any, ...]] | None:
        return [(load, 0, 0, 0, False, 1, look, None)] if code is access.__code__ else None

    load = next(one.offset for one in dis.get_instructions(access) if one.opname == "LOAD_ATTR")
    outer = sys.gettrace()
    _core._watch_start(describe, _nothing, _nothing, type(None), None)
    try:
        access(mark)
    finally:
        _core._watch_stop()
        sys.settrace(outer)
    return len(seen) == 3 and seen[0] is mark and seen[1] is mark and seen[2] is access


def _nothing(*_: Any) -> None:
    """What is done where nothing is to be done."""


KNOWN = _probe()
