"""Parts of PyTorch that adjoint refuses: importing them is fine, calling them says what to do.

Programs import such modules at their top and use them in one branch; the rest should run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["refused", "refused_class"]


def refused(name: str, why: str, fix: str) -> Callable[..., NoReturn]:
    """A function that raises: `why` it is not there, and what to do instead."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.{name}: {why}.\n  fix: {fix}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Refuse: {why}."
    return function


def refused_class(name: str, why: str, fix: str) -> type[Any]:
    """A class that nothing is an instance of: ``isinstance(x, it)`` is False."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch.{name}: {why}.\n  fix: {fix}")

    return type(name.rpartition(".")[2], (), {"__init__": __init__, "__doc__": f"Refuse: {why}."})
