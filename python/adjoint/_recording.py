"""What code that is recorded (`adjoint.compiler`) and the recording have to agree about."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["placeholder_pass"]

# While a backward pass runs for the sake of its recording alone: expensive steps are not evaluated.
placeholder_pass: ContextVar[bool] = ContextVar("placeholder_pass", default=False)
