"""Where leaves stand in a tree: the keys on the way to each, and maps that are told them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from . import _trees

KeyPath = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step into a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What is there."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What is there."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
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


def _children(tree: Any, rule: _trees.NodeDef) -> list[tuple[Any, Any]]:
    if rule.flatten_with_keys_fn is not None:
        return rule.flatten_with_keys_fn(tree)[0]
    parts = rule.flatten_fn(tree)[0]
    if type(tree) in (dict, OrderedDict, defaultdict):
        return [(MappingKey(k), v) for k, v in zip(tree, parts, strict=True)]
    if _trees.is_namedtuple(tree):
        return [(GetAttrKey(n), v) for n, v in zip(tree._fields, parts, strict=True)]
    return [(SequenceKey(i), v) for i, v in enumerate(parts)]


def _walk(
    path: KeyPath, tree: Any, is_leaf: _trees.IsLeaf, found: list[tuple[KeyPath, Any]]
) -> None:
    rule = _trees.node_of(tree)
    if rule is None or (is_leaf is not None and is_leaf(tree)):
        found.append((path, tree))
        return
    for key, child in _children(tree, rule):
        _walk((*path, key), child, is_leaf, found)


def tree_leaves_with_path(tree: Any, is_leaf: _trees.IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the way to it.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> [(_pytree.keystr(p), x) for p, x in _pytree.tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list[tuple[KeyPath, Any]] = []
    _walk((), tree, is_leaf, found)
    return found


def tree_flatten_with_path(
    tree: Any, is_leaf: _trees.IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], _trees.TreeSpec]:
    """As ``tree_flatten``, each leaf with the way to it."""
    return tree_leaves_with_path(tree, is_leaf), _trees.tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _trees.IsLeaf = None
) -> Any:
    """As ``tree_map``; ``func`` is told the path of each leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(r) for r in rests]
    rows = zip(pairs, *columns, strict=True)
    return spec.unflatten([func(path, leaf, *others) for (path, leaf), *others in rows])
