"""Whether composites that must agree do, and the first place where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

from ._structure import Structure, same

__all__ = ["check_shape", "leaves_of_same"]


def leaves_of_same(structure: Structure[Any], tree: Any, function: str) -> list[Any]:
    """What ``tree`` has in the places of the tensors of another composite.

    ``tree`` must be built from the same containers and hold the same values beside the tensors.

    Raises
    ------
    ValueError
        It is built otherwise; the message names the first place.
    """
    short = _tree.flat_object(tree)
    if short is not None and short[1] is structure.flat:
        return list(short[0])
    leaves, spec = _tree.flatten(tree)
    if spec != structure.spec:
        _find_difference(structure.spec, tree, structure.root, function)
    if structure.places is None or structure.leaves is None:
        return leaves
    wanted = set(structure.places)
    for i, (ours, theirs) in enumerate(zip(structure.leaves, leaves, strict=True)):
        if i not in wanted and not same(ours, theirs):
            where = _tree.paths(spec, structure.root)[i]
            raise ValueError(
                f"{function}(): {where}: expected {_tree.kind_of(ours)}, "
                f"got {_tree.kind_of(theirs)}"
            )
    return [leaves[i] for i in structure.places]


def _find_difference(spec: _tree.Spec, tree: Any, root: str, function: str) -> None:
    """Raise a ValueError for the first place where ``tree`` is not built as ``spec`` says."""
    if spec.is_leaf():
        if _tree.is_structure(tree):
            raise ValueError(f"{function}(): {root}: expected a tensor, got {_tree.kind_of(tree)}")
        return
    try:
        _tree.check_level(spec, tree, root)
    except ValueError as error:
        raise ValueError(f"{function}(): {error}") from None
    parts, entries = _tree.children(tree)
    for one, part, entry in zip(spec.children(), parts, entries, strict=True):
        _find_difference(one, part, root + _tree.step(type(tree), entry), function)
    if _tree.flatten(tree)[1] != spec and not any(map(_tree.is_structure, parts)):
        raise ValueError(f"{function}(): {root}: the metadata of the two {spec.type} differ")


def check_shape(
    structure: Structure[Any],
    tensors: Sequence[Tensor],
    others: Sequence[Any],
    function: str,
    every: bool = False,
) -> None:
    """Refuse others that are not tensors, or have other shapes; nothing is broadcast.

    Integer and boolean tensors, which are not vectors, are passed over unless ``every``.
    """
    for i, (ours, theirs) in enumerate(zip(tensors, others, strict=True)):
        if isinstance(theirs, Tensor) and theirs.shape == ours.shape:
            continue
        if not (every or ours.is_floating_point() or ours.is_complex()):
            continue
        got = list(theirs.shape) if isinstance(theirs, Tensor) else _tree.kind_of(theirs)
        where = structure.paths()[i]
        raise ValueError(f"{function}(): {where}: expected {list(ours.shape)}, got {got}")
