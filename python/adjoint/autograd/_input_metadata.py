"""What ``node._input_metadata`` holds."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint import _core
from adjoint._tensor.device import device


class InputMetadata(NamedTuple):
    """What the gradient of one output of a node looks like."""

    shape: _core.Size
    dtype: _core.dtype
    device: Any = device("cpu")
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False
