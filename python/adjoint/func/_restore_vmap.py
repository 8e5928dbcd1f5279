"""``restore_vmap``: vmap that leaves alone what no sample differs in, and says which that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor

from ._vmap import _level, broadcast_dims


def restore_vmap(
    func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str
) -> Callable[..., tuple[Any, Any]]:
    """A function that maps ``func`` and returns ``(outputs, out_dims)``.

    Unlike `adjoint.func.vmap` it takes arguments of which none is mapped, and results that are the
    same for all samples get None instead of an axis.

    Parameters
    ----------
    func
        A function of one sample.
    in_dims
        As for ``vmap``: a tuple like the arguments.
    batch_size
        How many samples there are.
    randomness
        As for ``vmap``.
    """

    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        dims = broadcast_dims(in_dims, args)
        if dims is None:
            raise ValueError(
                f"restore_vmap: in_dims {in_dims} does not fit the structure of the arguments"
            )
        leaves, spec = _tree.flatten(args)
        with _level(batch_size, randomness, False) as place:
            level = _core._batch_level((_core._add_batch(_core.zeros(batch_size), 0, place),))
            samples = [
                x if d is None else _core._add_batch(x, d % x.ndim, place)
                for x, d in zip(leaves, dims, strict=True)
            ]
            output = func(*_tree.unflatten(spec, samples), **kwargs)
            results, out_spec = _tree.flatten(output)
            batched = [isinstance(y, Tensor) and _core._size_at(y, level) >= 0 for y in results]
            values = [
                _core._remove_batch(y, 0, place) if b else y
                for y, b in zip(results, batched, strict=True)
            ]
        out_dims = [0 if b else None for b in batched]
        return _tree.unflatten(out_spec, values), _tree.unflatten(out_spec, out_dims)

    return wrapper
