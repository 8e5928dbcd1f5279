"""The plain loop that `scan` is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad


def same(a: Any, b: Any) -> bool:
    """Whether two tensors are the same to the last bit."""
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def plain(
    step: Callable[..., Any],
    carry: Any,
    xs: Any,
    length: int = 0,
    reverse: bool = False,
    **memory: Any,
) -> tuple[Any, Any]:
    """`scan` as Python, whatever it would keep in memory."""
    ys = []
    places = range(length or len(xs))
    for t in reversed(places) if reverse else places:
        carry, y = step(carry, None if xs is None else xs[t])
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, None if ys[0] is None else ad.stack(ys)
