"""Running the user's function as if nothing were under way around it.

The function of an external may use adjoint itself: to solve for something by gradients of its own,
say. The transforms, autocast, `no_grad` and hooks around it are not meant for that: it records, as
it would if it were called by itself, whether it runs forward or for a derivative. A checkpoint that
has to run again inside a map, which it was not in, does so apart from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint import _core
from adjoint._transforming import inside_transform, outside_transforms

__all__ = ["call_apart"]


def call_apart(
    function: Callable[..., Any], args: Iterable[Any], kwargs: dict[str, Any] | None = None
) -> Any:
    """Call a function that takes no part in the transforms around it."""
    if not inside_transform():
        return _core._call_apart(function, tuple(args), kwargs or None)
    with outside_transforms:
        return _core._call_apart(function, tuple(args), kwargs or None)
