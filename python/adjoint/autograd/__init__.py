"""Automatic differentiation: ``backward``, ``grad``, grad modes and the graph.

The engine is native (``src/engine``); this package is the part people call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint._core import SavedTensor as SavedTensor

from . import forward_ad as forward_ad
from . import function as function
from . import graph as graph
from ._backward import _tensor_backward as _tensor_backward
from ._backward import backward as backward
from ._backward import grad as grad
from ._multithreading import is_multithreading_enabled as is_multithreading_enabled
from ._multithreading import set_multithreading_enabled as set_multithreading_enabled
from ._strong_zeros import strong_zeros as strong_zeros
from .function import Function as Function
from .function import set_check_mode as set_check_mode
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .gradcheck import gradcheck as gradcheck  # the function replaces the module of that name
from .gradcheck import gradgradcheck as gradgradcheck
from .variable import Variable as Variable

if TYPE_CHECKING:
    from . import anomaly_mode as anomaly_mode
    from . import functional as functional
    from . import profiler as profiler
    from . import profiler_util as profiler_util
    from .anomaly_mode import detect_anomaly as detect_anomaly
    from .anomaly_mode import set_detect_anomaly as set_detect_anomaly

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "set_check_mode",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "strong_zeros",
]


def __getattr__(name: str) -> Any:
    """What few programs use loads at its first use."""
    if name in ("functional", "profiler", "profiler_util"):
        return import_module(f"{__name__}.{name}")
    if name in ("anomaly_mode", "detect_anomaly", "set_detect_anomaly"):
        module = import_module(f"{__name__}.anomaly_mode")
        return module if name == "anomaly_mode" else getattr(module, name)
    from adjoint._missing import missing

    raise missing(__name__, name)


def __dir__() -> list[str]:
    """Also what loads at its first use."""
    return sorted({*globals(), *__all__, "anomaly_mode", "profiler_util"})
