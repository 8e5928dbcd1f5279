"""`Module`: a callable that owns parameters, buffers and other modules.

This file holds construction, calling and printing. Taking things in is in `_registration.py`,
walking the tree in `_traversal.py`, saving and loading in `_state_dict.py`, casting in
`_convert.py`, hooks on backward in `_backward_hooks.py`, hooks on all modules in
`_global_hooks.py`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import Tensor
from adjoint.nn.modules import _backward_hooks
from adjoint.nn.modules._backward_hooks import BackwardHooks
from adjoint.nn.modules._convert import Conversion
from adjoint.nn.modules._global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from adjoint.nn.modules._registration import Registration
from adjoint.nn.modules._registration import _typename as _typename
from adjoint.nn.modules._state_dict import StateDict
from adjoint.nn.modules._state_dict import _IncompatibleKeys as _IncompatibleKeys
from adjoint.nn.modules._traversal import Traversal
from adjoint.nn.parameter import Parameter
from adjoint.utils.hooks import RemovableHandle

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Hooks = OrderedDict[int, Callable[..., Any]]
# The hooks around the calls of all modules; `_global_hooks.py` fills these tables.
_global_backward_pre_hooks: Hooks = OrderedDict()
_global_backward_hooks: Hooks = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: Hooks = OrderedDict()
_global_forward_hooks: Hooks = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()

_HOOK_TABLES = (
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module(Registration, Traversal, StateDict, Conversion, BackwardHooks):
    """Base class of everything in `adjoint.nn` that holds parameters or other modules.

    Subclasses call `super().__init__()` first, assign parameters and submodules as attributes and
    define `forward`.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Scale(ad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = ad.nn.Parameter(ad.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Scale()(ad.tensor([1.0, 2.0]))
    tensor([2., 4.], grad_fn=<MulBackward0>)
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    # A class that sets this has its `super().__init__()` called with the arguments it was given.
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self).__name__
        if not self.call_super_init and kwargs:
            name = next(iter(kwargs))
            raise TypeError(f"{cls}.__init__() got an unexpected keyword argument '{name}'")
        if not self.call_super_init and args:
            raise TypeError(
                f"{cls}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # Written past __setattr__, which needs these tables to exist.
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}
        own["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            own[table] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _forward_unimplemented(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _forward_unimplemented

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # -- calling ---------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if (
            own["_forward_pre_hooks"]
            or own["_forward_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or _global_forward_pre_hooks
            or _global_forward_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Module.__call__(self, *args, **kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, **kwargs: Any) -> None:
        """Compile the forward of this module in place.

        Unlike ``adjoint.compile(module)``, which makes another module around this one, names of
        parameters stay as they are. Hooks run around the program.

        Parameters
        ----------
        **kwargs
            Those of `adjoint.compile`.

        Examples
        --------
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU())
        >>> net.compile()
        >>> y = net(ad.ones(4, 2))
        >>> list(y.shape), len(net.forward.programs)
        ([4, 3], 1)
        """
        from adjoint.compiler import Compiled, compile

        forward: Any = self.forward
        if isinstance(forward, Compiled):
            forward = forward.function
        self.__dict__["forward"] = compile(forward, **kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        result: Any = None

        def forward(*args: Any, **kwargs: Any) -> Any:
            nonlocal result
            result = self.forward(*args, **kwargs)
            for key, hook in self._forward_hooks_now():
                called.add(key)
                replaced = self._run_forward_hook(key, hook, args, kwargs, result)
                result = result if replaced is None else replaced
            return result

        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            return _backward_hooks.call(self, forward, args, kwargs)
        except Exception:
            # Hooks registered with always_call see a failed forward too, with what result there is.
            for key, hook in self._forward_hooks_now():
                if key not in called and self._is_always_called(key):
                    try:
                        replaced = self._run_forward_hook(key, hook, args, kwargs, result)
                        result = result if replaced is None else replaced
                    except Exception as error:
                        kind = "global module" if key in _global_forward_hooks else "module"
                        warnings.warn(
                            f"{kind} forward hook with ``always_call=True`` raised an exception "
                            f"that was silenced as another error was raised in forward: {error}",
                            stacklevel=2,
                        )
            raise

    def _forward_hooks_now(self) -> list[tuple[int, Callable[..., Any]]]:
        """The hooks after forward, those of all modules first; a list, for they may remove some."""
        return [*_global_forward_hooks.items(), *self._forward_hooks.items()]

    def _is_always_called(self, key: int) -> bool:
        tables = (self._forward_hooks_always_called, _global_forward_hooks_always_called)
        return any(key in table for table in tables)

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            if key in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _run_forward_hook(
        self,
        key: int,
        hook: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> Any:
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before every forward; it may return new arguments."""
        handle = RemovableHandle(self._forward_pre_hooks, self._forward_pre_hooks_with_kwargs)
        self._forward_pre_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, result)` after every forward; it may return another result."""
        handle = RemovableHandle(
            self._forward_hooks,
            self._forward_hooks_with_kwargs,
            self._forward_hooks_always_called,
        )
        self._forward_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    # -- printing --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the parentheses; subclasses override it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indent(repr(child)) for name, child in self._modules.items()]
        return _block(self._get_name(), lines, children)


def _block(name: str, lines: list[str], children: list[str]) -> str:
    if len(lines) == 1 and not children:
        return f"{name}({lines[0]})"
    if not lines and not children:
        return f"{name}()"
    return f"{name}(\n  " + "\n  ".join([*lines, *children]) + "\n)"


def _indent(text: str, by: int = 2) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * by + line for line in rest)])
