"""The few names of PyTorch's compiled module that programs use; the rest is in `adjoint._core`."""

from __future__ import annotations

import weakref
from typing import Any

from adjoint import _core
from adjoint._C import _functorch as _functorch
from adjoint._core import _current_autograd_node as _current_autograd_node
from adjoint._core import (
    _current_graph_task_execution_order as _current_graph_task_execution_order,
)
from adjoint._core import _current_graph_task_id as _current_graph_task_id
from adjoint._core import _is_fwd_grad_enabled as _is_fwd_grad_enabled
from adjoint._core import _LinAlgError as _LinAlgError
from adjoint._core import _set_fwd_grad_enabled as _set_fwd_grad_enabled
from adjoint._core import _set_grad_enabled as _set_grad_enabled
from adjoint._core import _will_engine_execute_node as _will_engine_execute_node
from adjoint._core import is_grad_enabled as is_grad_enabled
from adjoint._missing import watch as _watch


class DisableTorchFunctionSubclass:
    """A ``with`` block in which tensors of subclasses are treated as plain tensors."""

    def __enter__(self) -> None:
        self._before = _core._plain_tensors(True)

    def __exit__(self, *_: object) -> None:
        _core._plain_tensors(self._before)


class _WeakTensorRef:
    """A weak reference to a tensor that can be asked whether the tensor is gone."""

    def __init__(self, tensor: _core.Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


class _autograd:
    """What PyTorch keeps in ``torch._C._autograd``."""

    SavedTensor = _core.SavedTensor

    @staticmethod
    def _saved_tensors_hooks_is_enabled() -> bool:
        return _core._saved_tensors_hooks_disabled() is None


class _Functions:
    """Classes of graph nodes by name: ``_functions.AccumulateGrad``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _core._node_class(name)

    def UndefinedGrad(self) -> Any:
        """A function that hands its input on, but no gradient back."""
        from adjoint.autograd import Function

        class UndefinedGrad(Function):
            @staticmethod
            def forward(ctx: Any, *tensors: Any) -> Any:
                return tuple(t.clone() for t in tensors) if len(tensors) > 1 else tensors[0].clone()

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return (None,) * len(grads)

        return UndefinedGrad.apply

    def DelayedError(self, message: str, num_inputs: int) -> Any:
        """A function that hands its inputs on, and raises when a gradient comes back."""
        from adjoint.autograd import Function

        class DelayedError(Function):
            @staticmethod
            def forward(ctx: Any, *tensors: Any) -> Any:
                return tuple(t.clone() for t in tensors) if len(tensors) > 1 else tensors[0].clone()

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                raise RuntimeError(message)

        return DelayedError.apply


_functions = _Functions()


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether loops of vmap are reported: once, by name, always."""
    return True


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Accepted: loops of vmap are reported once, by name."""


def _log_api_usage_once(event: str) -> None:
    """Nothing: who uses what is not counted."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def __getattr__(name: str) -> Any:
    if name in ("_TensorBase", "TensorBase"):
        return _core.Tensor
    if name in _OVERRIDES:
        from adjoint import overrides

        return getattr(overrides, name.removeprefix("_"))
    if name == "_nn":
        from adjoint.nn import functional

        return functional
    if name == "_VariableFunctions":
        import adjoint

        return adjoint
    if name in ("Generator", "Size", "device", "dtype", "layout", "memory_format"):
        import adjoint

        return getattr(adjoint, name)
    from adjoint._missing import missing

    raise missing(__name__, name)


_OVERRIDES = (
    "_has_torch_function",
    "_has_torch_function_unary",
    "_has_torch_function_variadic",
)


_watch(__name__)
