"""Arguments that are tensors, arrays or numbers, and not structures of them."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_structures"]


def refuse_structures(name: str, *things: Any) -> None:
    """Raise for what no tensor can be made of, in the words of the function that was called."""
    for thing in things:
        if isinstance(thing, (dict, set, str)) or thing is None or callable(thing):
            raise TypeError(
                f"{name}(): expected a tensor, an array or numbers, got {type(thing).__name__}"
            )
