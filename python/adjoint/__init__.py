"""adjoint: gradients through any computation, on CPUs.

PyTorch's way of working: a ``Tensor`` records the operations done to it, ``backward()`` applies the
chain rule, ``.grad`` holds the result. ``import adjoint as ad`` and use PyTorch's names.
"""

from __future__ import annotations

import os as _os

from . import _core
from ._core import *  # noqa: F403
from ._core import Tensor as Tensor

_core._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
