"""Nested structures of tensors: taken apart into leaves and put together again.

Lists, tuples, named tuples, dicts and everything registered with optree are structures; so are
dataclasses, which need no registration. None is a leaf: "no value here".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import optree

__all__ = ["Spec", "flatten", "is_structure", "leaves_like", "paths", "unflatten"]

Spec = optree.PyTreeSpec

_NAMESPACE = "adjoint"
_known: set[type] = set()  # dataclasses that optree was told about


class _Fields:
    """How a dataclass was made up: its fields that have a value, and what else it carried."""

    def __init__(self, names: tuple[str, ...], others: dict[str, Any]) -> None:
        self.names = names
        self.others = others

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fields) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)


def _register(cls: type) -> None:
    """Tell optree about a dataclass; instances are rebuilt without running ``__init__``."""

    def flatten_fields(value: Any) -> tuple[list[Any], _Fields, tuple[str, ...]]:
        names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        held = getattr(value, "__dict__", {})
        others = {key: item for key, item in held.items() if key not in names}
        return [getattr(value, name) for name in names], _Fields(names, others), names

    def unflatten_fields(fields: _Fields, children: Iterable[Any]) -> Any:
        value: Any = object.__new__(cls)
        for name, child in zip(fields.names, children, strict=True):
            object.__setattr__(value, name, child)
        for name, other in fields.others.items():
            object.__setattr__(value, name, other)
        return value

    optree.register_pytree_node(
        cls,
        flatten_fields,
        unflatten_fields,  # type: ignore[arg-type]
        path_entry_type=optree.DataclassEntry,
        namespace=_NAMESPACE,
    )
    _known.add(cls)


def _look(value: Any) -> bool:
    """Called by optree on the way down: registers dataclasses before they are met as leaves."""
    cls = type(value)
    if cls not in _known and dataclasses.is_dataclass(cls):
        _register(cls)
    return False


def flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of a structure, and what is needed to rebuild it."""
    return optree.tree_flatten(tree, is_leaf=_look, none_is_leaf=True, namespace=_NAMESPACE)


def unflatten(spec: Spec, leaves: Iterable[Any]) -> Any:
    """The structure with other leaves."""
    return optree.tree_unflatten(spec, leaves)


def is_structure(tree: Any) -> bool:
    """Whether ``tree`` is taken apart rather than being a leaf."""
    _look(tree)
    return not optree.tree_is_leaf(tree, none_is_leaf=True, namespace=_NAMESPACE)


def paths(spec: Spec, root: str) -> list[str]:
    """Where each leaf stands, as Python would write it: ``state['w'][0].bias``."""
    return [accessor.codify(root) for accessor in spec.accessors()]


def _children(tree: Any) -> tuple[list[Any], tuple[Any, ...]]:
    parts = optree.tree_flatten_one_level(tree, none_is_leaf=True, namespace=_NAMESPACE)
    return list(parts[0]), tuple(parts[2])


def leaves_like(spec: Spec, tree: Any, root: str) -> list[Any]:
    """The leaves of ``tree``, which must be built as ``spec`` says; None stands for a whole part.

    Raises
    ------
    ValueError
        ``tree`` is built otherwise; the message names the place below ``root``.
    """
    if tree is None:
        return [None] * spec.num_leaves
    if spec.is_leaf():
        return [tree]
    kind = spec.type
    name = kind.__name__ if kind is not None else "leaf"
    sequences = (list, tuple)
    alike = type(tree) is kind or (type(tree) in sequences and kind in sequences)
    if not alike:
        raise ValueError(f"{root} is a {name}, but got a {type(tree).__name__} for it")
    children, entries = _children(tree)
    wanted = spec.entries()
    if list(entries) != wanted:
        raise ValueError(f"{root} has {_listed(wanted)}, but got {_listed(entries)} for it")
    found: list[Any] = []
    for one, child, entry in zip(spec.children(), children, entries, strict=True):
        below = f"{root}.{entry}" if dataclasses.is_dataclass(tree) else f"{root}[{entry!r}]"
        found += leaves_like(one, child, below)
    return found


def _listed(entries: Sequence[Any]) -> str:
    if all(isinstance(entry, int) for entry in entries):
        return f"{len(entries)} items"
    return "the entries " + ", ".join(repr(entry) for entry in entries)
