"""PyTorch's address and form of a scan in any order: all running sums, products, ... at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["associative_scan"]

Rows = list[Tensor]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Combine the rows along an axis up to each of them, by a function whose order is free.

    Neighbours are combined first, then the results, in as many rounds as the length can be halved:
    ``combine_fn`` is called with many rows at once.

    Parameters
    ----------
    combine_fn
        Takes two rows (structures of tensors) and returns one, associatively.
    xs
        Inputs, stacked along `dim`: a tensor or a structure of tensors.
    dim
        The axis.
    reverse
        Go from the last row to the first.
    combine_mode
        "pointwise": the function works element by element. "generic": it is given single rows.

    Returns
    -------
    A structure as `xs`, whose row k is the combination of the rows up to k.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, ad.arange(1.0, 5.0), dim=0)
    tensor([ 1.,  2.,  6., 24.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f'combine_mode is "pointwise" or "generic", not {combine_mode!r}')
    leaves, spec = _tree.flatten(xs)
    if not leaves:
        raise ValueError("associative_scan(): there are no inputs; fix: pass at least one tensor")
    rows = [x.movedim(dim, 0) for x in leaves]
    if len({len(x) for x in rows}) > 1:
        sizes = [len(x) for x in rows]
        raise ValueError(f"associative_scan(): inputs have different sizes along {dim}: {sizes}")
    called = combine_fn if combine_mode == "pointwise" else ad.vmap(combine_fn)

    def combine(first: Rows, second: Rows) -> Rows:
        made = called(_tree.unflatten(spec, first), _tree.unflatten(spec, second))
        found, made_spec = _tree.flatten(made)
        if made_spec != spec:
            raise ValueError(
                f"combine_fn returned the structure {made_spec}, not that of its inputs, {spec}"
            )
        return found

    if reverse:
        rows = [x.flip(0) for x in rows]
    found = _running(combine, rows)
    if reverse:
        found = [x.flip(0) for x in found]
    return _tree.unflatten(spec, [x.movedim(0, dim) for x in found])


def _running(combine: Callable[[Rows, Rows], Rows], rows: Rows) -> Rows:
    count = len(rows[0])
    if count < 2:
        return rows
    pairs = combine([x[:-1:2] for x in rows], [x[1::2] for x in rows])
    odd = _running(combine, pairs)  # at 1, 3, 5, ...
    if count == 2:
        return [_in_turn(x[:1], o) for x, o in zip(rows, odd, strict=True)]
    before = [o[: (count - 1) // 2] for o in odd]
    even = combine(before, [x[2::2] for x in rows])
    return [_in_turn(ad.cat([x[:1], e]), o) for x, e, o in zip(rows, even, odd, strict=True)]


def _in_turn(even: Tensor, odd: Tensor) -> Tensor:
    both = ad.stack([even[: len(odd)], odd], 1).flatten(0, 1)
    rest: Sequence[Tensor] = [even[len(odd) :]] if len(even) > len(odd) else []
    return ad.cat([both, *rest])
