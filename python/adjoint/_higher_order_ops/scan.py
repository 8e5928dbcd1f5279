"""PyTorch's address and form of `adjoint.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _tree, loops

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run a function over the rows along an axis of its inputs: see `adjoint.scan`.

    The outputs are stacked along the same axis.
    """
    carry, ys = loops.scan(combine_fn, init, _moved(xs, dim, 0), reverse=reverse)
    return carry, _moved(ys, 0, dim)


def _moved(tree: Any, source: int, to: int) -> Any:
    leaves, spec = _tree.flatten(tree)
    return _tree.unflatten(spec, [x if x is None else x.movedim(source, to) for x in leaves])
