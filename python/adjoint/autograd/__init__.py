"""Automatic differentiation: ``backward``, ``grad``, grad modes and the graph.

The engine is native (``src/engine``); this package is the part people call.
"""

from __future__ import annotations

from adjoint._core import SavedTensor as SavedTensor

from . import forward_ad as forward_ad
from . import function as function
from . import graph as graph
from ._backward import _tensor_backward as _tensor_backward
from ._backward import backward as backward
from ._backward import grad as grad
from ._multithreading import is_multithreading_enabled as is_multithreading_enabled
from ._multithreading import set_multithreading_enabled as set_multithreading_enabled
from .function import Function as Function
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .gradcheck import gradcheck as gradcheck  # the function replaces the module of that name
from .gradcheck import gradgradcheck as gradgradcheck
from .variable import Variable as Variable

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "enable_grad",
    "forward_ad",
    "function",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
