"""adjoint: gradients through any computation, on CPUs.

PyTorch's way of working: a ``Tensor`` records the operations done to it, ``backward()`` applies the
chain rule, ``.grad`` holds the result. ``import adjoint as ad`` and use PyTorch's names.
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import _core
from ._core import *  # noqa: F403
from ._core import Tensor as Tensor
from ._device import device as device

if _TYPE_CHECKING:
    from . import cuda as cuda
    from . import nn as nn
    from . import optim as optim
    from . import utils as utils
    from ._alias import install_as_torch as install_as_torch

__version__ = "0.1.0"

_core._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

# Loaded at their first use, so that importing adjoint costs little.
_LAZY_MODULES = frozenset({"cli", "cuda", "nn", "optim", "utils"})
_LAZY_NAMES = {"install_as_torch": "_alias"}


def __getattr__(name: str) -> _Any:
    if name in _LAZY_MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _LAZY_NAMES:
        value = getattr(_importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
