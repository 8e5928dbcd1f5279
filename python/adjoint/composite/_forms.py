"""What `allclose`, `clone`, `flatten`, `ravel` and `unflatten` do with composites.

The native functions call these when their first argument is not a tensor
(`adjoint._tensor.composite_forms`). A
form that returns NotImplemented leaves the error of the native function as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

from . import _ravel
from ._agreement import check_shape, leaves_of_same
from ._structure import Structure, apply, hides_tensors, put_together, take_apart

__all__ = ["allclose", "clone", "flatten", "ravel", "unflatten"]


def _is_ours(input: Any) -> bool:
    """Whether composites have an answer: a result, or how to make a class one."""
    return _tree.is_structure(input) or hides_tensors(input)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy of each tensor, recorded; a tensor that stands twice is copied once."""
    if not _is_ours(input):
        return NotImplemented
    tensors, structure = take_apart(input, "clone")
    if memory_format is None:
        return put_together(structure, apply(Tensor.clone, tensors))
    copies = apply(lambda t: t.clone(memory_format=memory_format), tensors)
    return put_together(structure, copies)


def flatten(input: Any, *wrong: Any, **also: Any) -> Any:
    """The tensors of a composite as a list, and its `Structure`."""
    if not _is_ours(input):
        return NotImplemented
    if wrong or also:
        raise TypeError(
            "flatten(): start_dim and end_dim are for tensors; a composite is taken apart into "
            "the list of its tensors (ravel makes one vector of it)"
        )
    return take_apart(input, "flatten")


def unflatten(input: Any, leaves: Any = None, *wrong: Any, **also: Any) -> Any:
    """The composite of a `Structure` and as many tensors (or other values)."""
    if not isinstance(input, Structure) or wrong or also:
        return NotImplemented
    if not isinstance(leaves, Iterable):
        raise TypeError(f"unflatten(): expected a sequence of tensors, not {type(leaves).__name__}")
    values = list(leaves)
    if len(values) != input.num_tensors:
        raise ValueError(
            f"unflatten(): the structure has {input.num_tensors} tensors, got {len(values)}"
        )
    return put_together(input, values)


def ravel(input: Any) -> Any:
    """The elements of a composite as one vector, and the function that turns it back."""
    return _ravel.ravel(input) if _is_ours(input) else NotImplemented


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether all tensors of two composites, which must agree in structure, are close."""
    if not _is_ours(input):
        return NotImplemented
    tensors, structure = take_apart(input, "allclose")
    others = leaves_of_same(structure, other, "allclose")
    check_shape(structure, tensors, others, "allclose", every=True)
    for i, (a, b) in enumerate(zip(tensors, others, strict=True)):
        if a.dtype != b.dtype:
            where = structure.paths()[i]
            raise RuntimeError(f"allclose(): {where}: expected {a.dtype}, got {b.dtype}")
    pairs = zip(tensors, others, strict=True)
    return all(a.allclose(b, rtol, atol, equal_nan) for a, b in pairs)
