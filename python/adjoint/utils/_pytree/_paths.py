"""Where leaves stand in a tree: the keys on the way to each, and maps that are told them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import optree

from adjoint._tree import PLAIN
from adjoint._tree_classes import KeyEntry

from ._spec import TreeSpec, shown
from ._trees import IsLeaf

KeyPath = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A step into a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What is there."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True, slots=True)
class MappingKey:
    """A step into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What is there."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What is there."""
        return getattr(obj, self.name)


def keystr(kp: Iterable[Any]) -> str:
    """The path as Python writes it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What stands at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _key(entry: optree.PyTreeEntry) -> Any:
    """A step as PyTorch writes it."""
    if isinstance(entry, KeyEntry):
        return entry.entry
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.GetAttrEntry):
        return GetAttrKey(entry.name)
    if isinstance(entry, optree.MappingEntry):
        return MappingKey(entry.key)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.index)
    raise ValueError(
        f"Did not find a flatten_with_keys_fn for type: {entry.type}. Please pass a "
        "flatten_with_keys_fn argument to register_pytree_node."
    )


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the way to it.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> [(_pytree.keystr(p), x) for p, x in _pytree.tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """As ``tree_flatten``, each leaf with the way to it."""
    accessors, leaves, spec = optree.tree_flatten_with_accessor(tree, is_leaf, **PLAIN)
    paths = [tuple(map(_key, accessor)) for accessor in accessors]
    return list(zip(paths, leaves, strict=True)), shown(spec)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """As ``tree_map``; ``func`` is told the path of each leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(r) for r in rests]
    rows = zip(pairs, *columns, strict=True)
    return spec.unflatten([func(path, leaf, *others) for (path, leaf), *others in rows])
