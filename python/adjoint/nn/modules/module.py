"""`Module`: a callable that owns parameters, buffers and other modules.

This file holds registration, attribute access, calling and printing. Walking the tree is in
`_traversal.py`, saving and loading in `_state_dict.py`, casting in `_convert.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import Tensor
from adjoint.nn.modules import _backward_hooks
from adjoint.nn.modules._backward_hooks import BackwardHooks
from adjoint.nn.modules._convert import Conversion
from adjoint.nn.modules._state_dict import StateDict
from adjoint.nn.modules._traversal import Traversal
from adjoint.nn.parameter import Parameter
from adjoint.utils.hooks import RemovableHandle

__all__ = ["Module"]

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


class Module(Traversal, StateDict, Conversion, BackwardHooks):
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

    # -- registration ----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, reachable as an attribute; None reserves the name."""
        self._check_new_name("parameter", "_parameters", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the state but is not trained.

        Parameters
        ----------
        name : str
            The attribute's name.
        tensor : Tensor or None
            The values.
        persistent : bool, default True
            Whether `state_dict` includes it.
        """
        self._check_new_name("buffer", "_buffers", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module, reachable as an attribute."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_name("module", "_modules", name)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _check_new_name(self, kind: str, table: str, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    # -- attributes ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Reached when ordinary lookup fails: parameters, buffers and children are not in __dict__.
        own = self.__dict__
        if "_parameters" in own:
            if name in own["_parameters"]:
                return own["_parameters"][name]
            if name in own["_modules"]:
                return own["_modules"][name]
            if name in own["_buffers"]:
                return own["_buffers"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if parameters is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            own["_modules"][name] = value
        elif isinstance(value, Tensor) and getattr(value, "_is_buffer", False):
            if parameters is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, persistent=getattr(value, "persistent", True))
        elif parameters is None:
            object.__setattr__(self, name, value)
        elif name in parameters:
            if value is not None:
                raise _cannot_assign(value, "parameter", name, "torch.nn.Parameter")
            parameters[name] = None
        elif name in own["_modules"]:
            if value is not None:
                raise _cannot_assign(value, "child module", name, "torch.nn.Module")
            own["_modules"][name] = None
        elif name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise _cannot_assign(value, "buffer", name, "torch.Tensor")
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own.get(table, ()):
                del own[table][name]
                own["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    def _forget(self, name: str, *tables: str) -> None:
        own = self.__dict__
        own.pop(name, None)
        for table in tables:
            own[table].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

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
            not own["_forward_pre_hooks"]
            and not own["_forward_hooks"]
            and not own["_backward_hooks"]
            and not own["_backward_pre_hooks"]
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

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

        def forward(*args: Any, **kwargs: Any) -> Any:
            result = self.forward(*args, **kwargs)
            for key, hook in list(self._forward_hooks.items()):
                called.add(key)
                replaced = self._run_forward_hook(key, hook, args, kwargs, result)
                result = result if replaced is None else replaced
            return result

        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            if self._backward_hooks or self._backward_pre_hooks:
                return _backward_hooks.call(self, forward, args, kwargs)
            return forward(*args, **kwargs)
        except Exception:
            # Hooks registered with always_call see a failed forward too, with no result.
            for key, hook in list(self._forward_hooks.items()):
                if key in self._forward_hooks_always_called and key not in called:
                    self._run_forward_hook(key, hook, args, kwargs, None)
            raise

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in list(self._forward_pre_hooks.items()):
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
        if key in self._forward_hooks_with_kwargs:
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


def _typename(value: object) -> str:
    if isinstance(value, Tensor):
        return str(value.type())
    cls = value if isinstance(value, type) else type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _cannot_assign(value: object, role: str, name: str, wanted: str) -> TypeError:
    return TypeError(
        f"cannot assign '{_typename(value)}' as {role} '{name}' ({wanted} or None expected)"
    )
