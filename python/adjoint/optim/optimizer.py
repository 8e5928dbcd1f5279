"""`Optimizer`: parameter groups, per-parameter state, hooks, and saving.

Read next: `_elementwise.py` for what most optimizers share, then `sgd.py` and `adam.py`.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.optim._options import (
    _capturable_doc as _capturable_doc,
)
from adjoint.optim._options import (
    _default_to_fused_or_foreach as _default_to_fused_or_foreach,
)
from adjoint.optim._options import (
    _device_dtype_check_for_fused as _device_dtype_check_for_fused,
)
from adjoint.optim._options import (
    _differentiable_doc as _differentiable_doc,
)
from adjoint.optim._options import (
    _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported,
)
from adjoint.optim._options import (
    _foreach_doc as _foreach_doc,
)
from adjoint.optim._options import (
    _fused_doc as _fused_doc,
)
from adjoint.optim._options import (
    _get_scalar_dtype as _get_scalar_dtype,
)
from adjoint.optim._options import (
    _get_value as _get_value,
)
from adjoint.optim._options import (
    _maximize_doc as _maximize_doc,
)
from adjoint.optim._options import (
    _params_doc as _params_doc,
)
from adjoint.optim._options import (
    _stack_if_compiling as _stack_if_compiling,
)
from adjoint.optim._options import (
    _to_scalar as _to_scalar,
)
from adjoint.optim._options import (
    _view_as_real as _view_as_real,
)
from adjoint.optim._recorded_steps import parameters, record_step, recorded_parameters
from adjoint.optim._saved_state import cast_to_policy, packed, unpacked
from adjoint.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_Hook: TypeAlias = Callable[..., Any]
_Table: TypeAlias = "OrderedDict[int, _Hook]"

_global_optimizer_pre_hooks: _Table = OrderedDict()
_global_optimizer_post_hooks: _Table = OrderedDict()


class _RequiredParameter:
    """Stands in `defaults` for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: _Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer.

    Returns
    -------
    RemovableHandle
        Its `remove()` takes the hook out again.
    """
    return _registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: _Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer.

    Returns
    -------
    RemovableHandle
        Its `remove()` takes the hook out again.
    """
    return _registered(_global_optimizer_post_hooks, hook)


def _registered(table: _Table, hook: _Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Run `step` with gradients recorded if the optimizer is differentiable, else without."""

    @functools.wraps(step)
    def with_mode(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = ad.is_grad_enabled()
        _core._set_grad_enabled(self.defaults["differentiable"])
        try:
            return step(self, *args, **kwargs)
        finally:
            _core._set_grad_enabled(before)

    return with_mode


def _span(name: str) -> AbstractContextManager[Any]:
    """A span of that name for the profiler, if there is one to see it."""
    if not _core._profiling():
        return nullcontext()
    from adjoint.profiler import record_function

    return record_function(name)


class Optimizer:
    """Base class of all optimizers.

    Parameters
    ----------
    params : iterable
        Tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
    defaults : dict
        Options for groups that do not set them.
    """

    OptimizerPreHook: TypeAlias = Callable[..., Any]
    OptimizerPostHook: TypeAlias = Callable[..., Any]

    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, Any]
    defaults: dict[str, Any]
    _opt_called: bool
    _optimizer_step_pre_hooks: _Table
    _optimizer_step_post_hooks: _Table
    _optimizer_state_dict_pre_hooks: _Table
    _optimizer_state_dict_post_hooks: _Table
    _optimizer_load_state_dict_pre_hooks: _Table
    _optimizer_load_state_dict_post_hooks: _Table

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for moment in ("step", "state_dict", "load_state_dict"):
            for order in ("pre", "post"):
                name = f"_optimizer_{moment}_{order}_hooks"
                if name not in self.__dict__:
                    setattr(self, name, OrderedDict())

    # -- stepping --------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; a closure recomputes the loss first and its value is returned."""
        raise NotImplementedError

    def _run_closure(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with ad.enable_grad():
            return closure()

    def _patch_step_function(self) -> None:
        """Let the step of this class run hooks, be it written here or by a user."""
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)  # type: ignore[method-assign]
            cls.step.hooked = True  # type: ignore[attr-defined]

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """`func` with the hooks around it, as a span of the profiler."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self: Optimizer = args[0]
            if _core._is_recording() and not self.defaults.get("differentiable"):
                return record_step(self, wrapper, args[1:], kwargs)
            if "_opt_called" in self.__dict__:  # a schedule wants to know (lr_scheduler)
                self._opt_called = True
            with _span(f"Optimizer.step#{type(self).__name__}.step"):
                for hook in (
                    *_global_optimizer_pre_hooks.values(),
                    *self._optimizer_step_pre_hooks.values(),
                ):
                    replaced = hook(self, args, kwargs)
                    if replaced is not None:
                        if not (isinstance(replaced, tuple) and len(replaced) == 2):
                            raise RuntimeError(
                                f"{func} must return None or a tuple of (new_args, new_kwargs), "
                                f"but got {replaced}."
                            )
                        args, kwargs = replaced
                result = func(*args, **kwargs)
                self._optimizer_step_code()
                for hook in (
                    *self._optimizer_step_post_hooks.values(),
                    *_global_optimizer_post_hooks.values(),
                ):
                    hook(self, args, kwargs)
                return result

        wrapper._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return wrapper

    def _optimizer_step_code(self) -> None:
        """Called after every step, for tools that watch it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients: to None, or to zeros."""
        if not hasattr(self, "_zero_grad_profile_name"):
            self._patch_step_function()
        with _span(self._zero_grad_profile_name):
            recording = _core._is_recording()
            for parameter in recorded_parameters(self) if recording else parameters(self):
                if parameter.grad is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad = parameter.grad.detach().zero_()

    # -- hooks -----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: _Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before every step; it may return new arguments."""
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: _Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after every step."""
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: _Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: _Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: _Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: _Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Parameters
        ----------
        param_group : dict
            "params" and any options; the others are taken from the defaults.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, Tensor):
            given = [given]
        elif isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        given = list(given)
        param_group["params"] = given
        _split_names(param_group, given)
        for parameter in param_group["params"]:
            _check_parameter(parameter, bool(self.defaults.get("differentiable", None)))
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        self._check_other_groups(param_group)
        self.param_groups.append(param_group)

    def _check_other_groups(self, param_group: dict[str, Any]) -> None:
        own = {id(parameter) for parameter in param_group["params"]}
        if len(own) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if named else 'without'} names to the optimizer"
                )
        if any(id(p) in own for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups' options, with parameters replaced by their numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        result = packed(self.param_groups, self.state)
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned, for the same parameters in the same order."""
        saved: Mapping[str, Any] = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, saved)
            if replaced is not None:
                saved = replaced
        self.__setstate__(unpacked(self.param_groups, saved))
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor,
        value: Tensor,
        param_id: int,
        param_groups: list[dict[str, Any]],
        key: str | None = None,
    ) -> Tensor:
        return cast_to_policy(param, value, param_id, param_groups, key)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _split_names(group: dict[str, Any], given: list[Any]) -> None:
    """Turn (name, tensor) pairs into parallel lists of names and tensors."""
    named = [isinstance(entry, tuple) for entry in given]
    if not any(named):
        return
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["param_names"] = [entry[0] for entry in given]
    group["params"] = [entry[1] for entry in given]


def _check_parameter(parameter: Any, differentiable: bool) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {_typename(parameter)}"
        )
    if not differentiable and not (parameter.is_leaf or parameter.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _typename(value: object) -> str:
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
