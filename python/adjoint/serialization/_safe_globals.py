"""What a program allows its files to name: `add_safe_globals` and its like.

`load` makes data and nothing else unless it is told ``weights_only=False``. A class or a function
that is given here may be used too: what it does when an object is made is the caller's choice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjoint.serialization._torch_places import place_in_torch

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

Global = Callable[..., Any] | tuple[Callable[..., Any], str]
# Never, whatever is given: they are not for data.
BLOCKED = ("sys", "os", "posix", "nt")
_given: set[Global] = set()


def add_safe_globals(safe_globals: Sequence[Global]) -> None:
    """Allow files to use these classes and functions, also with ``weights_only=True``.

    Parameters
    ----------
    safe_globals : list
        Classes and functions, or pairs of one and the name that files have for it
        (``"module.name"``).

    Examples
    --------
    >>> import adjoint as ad
    >>> class Config:
    ...     pass
    >>> ad.serialization.add_safe_globals([Config])
    >>> Config in ad.serialization.get_safe_globals()
    True
    >>> ad.serialization.clear_safe_globals()
    """
    global _given
    _given = _given | set(safe_globals)


def get_safe_globals() -> list[Global]:
    """What was given to `add_safe_globals`."""
    return list(_given)


def clear_safe_globals() -> None:
    """Forget what was given to `add_safe_globals`."""
    global _given
    _given = set()


class safe_globals(contextlib.ContextDecorator):
    """Allow files to use these classes and functions inside a ``with`` block.

    Parameters
    ----------
    safe_globals : list
        As for `add_safe_globals`.
    """

    def __init__(self, safe_globals: Sequence[Global]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *_: object) -> None:
        global _given
        _given = _given - set(self.safe_globals)


def allowed(classes: Iterable[type] = ()) -> dict[tuple[str, str], Any]:
    """What files may use, by module and name: what was given, and these classes.

    Raises
    ------
    ValueError, TypeError
        A pair that was given has other parts.
    """
    found: dict[tuple[str, str], Any] = {}
    for given in (*_given, *classes):
        if isinstance(given, tuple):
            what, path = _checked(given)
            module, _, name = path.rpartition(".")
            found[module, name] = what
        else:
            module, name = given.__module__, given.__qualname__
            found[module, name] = given
            found[place_in_torch(module, name) or (module, name)] = given
    return found


def _checked(given: tuple[Any, ...]) -> tuple[Any, str]:
    if len(given) != 2:
        raise ValueError(
            "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
            f"length: {len(given)}"
        )
    if type(given[1]) is not str:
        raise TypeError(
            "Expected second item in tuple to be str of callable full path, but got: "
            f"{type(given[1])}"
        )
    return given[0], given[1]
