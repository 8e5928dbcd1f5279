"""Modules that learn the sizes of their parameters from the first input.

A lazy module starts with parameters that have no shape (`UninitializedParameter`). The hook that
`LazyModuleMixin` sets runs before the first forward: `initialize_parameters` gives them one, and
the module becomes an ordinary one (`cls_to_become`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """What lazy modules inherit, before the module they become."""

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    register_forward_pre_hook: Callable[..., Any]
    _register_load_state_dict_pre_hook: Callable[..., Any]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                lazy = is_lazy(value) or keep_vars
                destination[prefix + name] = value if lazy else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                lazy = is_lazy(value) or keep_vars
                destination[prefix + name] = value if lazy else value.detach()

    _non_persistent_buffers_set: set[str]

    def _lazy_load_hook(
        self: Any,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """Give parameters the shape of what is about to be loaded."""
        for name, value in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if value is not None and given is not None and is_lazy(value) and not is_lazy(given):
                with ad.no_grad():
                    value.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters a shape, from the arguments of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        values = itertools.chain(self._parameters.values(), self._buffers.values())
        return any(is_lazy(value) for value in values)

    def _infer_parameters(
        self: Any, module: Any, args: Any, kwargs: dict[str, Any] | None = None
    ) -> None:
        """Run before the first forward."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )
