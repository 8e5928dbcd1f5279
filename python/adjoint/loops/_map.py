"""`map`: a function on each row of its inputs, recorded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._scan import scan

__all__ = ["map"]


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Call a function with each row of its inputs, one after the other.

    As `vmap`, but with the memory of one row at a time, and for functions that cannot be batched.

    Parameters
    ----------
    f
        Takes a row of `xs`, and returns tensors.
    xs
        Inputs stacked along their first axis: a tensor or a structure of tensors.

    Returns
    -------
    The results, stacked.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.loops.map(lambda row: row.sum(), ad.ones(3, 4))
    tensor([4., 4., 4.])
    """

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, f(x)

    return scan(step, (), xs)[1]
