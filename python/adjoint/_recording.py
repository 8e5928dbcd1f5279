"""What code that is recorded (`adjoint.compiler`) and the recording have to agree about."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["placeholder_pass", "runs_again"]

# While a backward pass runs for the sake of its recording alone: expensive steps are not evaluated.
placeholder_pass: ContextVar[bool] = ContextVar("placeholder_pass", default=False)

# While a compiled function runs once more for the sake of its graph: what a program leaves out is
# left out there too.
runs_again: ContextVar[bool] = ContextVar("runs_again", default=False)
