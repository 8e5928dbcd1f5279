"""Switching recording on and off: context managers that are decorators too."""

from __future__ import annotations

import functools
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar

from adjoint import _core
from adjoint._tensor.arguments import require_flag

F = TypeVar("F", bound=Callable[..., Any])


# What `inspect` would be asked for; importing it costs as much as the rest of this package.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def _code_flags(function: Any) -> int:
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return int(getattr(code, "co_flags", 0))


class _Mode:
    """Sets a mode on entry and back on exit; decorates functions of every kind."""

    _value: bool

    def __init__(self) -> None:
        self._before: list[Any] = []

    def clone(self) -> _Mode:
        """A fresh context with the same setting."""
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(_core.is_grad_enabled())
        _core._set_grad_enabled(self._value)

    def __exit__(self, *exc: object) -> None:
        _core._set_grad_enabled(self._before.pop())

    def __call__(self, function: F) -> F:
        """Decorate a function, a generator, a coroutine or an asynchronous generator."""
        if isinstance(function, type):
            return _decorate_class(self, function)  # type: ignore[no-any-return]
        wrap = _wrap_function
        flags = _code_flags(function)
        if flags & _GENERATOR:
            wrap = _wrap_generator
        elif flags & _COROUTINE:
            wrap = _wrap_coroutine
        elif flags & _ASYNC_GENERATOR:
            wrap = _wrap_async_generator
        return wrap(self, function)  # type: ignore[return-value]


def _decorate_class(mode: _Mode, cls: Any) -> Any:
    warnings.warn(
        "Decorating classes is deprecated and will be disabled in future versions. You should only "
        "decorate functions or methods. To preserve the current behavior of class decoration, you "
        "can directly decorate the `__init__` method and nothing else.",
        FutureWarning,
        stacklevel=3,
    )
    cls.__init__ = _wrap_function(mode, cls.__init__)
    return cls


def _wrap_function(mode: _Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode.clone():
            return function(*args, **kwargs)

    return wrapped


def _drive(mode: _Mode, inner: Any) -> Generator[Any, Any, Any]:
    """Run a generator (or what a coroutine awaits): in the mode while it runs, not in between."""
    try:
        with mode.clone():
            item = next(inner)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                with mode.clone():
                    inner.close()
                raise
            except BaseException as error:
                with mode.clone():
                    item = inner.throw(error)
            else:
                with mode.clone():
                    item = inner.send(sent)
    except StopIteration as stop:
        return stop.value


def _wrap_generator(mode: _Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _drive(mode, function(*args, **kwargs)))

    return generator


class _Driven:
    """An awaitable in a mode: other tasks that run meanwhile do not see it."""

    def __init__(self, mode: _Mode, awaitable: Any) -> None:
        self._mode = mode
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from _drive(self._mode, self._awaitable.__await__()))


def _wrap_coroutine(mode: _Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _Driven(mode, function(*args, **kwargs))

    return coroutine


def _wrap_async_generator(mode: _Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        try:
            item = await _Driven(mode, inner.asend(None))
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await _Driven(mode, inner.aclose())
                    raise
                except BaseException as error:
                    item = await _Driven(mode, inner.athrow(error))
                else:
                    item = await _Driven(mode, inner.asend(sent))
        except StopAsyncIteration:
            return

    return generator


class _BareMode(_Mode):
    """A mode that decorates with or without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once when used as ``@name`` without parentheses."""
        mode = super().__new__(cls)
        if orig_func is None:
            return mode
        _Mode.__init__(mode)
        return mode(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        super().__init__()


class no_grad(_BareMode):
    """Operations are not recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(1.0, requires_grad=True)
    >>> with ad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _value = False


class enable_grad(_BareMode):
    """Operations are recorded, also inside `no_grad`."""

    _value = True


class set_grad_enabled(_Mode):
    """Sets recording at once; as a context manager, puts it back at the end."""

    def __init__(self, mode: bool) -> None:
        require_flag("set_grad_enabled", "mode", 1, mode)
        super().__init__()
        self._value = mode
        self._at_creation = _core.is_grad_enabled()
        _core._set_grad_enabled(self._value)

    def clone(self) -> _Mode:
        """A fresh context with the same setting."""
        return type(self)(self._value)

    def __enter__(self) -> None:
        self._before.append(self._at_creation)
        _core._set_grad_enabled(self._value)

    def __call__(self, function: F) -> F:
        """Decorate: the setting holds in the function only, so what it was is put back now."""
        _core._set_grad_enabled(self._at_creation)
        return super().__call__(function)


class inference_mode(_Mode):
    """Like `no_grad`, and results can never take part in a graph.

    Tensors made inside are inference tensors: they have no version counter, cannot be saved for
    backward and cannot be changed in place outside. Tensors made before keep all of that; views of
    them made inside may not be changed in place outside.

    Parameters
    ----------
    mode
        False turns it off again, and recording on, inside a block where it is on.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     y = ad.ones(2) * 2
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Decorate at once when used as ``@inference_mode`` without parentheses."""
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode

    def clone(self) -> _Mode:
        """A fresh context with the same setting."""
        return type(self)(self._mode)

    def __enter__(self) -> None:
        self._before.append((_core.is_grad_enabled(), _core._set_inference_mode(self._mode)))
        _core._set_grad_enabled(not self._mode)

    def __exit__(self, *exc: object) -> None:
        grad, inference = self._before.pop()
        _core._set_inference_mode(inference)
        _core._set_grad_enabled(grad)
