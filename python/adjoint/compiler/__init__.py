"""Programs from functions: `adjoint.compile`, and what goes with it.

A compiled function is the same function faster: recorded once for each kind of arguments, then run
natively. Read next: `_compile`, which decides what is recorded; `_first_call`, from the call that
was recorded to its programs; `_recorded`, one recorded kind of call; `_walk` and `_guards`, what
must still hold before a program runs again; `_pure`, what is known to be free of state and effects.
"""

from __future__ import annotations

from adjoint._missing import watch as _watch

from ._compile import Compiled, CompileError, CompileWarning, compile
from ._controls import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    nested_compile_region,
    reset,
    set_stance,
    substitute_in_graph,
    wrap_numpy,
)
from ._native import set_native
from ._passes import show_passes
from ._pure import pure
from ._recorded import Recorded
from ._saved import load
from ._verify import VerifyError

__all__ = [
    "CompileError",
    "CompileWarning",
    "Compiled",
    "Recorded",
    "VerifyError",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load",
    "nested_compile_region",
    "pure",
    "reset",
    "set_native",
    "set_stance",
    "show_passes",
    "substitute_in_graph",
    "wrap_numpy",
]


_watch(__name__)
