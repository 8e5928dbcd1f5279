"""The few names of PyTorch's tracer that programs use; `adjoint.compiler` does the work.

There is no tracer of Python code here: a compiled function runs once and is recorded.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint.compiler import disable as disable
from adjoint.compiler import is_compiling as is_compiling
from adjoint.compiler import reset as reset

__all__ = ["config", "disable", "graph_break", "is_compiling", "mark_dynamic", "reset"]


class _Config(SimpleNamespace):
    """Settings that programs change before they compile; none has an effect here."""

    def patch(self, *args: Any, **kwargs: Any) -> Any:
        """A ``with`` block, or a decorator, in which settings are others: all as they are."""
        from contextlib import nullcontext

        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return nullcontext()


config = _Config(
    verbose=False,
    suppress_errors=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    dynamic_shapes=True,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    capture_scalar_outputs=False,
    optimize_ddp=False,
    inline_inbuilt_nn_modules=True,
)


def graph_break(msg: str = "") -> None:
    """Nothing: what is recorded is not broken into parts."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Nothing: a recorded program holds for the shapes it was recorded with."""


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
