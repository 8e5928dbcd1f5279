"""`torch.overrides`: classes and modes that are asked before functions run on tensors.

A class with ``__torch_function__`` is asked natively (``src/bindings/tensor/subclass.cpp``); these
are the tools around it that programs use.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]

_NAMESPACES = ("", "nn.functional", "nn.init", "linalg", "fft", "special")
# Functions that make tensors from something else, or look at none.
_IGNORED = (
    "arange as_strided as_tensor asarray can_cast compile empty empty_strided enable_grad eye "
    "from_dlpack from_numpy frombuffer full get_default_dtype inference_mode initial_seed "
    "is_grad_enabled is_storage is_tensor linspace load logspace manual_seed meshgrid no_grad ones "
    "promote_types rand randint randn randperm save seed set_default_dtype set_grad_enabled "
    "set_printoptions sparse_coo_tensor tensor typename vmap zeros"
)


# -- who is asked -------------------------------------------------------------------------------


def _asks(value: Any) -> bool:
    kind = type(value)
    handler = getattr(kind, "__torch_function__", None)
    return (
        kind is not ad.Tensor
        and handler is not None
        and handler is not _core._disabled_torch_function_impl
    )


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether the class of an argument, or a mode, wants to be asked."""
    return any(_asks(value) for value in relevant_args) or bool(_core._function_modes())


def has_torch_function_unary(value: Any) -> bool:
    """The same for one argument."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """The same for several arguments."""
    return has_torch_function(values)


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or its class answers for one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.overrides.is_tensor_like(ad.ones(2)), ad.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return type(inp) is ad.Tensor or hasattr(inp, "__torch_function__")


def _in_order(relevant_args: Iterable[Any]) -> list[Any]:
    """One argument of each class, subclasses first, otherwise as they stand."""
    found: list[Any] = []
    for value in relevant_args:
        if not _asks(value) or any(type(value) is type(other) for other in found):
            continue
        place = next(
            (i for i, other in enumerate(found) if issubclass(type(value), type(other))), None
        )
        found.insert(len(found) if place is None else place, value)
    return found


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let modes and classes of the arguments run a function their way.

    Parameters
    ----------
    public_api
        The function, as the program called it.
    relevant_args
        The arguments whose classes are asked.
    """
    found = _in_order(relevant_args)
    types = tuple(map(type, found))
    modes = _core._function_modes()
    if modes:
        mode = modes.pop()
        try:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            modes.append(mode)
        if result is not NotImplemented:
            return result
    for value in found:
        result = type(value).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(public_api, '__module__', '?')}.{getattr(public_api, '__name__', public_api)}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{[type(value) for value in found]}"
    )


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the function asks the arguments that `dispatcher` returns."""

    def inner(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return inner


# -- modes ----------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A ``with`` block in which every function on tensors comes by ``__torch_function__``.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Count(ad.overrides.TorchFunctionMode):
    ...     seen = 0
    ...
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.seen += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     y = ad.ones(2).exp() + 1
    >>> count.seen
    3
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError("a mode defines __torch_function__")

    def __enter__(self) -> Any:
        _core._function_modes().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _core._function_modes().pop()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance: PyTorch's older spelling."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def enable_reentrant_dispatch() -> Any:
    """Nothing: handlers may always call functions again."""
    yield


def redispatch_function(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The function itself on plain tensors."""
    before = _core._plain_tensors(True)
    try:
        return func(*args, **kwargs)
    finally:
        _core._plain_tensors(before)


# -- lists of functions ---------------------------------------------------------------------------


@functools.cache
def get_ignored_functions() -> set[Any]:
    """Functions that ask nobody."""
    names = _IGNORED.split()
    return {getattr(ad, name) for name in names if hasattr(ad, name)}


def get_default_nowrap_functions() -> set[Any]:
    """Attributes whose results keep the class of a plain tensor."""
    fields: Any = ad.Tensor
    return {fields._base.__get__, fields.grad.__get__, fields._grad.__get__}


def _place(address: str) -> ModuleType:
    place: Any = ad
    for part in filter(None, address.split(".")):
        place = getattr(place, part)
    return place  # type: ignore[no-any-return]


@functools.cache
def get_overridable_functions() -> dict[Any, list[Any]]:
    """Functions that ask, by the module or class that they belong to."""
    ignored = get_ignored_functions()
    found: dict[Any, list[Any]] = {}
    for address in _NAMESPACES:
        place = _place(address)
        found[place] = [
            value
            for name in dir(place)
            if not name.startswith("_")
            and callable(value := getattr(place, name))
            and not isinstance(value, type)
            and value not in ignored
        ]
    found[ad.Tensor] = [
        value
        for name in dir(ad.Tensor)
        if callable(value := getattr(ad.Tensor, name, None)) and not isinstance(value, type)
    ]
    return found


@functools.cache
def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """A stand-in for each function that asks: it takes the same arguments and returns -1."""
    found: dict[Any, Callable[..., Any]] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _stand_in(function)
    return found


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    with suppress(TypeError, ValueError):
        stand_in.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return stand_in


@functools.cache
def _names() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name in dir(ad.Tensor):
        value = getattr(ad.Tensor, name, None)
        if callable(value):
            found.setdefault(value, f"torch.Tensor.{name}")
        getter = getattr(value, "__get__", None)
        if getter is not None and not callable(value):
            found.setdefault(getter, f"torch.Tensor.{name}.__get__")
    for address in _NAMESPACES:
        place = _place(address)
        root = ".".join(filter(None, ("torch", address)))
        for name in dir(place):
            if not name.startswith("_") and callable(value := getattr(place, name, None)):
                try:
                    found.setdefault(value, f"{root}.{name}")
                except TypeError:  # not hashable
                    continue
    return found


def resolve_name(f: Any) -> str | None:
    """The name that a function is known by, or None.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.overrides.resolve_name(ad.nn.functional.mse_loss)
    'torch.nn.functional.mse_loss'
    """
    if isinstance(f, str):
        return f
    return _names().get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of tensors, or reads an attribute of theirs."""
    return func in _tensor_methods() or getattr(func, "__name__", "") == "__get__"


@functools.cache
def _tensor_methods() -> set[Any]:
    return {f for name, f in vars(ad.Tensor).items() if callable(f) and not isinstance(f, type)}


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)


_watch(__name__)
