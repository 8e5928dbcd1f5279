"""`torch.futures`: results that come later; Python's ``concurrent.futures`` is for new code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from adjoint._missing import watch as _watch

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that someone sets, and others wait for.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.futures.Future()
    >>> g = f.then(lambda f: f.value() + 1)
    >>> f.set_result(2)
    >>> g.wait()
    3
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._value: Any = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._set.is_set()

    def wait(self) -> T:
        """The result, as soon as it is there; or its error is raised."""
        self._set.wait()
        return self.value()

    def value(self) -> T:
        """The result; or its error is raised."""
        if not self.done():
            raise RuntimeError("the future has no value yet: wait() for it")
        if self._error is not None:
            raise self._error
        found: T = self._value
        return found

    def set_result(self, result: T) -> None:
        """Set the result; once."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error instead of a result."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once.")
            self._value, self._error = value, error
            self._set.set()
            waiting, self._callbacks = self._callbacks, []
        for callback in waiting:
            self._call(callback)

    def _call(self, callback: Callable[[Future[T]], Any]) -> None:
        # As in PyTorch: whoever sets the result has no part in what others do with it.
        try:
            callback(self)
        except Exception:
            logging.getLogger(__name__).exception("a callback of a future raised")

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call the function with this future when it is done."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of what the function makes of this one."""
        following: Future[Any] = Future()

        def call(done: Future[T]) -> None:
            try:
                value = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(value)

        self.add_done_callback(call)
        return following


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future that is done when all of these are; its value is the list of them."""
    together: Future[list[Future[Any]]] = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_is_done(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            together.set_result(futures)

    if not futures:
        together.set_result(futures)
    for future in futures:
        future.add_done_callback(one_is_done)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all; or the first error is raised."""
    return [future.wait() for future in collect_all(futures).wait()]


_watch(__name__)
