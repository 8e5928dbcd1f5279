"""The few names of PyTorch's compiled module that programs use; the rest is in `adjoint._core`."""

from __future__ import annotations

import weakref
from typing import Any

from adjoint._core import (
    _current_graph_task_execution_order as _current_graph_task_execution_order,
)
from adjoint._core import _current_graph_task_id as _current_graph_task_id
from adjoint._core import _set_grad_enabled as _set_grad_enabled
from adjoint._core import _will_engine_execute_node as _will_engine_execute_node
from adjoint._core import is_grad_enabled as is_grad_enabled


class _WeakTensorRef:
    """Whether a tensor is still alive, without keeping it so."""

    def __init__(self, tensor: Any) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


class _Functions:
    """Classes of graph nodes by name: ``_functions.AccumulateGrad``."""

    def __getattr__(self, name: str) -> Any:
        from adjoint import _core

        if name.startswith("__"):
            raise AttributeError(name)
        return _core._node_class(name)


_functions = _Functions()
