"""Saving a module's parameters and buffers to a dictionary and loading them back."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import adjoint as ad
from adjoint import Tensor
from adjoint import __future__ as future
from adjoint.nn.parameter import Parameter, is_lazy
from adjoint.utils._swapping import swap_tensors
from adjoint.utils.hooks import RemovableHandle, _WrappedHook

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

_EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, "
            f"unexpected_keys={self.unexpected_keys!r})"
        )


class _Loading(NamedTuple):
    """What one `load_state_dict` call collects while it walks the tree."""

    assign: bool
    missing: list[str]
    unexpected: list[str]
    errors: list[str]


class StateDict:
    """The part of `Module` that is saved and loaded."""

    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Return all parameters and persistent buffers under their dotted names.

        Parameters
        ----------
        destination : dict, optional
            Where to add them; a new OrderedDict if not given.
        prefix : str, default ""
            Put before every name.
        keep_vars : bool, default False
            Return the parameters themselves rather than detached tensors sharing their values.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
                "state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
        for name, value in zip(("destination", "prefix", "keep_vars"), args, strict=False):
            if name == "destination":
                destination = value
            elif name == "prefix":
                prefix = value
            else:
                keep_vars = value
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is not None and getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = destination if replaced is None else replaced
        return cast("OrderedDict[str, Any]", destination)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._persistent_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def _persistent_state(self) -> dict[str, Tensor]:
        state: dict[str, Tensor] = {
            name: parameter for name, parameter in self._parameters.items() if parameter is not None
        }
        skip = self._non_persistent_buffers_set
        return state | {
            name: buffer
            for name, buffer in self._buffers.items()
            if buffer is not None and name not in skip
        }

    def get_extra_state(self) -> Any:
        """Return further state to save; override together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    # -- loading ---------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy parameters and buffers from `state_dict` into this module and those below.

        Parameters
        ----------
        state_dict : dict
            What `state_dict()` returned.
        strict : bool, default True
            Whether missing and unexpected names are errors.
        assign : bool, default False
            Use the given tensors themselves instead of copying their values.

        Returns
        -------
        named tuple
            `missing_keys` and `unexpected_keys`.

        Raises
        ------
        RuntimeError
            A shape differs, or with `strict` a name is missing or unexpected; all are listed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            metadata = {path: dict(local) for path, local in metadata.items()}
            state._metadata = metadata  # type: ignore[attr-defined]
        loading = _Loading(assign, [], [], [])
        _load(cast("Module", self), loading, state, metadata, "")
        incompatible = _IncompatibleKeys(loading.missing, loading.unexpected)
        errors = loading.errors
        if strict and loading.unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(loading.unexpected)}. ")
        if strict and loading.missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(loading.missing)}. ")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return incompatible

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module alone; subclasses override it to read older formats."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        own = self._persistent_state()
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                assign = bool(local_metadata.get("assign_to_params_buffers", False))
                error = self._load_entry(name, key, value, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE
        has_extra = type(self).set_extra_state is not StateDict.set_extra_state
        if has_extra and extra_key in state_dict:
            self.set_extra_state(state_dict[extra_key])
        elif has_extra and strict:
            missing_keys.append(extra_key)
        if strict:
            unexpected_keys.extend(
                key
                for key in state_dict
                if key.startswith(prefix) and not self._expects(key[len(prefix) :], own, has_extra)
            )

    def _expects(self, name: str, own: dict[str, Tensor], has_extra: bool) -> bool:
        if name == _EXTRA_STATE:
            return has_extra
        first, dot, _ = name.partition(".")
        # What lies below a child is that child's business.
        return first in self._modules if dot else name in own

    def _load_entry(
        self, name: str, key: str, current: Tensor, given: Any, assign: bool
    ) -> str | None:
        if not isinstance(given, Tensor) and not hasattr(type(given), "__torch_function__"):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
        if not is_lazy(current):  # which has no shape to compare yet
            if current.dim() == 0 and given.dim() == 1 and given.numel() == 1:
                given = given[0]  # files written before 0-d tensors existed
            if tuple(given.shape) != tuple(current.shape):
                return (
                    f"size mismatch for {key}: copying a param with shape {given.shape} from "
                    f"checkpoint, the shape in current model is {current.shape}."
                )
        if current.is_meta and not given.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding key "
                "in the module instead of copying them in place?)",
                stacklevel=2,
            )
        swap = future.get_swap_module_params_on_conversion()
        try:
            with ad.no_grad():
                if swap:
                    _swap_in(current, given, assign)
                elif assign:
                    setattr(self, name, _as_kind(current, given))
                else:
                    current.copy_(given)
        except Exception as error:
            return (
                f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose '
                f"dimensions in the model are {current.size()} and whose dimensions in the "
                f"checkpoint are {given.size()}, an exception occurred : {error.args}."
            )
        return None

    # -- hooks -----------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after saving; it returns None."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before saving."""
        return _register(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, ...)` before loading this module."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _WrappedHook(hook, self if with_module else None)
        return _register(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading."""
        return _register(self._load_state_dict_post_hooks, hook)


def _load(
    module: Module, loading: _Loading, state: dict[str, Any], metadata: Any, prefix: str
) -> None:
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if loading.assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(
        state, prefix, local, True, loading.missing, loading.unexpected, loading.errors
    )
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {key: value for key, value in state.items() if key.startswith(below)}
            _load(child, loading, part, metadata, below)
    incompatible = _IncompatibleKeys(loading.missing, loading.unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _as_kind(current: Tensor, given: Any) -> Any:
    """``given`` as a parameter, with the same flag, if the current value is one."""
    if not isinstance(current, Parameter):
        return given
    if not isinstance(given, Parameter):
        return Parameter(given, requires_grad=current.requires_grad)
    return given.requires_grad_(current.requires_grad)


def _swap_in(current: Tensor, given: Any, assign: bool) -> None:
    """Exchange the contents of the current tensor for the given ones; it stays the same object."""
    new = current.module_load(given, assign=assign)
    if new is given or new is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    swap_tensors(current, _as_kind(current, new))


def _register(table: OrderedDict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
