"""Parameters that are functions of others: what a module computes with passes a module first.

`register_parametrization` moves the parameter ``weight`` to ``parametrizations.weight.original``,
gives the module a class of its own, and makes ``weight`` a property of that class that computes it.
Read next: `parametrizations.py`, the ready ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import __future__ as future
from adjoint.nn.modules.container import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.utils._swapping import swap_tensors

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# How many `cached()` blocks are open, and what was computed inside them.
_cache_enabled = 0
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside the ``with`` block.

    For models that use a parameter many times between two updates, such as a recurrent one.
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, X: Tensor) -> None:
    if isinstance(X, Parameter):
        module.register_parameter(name, X)
    else:
        module.register_buffer(name, X)


def _maybe_set(dest: Tensor, src: Tensor) -> None:
    """Give one tensor the values, shape and memory of another; it stays the same object."""
    if future.get_swap_module_params_on_conversion():
        if isinstance(dest, Parameter) and not isinstance(src, Parameter):
            src = Parameter(src, requires_grad=dest.requires_grad)
        swap_tensors(dest, src)
    elif dest is not src:
        dest.set_(src)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and what they are applied to.

    Parameters
    ----------
    modules : sequence of Module
        The parametrizations.
    original : Tensor
        The tensor; what the `right_inverse` methods make of it is kept.
    unsafe : bool, default False
        Whether shape and dtype of the result may differ from the tensor's.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with ad.no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            _check_result(self(), shape, dtype)

    def _keep_one(self, original: Tensor, new: Tensor) -> None:
        if original.dtype != new.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\n"
                f"right_inverse(original).dtype: {new.dtype}"
            )
        # The same object, so that an optimizer that holds it goes on with it.
        with ad.no_grad():
            _maybe_set(original, new)
        _register_parameter_or_buffer(self, "original", original)

    def _keep_several(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", part)

    def right_inverse(self, value: Tensor) -> None:
        """Set the original so that the parametrized tensor becomes ``value``.

        Raises
        ------
        RuntimeError
            A parametrization has no `right_inverse`.
        """
        with ad.no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            if self.is_tensor:
                self._set_one(new)
            else:
                self._set_several(new)

    def _set_one(self, new: Any) -> None:
        if not isinstance(new, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
        if new.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {new.dtype} "
                f"while `original` has dtype {self.original.dtype}"
            )
        _maybe_set(self.original, new)

    def _set_several(self, new: Any) -> None:
        if not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}."
            )
        if len(new) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(new)}."
            )
        for i, part in enumerate(new):
            original = getattr(self, f"original{i}")
            if not isinstance(part, Tensor):
                raise ValueError(
                    "`right_inverse` must return a sequence of tensors. "
                    f"Got element {i} of type {type(part).__name__}"
                )
            if original.dtype != part.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} "
                    f"while `original{i}` has dtype {original.dtype}"
                )
            _maybe_set(original, part)

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *rest = self
        if self.is_tensor:
            value: Tensor = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            value = module(value)
        return value


def _check_result(value: Any, shape: Any, dtype: ad.dtype) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    if value.dtype != dtype:
        raise ValueError(
            "Registering a parametrization may not change the dtype of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\n"
            f"parametrized dtype: {value.dtype}"
        )
    if value.shape != shape:
        raise ValueError(
            "Registering a parametrization may not change the shape of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\n"
            f"parametrized shape: {value.shape}"
        )


# -- the class of a parametrized module ----------------------------------------------------------


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopied(self: Module, memo: dict[int, Any]) -> Module:
    # Pickling is refused, so the usual way by __getstate__ is closed.
    done: Module | None = memo.get(id(self))
    if done is not None:
        return done
    replica = self.__new__(self.__class__)
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return replica


def _inject_new_class(module: Module) -> None:
    """Give the module a class of its own, for properties that no other module has."""
    cls = type(module)
    own: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(cls, "__deepcopy__"):
        own["__deepcopy__"] = _deepcopied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), own)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Make the attribute compute the parametrized tensor."""

    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            value: Tensor = parametrization()
            return value
        key = (id(self), tensor_name)
        kept = _cache.get(key)
        if kept is None:
            kept = _cache[key] = parametrization()
        return kept

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, put))


# -- the public functions ------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module from another tensor, each time it is read.

    Parameters
    ----------
    module : Module
        The module.
    tensor_name : str
        The name of the parameter or buffer.
    parametrization : Module
        Called with the original tensor. If it has a `right_inverse`, that turns the tensor as it is
        now into the original, and assigning to the attribute is possible.
    unsafe : bool, default False
        Whether shape and dtype of the tensor may change.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils import parametrize
    >>> class Symmetric(ad.nn.Module):
    ...     def forward(self, X):
    ...         return X.triu() + X.triu(1).mT
    >>> layer = parametrize.register_parametrization(ad.nn.Linear(3, 3), "weight", Symmetric())
    >>> ad.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        listed: Any = module.parametrizations[tensor_name]
        listed.append(parametrization)
        listed.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_further(module: Module, tensor_name: str, parametrization: Any) -> None:
    """What a parametrization must keep to that comes after others."""
    now = getattr(module, tensor_name)
    value = parametrization(now)
    _check_result(value, now.shape, now.dtype)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(now, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{tensor_name}.\nmodule.{tensor_name}.{what}: {getattr(now, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrization, or one of the tensor of the given name."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor an ordinary parameter or buffer again.

    Parameters
    ----------
    module : Module
        The module.
    tensor_name : str
        The name of the tensor.
    leave_parametrized : bool, default True
        Whether it keeps the value that was computed last, rather than that of the original.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with ad.no_grad():
                # The same object: an optimizer may hold it.
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class a module had before its first parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Move the parametrizations of a module, with their parameters, to another; return that.

    Parameters
    ----------
    from_module, to_module : Module
        From where, and to where.
    tensor_name : str, optional
        Only those of this tensor.
    """
    if not is_parametrized(from_module):
        return to_module
    parametrizations: Any = from_module.parametrizations
    names = parametrizations if tensor_name is None else [tensor_name]
    for name in list(names):
        listed = parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in listed:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations
        if hasattr(listed, "original"):
            target[name].original = listed.original
        else:
            for i in range(listed.ntensors):
                setattr(target[name], f"original{i}", getattr(listed, f"original{i}"))
    return to_module
