"""The part of `Module` that takes parameters, buffers and children in, by call or as attributes.

What is taken in passes the hooks of `_global_hooks.py` first. Read next: `module.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint import Tensor
from adjoint.nn.modules import _global_hooks
from adjoint.nn.parameter import Buffer, Parameter, UninitializedTensorMixin

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module


class Registration:
    """Parameters, buffers and children: kept in tables, reached as attributes."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]

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
        if param is not None:
            param = _global_hooks.passed("parameter", self, name, param)
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
        self._buffers[name] = _global_hooks.passed("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module, reachable as an attribute."""
        if module is not None and not isinstance(module, Registration):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_name("module", "_modules", name)
        self._modules[name] = _global_hooks.passed("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _check_new_name(self, kind: str, table: str, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

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
        elif parameters is not None and name in parameters:
            if value is not None:
                raise _cannot_assign(value, "parameter", name, "torch.nn.Parameter or None")
            self.register_parameter(name, value)
        elif isinstance(value, Registration):
            if parameters is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            own["_modules"][name] = _global_hooks.passed("module", self, name, value)
        elif parameters is not None and name in own["_modules"]:
            if value is not None:
                raise _cannot_assign(value, "child module", name, "torch.nn.Module or None")
            own["_modules"][name] = _global_hooks.passed("module", self, name, value)
        elif isinstance(value, Tensor) and isinstance(value, Buffer):
            if parameters is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, persistent=getattr(value, "persistent", True))
        elif parameters is not None and name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                wanted = "torch.nn.Buffer, torch.Tensor or None"
                raise _cannot_assign(value, "buffer", name, wanted)
            own["_buffers"][name] = _global_hooks.passed("buffer", self, name, value)
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


def _typename(value: object) -> str:
    if isinstance(value, Tensor) and not isinstance(value, UninitializedTensorMixin):
        return str(value.type())
    cls = value if isinstance(value, type) else type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _cannot_assign(value: object, role: str, name: str, wanted: str) -> TypeError:
    return TypeError(f"cannot assign '{_typename(value)}' as {role} '{name}' ({wanted} expected)")
