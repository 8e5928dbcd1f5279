"""Programs from functions: `adjoint.compile`, and what goes with it.

A compiled function is the same function faster: recorded once for each kind of arguments, then run
natively. Read next: `_compile`, who decides what is recorded; `_recorded`, one recorded kind of
call; `_guards` and `_watch`, what must still hold before a program runs again.
"""

from __future__ import annotations

from ._compile import Compiled, CompileError, CompileWarning, compile
from ._controls import disable, is_compiling, is_dynamo_compiling, is_exporting, reset
from ._recorded import Recorded

__all__ = [
    "CompileError",
    "CompileWarning",
    "Compiled",
    "Recorded",
    "compile",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]
