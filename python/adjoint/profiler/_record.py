"""Named ranges of a program, as events of a profile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint import _core

F = TypeVar("F", bound=Callable[..., Any])


class record_function:
    """A range of a program, by name: a context manager and a decorator.

    Parameters
    ----------
    name
        What the profile calls it.
    args
        More text for the trace, if any.

    Notes
    -----
    Without a profile that is running it does nothing.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3)
    >>> with ad.profiler.profile() as prof:
    ...     with ad.profiler.record_function("two lines"):
    ...         y = x.exp()
    ...         z = y + x
    >>> [event.name for event in prof.events()]
    ['two lines', 'aten::exp', 'aten::add']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self._event = -1

    def __enter__(self) -> record_function:
        self._event = _core._profile_begin(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        _core._profile_end(self._event)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named  # type: ignore[return-value]
