"""Switching recording on and off: context managers that are decorators too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from adjoint import _core

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """Sets grad mode on entry and back on exit; decorates functions, generators, coroutines."""

    _value: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def clone(self) -> _Mode:
        """A fresh context with the same setting."""
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(_core.is_grad_enabled())
        _core._set_grad_enabled(self._value)

    def __exit__(self, *exc: object) -> None:
        _core._set_grad_enabled(self._before.pop())

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            raise TypeError(
                f"{type(self).__name__} decorates functions; decorate the methods of "
                f"{function.__name__} instead of the class"
            )
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)  # type: ignore[return-value]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return await function(*args, **kwargs)

            return coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _wrap_generator(mode: _Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    """The mode holds while the generator runs, not while its caller does."""

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
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

    return generator


class no_grad(_Mode):
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

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once when used as ``@name`` without parentheses."""
        mode = super().__new__(cls)
        if orig_func is None:
            return mode
        _Mode.__init__(mode)
        return mode(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        super().__init__()


class enable_grad(_Mode):
    """Operations are recorded, also inside `no_grad`."""

    _value = True

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once when used as ``@name`` without parentheses."""
        mode = super().__new__(cls)
        if orig_func is None:
            return mode
        _Mode.__init__(mode)
        return mode(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        super().__init__()


class set_grad_enabled(_Mode):
    """Sets recording at once; as a context manager, puts it back at the end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._value = bool(mode)
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
    """Like `no_grad`, for code that never needs gradients."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode

    def __new__(cls, mode: Any = True) -> Any:
        """Decorate at once when used as ``@inference_mode`` without parentheses."""
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    @property
    def _value(self) -> bool:  # type: ignore[override]
        return _core.is_grad_enabled() and not self._mode

    def clone(self) -> _Mode:
        """A fresh context with the same setting."""
        return type(self)(self._mode)
