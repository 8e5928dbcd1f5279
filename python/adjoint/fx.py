"""`torch.fx`: refused. adjoint has no graphs of modules that a program could edit."""

from __future__ import annotations

from typing import Any, TypeVar

from adjoint._missing import missing as _missing
from adjoint._refused import refused, refused_class

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "symbolic_trace",
    "wrap",
]

_WHY = "adjoint runs Python itself, and has no graph of a module that could be edited"
_FIX = (
    "adjoint.compile(f) records f for speed, adjoint.graph(y) shows what was computed; forward "
    "hooks (register_forward_hook) read values inside a module"
)
F = TypeVar("F")

symbolic_trace = refused("fx.symbolic_trace", _WHY, _FIX)
replace_pattern = refused("fx.replace_pattern", _WHY, _FIX)
Graph = refused_class("fx.Graph", _WHY, _FIX)
GraphModule = refused_class("fx.GraphModule", _WHY, _FIX)
Interpreter = refused_class("fx.Interpreter", _WHY, _FIX)
Node = refused_class("fx.Node", _WHY, _FIX)
Proxy = refused_class("fx.Proxy", _WHY, _FIX)
Tracer = refused_class("fx.Tracer", _WHY, _FIX)
Transformer = refused_class("fx.Transformer", _WHY, _FIX)


def wrap(fn_or_name: F) -> F:
    """The function itself: nothing is traced that it would have to be kept from."""
    return fn_or_name


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
