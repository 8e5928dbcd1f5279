"""Nested structures of tensors: taken apart into leaves and put together again.

Lists, tuples, named tuples, dicts and everything registered with optree or with `utils._pytree` are
structures; so are dataclasses, attrs classes and one's own (`_tree_classes`), which optree hears of
when they are first met. None is a leaf: "no value here". Read next: `adjoint.composite`, what
people do with structures.

Note [Two views of one tree]: programs written against ``torch.utils._pytree`` rely on dicts that
keep the order of their keys and on dataclasses that are leaves until somebody registers them, while
a composite is the same in whatever order a dict was filled, and takes dataclasses apart unasked. So
optree has two namespaces: `_NAMESPACE` for composites and every transform, `PLAIN` for
`utils._pytree`. What is declared (`declare`) is in both; what is found out is in the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypedDict

import optree

from adjoint import _core
from adjoint._tree_classes import KeyEntry, Recipe, declared, describe, is_namedtuple

__all__ = [
    "PLAIN",
    "Flat",
    "Spec",
    "check_level",
    "children",
    "declare",
    "flat_object",
    "flatten",
    "forget",
    "is_structure",
    "kind_of",
    "leaves_like",
    "paths",
    "retract",
    "root_name",
    "step",
    "unflatten",
]

Spec = optree.PyTreeSpec


class _View(TypedDict):
    none_is_leaf: bool
    namespace: str


_NAMESPACE = "adjoint"
PLAIN: _View = {"none_is_leaf": True, "namespace": "adjoint.utils._pytree"}
_keep_order = optree.dict_insertion_ordered(True, namespace=PLAIN["namespace"])
_keep_order.__enter__()  # for as long as the object lives

_TENSOR_ONLY = {_core.Tensor}
_entries: dict[type, type[optree.PyTreeEntry]] = {}  # classes that optree heard of: their steps
flat_classes: dict[type, Flat] = {}  # classes whose objects may hold tensors only
_leaf_types: set[type] = {_core.Tensor, NoneType, bool, int, float, complex, str}


class Flat(NamedTuple):
    """How to take an object apart, and to rebuild it, that holds tensors and nothing else."""

    get: Callable[[Any], tuple[Any, ...]]
    rebuild: Callable[[Any, Iterable[Any]], Any]
    names: tuple[str, ...]
    spec: Spec
    root: str


def _register(cls: type) -> bool:
    """Decide whether objects of a class are leaves; if not, tell optree. True if it is news."""
    recipe = describe(cls)
    if recipe is None:
        _leaf_types.add(cls)
        return False
    optree.register_pytree_node(
        cls,
        recipe.flatten,
        recipe.unflatten,
        path_entry_type=recipe.entry,
        namespace=_NAMESPACE,
    )
    _entries[cls] = recipe.entry
    if recipe.native:
        _core._set_vector_class(cls, recipe.fields, cls.__dictoffset__ != 0)
    if recipe.get is not None and recipe.fields:
        example = recipe.unflatten(recipe.fields, recipe.fields)
        spec = optree.tree_structure(example, none_is_leaf=True, namespace=_NAMESPACE)
        flat_classes[cls] = Flat(
            recipe.get, recipe.unflatten, recipe.fields, spec, root_name(example, cls.__name__)
        )
    return True


def forget(cls: type) -> None:
    """Decide anew about a class that was met before something was said about it."""
    _leaf_types.discard(cls)
    if _entries.pop(cls, None) is not None:
        optree.unregister_pytree_node(cls, namespace=_NAMESPACE)
        flat_classes.pop(cls, None)
        _core._set_vector_class(cls, None, False)


def declare(cls: type, recipe: Recipe) -> None:
    """Take objects of ``cls`` apart by ``recipe``, whatever would be found out about them."""
    retract(cls)
    optree.register_pytree_node(
        cls,
        recipe.flatten,
        recipe.unflatten,
        path_entry_type=recipe.entry,
        namespace=PLAIN["namespace"],
    )
    declared[cls] = recipe


def retract(cls: type) -> None:
    """Take back what was declared about a class."""
    if declared.pop(cls, None) is not None:
        optree.unregister_pytree_node(cls, namespace=PLAIN["namespace"])
    forget(cls)


def fields_of(tree: Any, flat: Flat) -> tuple[Any, ...]:
    """The values of all fields of an object, if it has them and nothing else; else nothing."""
    if len(getattr(tree, "__dict__", flat.names)) != len(flat.names):
        return ()
    try:
        return flat.get(tree)
    except AttributeError:
        return ()


def flat_object(tree: Any) -> tuple[tuple[Any, ...], Flat] | None:
    """The tensors of an object whose fields are tensors and nothing else; None for other things.

    States of simulations are made like this. They are taken apart without asking optree, which
    would take longer than the arithmetic on them.
    """
    flat = flat_classes.get(type(tree))
    if flat is None:
        return None
    parts = fields_of(tree, flat)
    return (parts, flat) if set(map(type, parts)) == _TENSOR_ONLY else None


def flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of a structure, and what is needed to rebuild it.

    Raises
    ------
    ValueError
        The structure contains itself; the message says where.
    """
    try:
        while True:
            leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=_NAMESPACE)
            # A class that nobody has looked at yet was taken for a leaf: look, and go again.
            news = set(map(type, leaves)) - _leaf_types
            if not sum(map(_register, news)):
                return leaves, spec
    except RecursionError:
        raise ValueError(_endless(tree)) from None


def unflatten(spec: Spec, leaves: Iterable[Any]) -> Any:
    """The structure with other leaves."""
    return optree.tree_unflatten(spec, leaves)


def is_structure(tree: Any) -> bool:
    """Whether ``tree`` is taken apart rather than being a leaf."""
    cls = type(tree)
    if cls in _leaf_types:
        return False
    if not optree.tree_is_leaf(tree, none_is_leaf=True, namespace=_NAMESPACE):
        return True
    return _register(cls)


def paths(spec: Spec, root: str) -> list[str]:
    """Where each leaf stands, as Python would write it: ``state['w'][0].bias``."""
    return [accessor.codify(root) for accessor in spec.accessors()]


def children(tree: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """The parts of a structure one level down, and what each is called there."""
    parts = optree.tree_flatten_one_level(tree, none_is_leaf=True, namespace=_NAMESPACE)
    return list(parts[0]), tuple(parts[2])


def step(cls: type | None, entry: Any) -> str:
    """How Python writes the way from an object of ``cls`` to its part: ``.x`` or ``['x']``."""
    kind = _entries.get(cls) if cls is not None else None
    if kind is optree.GetAttrEntry:
        return f".{entry}"
    if kind is KeyEntry:
        return str(entry)
    if cls is not None and is_namedtuple(cls):
        return f".{cls._fields[entry]}"  # type: ignore[attr-defined]
    return f"[{entry!r}]"


def kind_of(thing: Any) -> str:
    """What messages call a part of a structure."""
    if isinstance(thing, _core.Tensor):
        return f"a tensor {list(thing.shape)}"
    if thing is None or isinstance(thing, bool | int | float | complex | str):
        text = repr(thing)
        return text if len(text) <= 40 else text[:37] + "..."
    return f"a {type(thing).__name__}" if is_structure(thing) else repr(thing)


def leaves_like(spec: Spec, tree: Any, root: str) -> list[Any]:
    """The leaves of ``tree``, which must be built as ``spec`` says; None stands for a whole part.

    A list may stand for a tuple and the other way round.

    Raises
    ------
    ValueError
        ``tree`` is built otherwise; the message names the place below ``root``.
    """
    if tree is None:
        return [None] * spec.num_leaves
    if spec.is_leaf():
        return [tree]
    check_level(spec, tree, root, loose=True)
    parts, entries = children(tree)
    found: list[Any] = []
    for one, child, entry in zip(spec.children(), parts, entries, strict=True):
        found += leaves_like(one, child, root + step(type(tree), entry))
    return found


def check_level(spec: Spec, tree: Any, root: str, loose: bool = False) -> None:
    """Refuse ``tree`` if its outermost level is not built as that of ``spec``."""
    kind = spec.type
    assert kind is not None
    sequences = (list, tuple)
    alike = type(tree) is kind or (loose and type(tree) in sequences and kind in sequences)
    if not alike or not is_structure(tree):
        raise ValueError(f"{root}: expected a {kind.__name__}, got {kind_of(tree)}")
    entries = children(tree)[1]
    wanted = spec.entries()
    if list(entries) != wanted:
        raise ValueError(f"{root}: expected {_listed(wanted)}, got {_listed(entries)}")


def _listed(entries: Sequence[Any]) -> str:
    if all(isinstance(entry, int) for entry in entries):
        return f"{len(entries)} items"
    return "the entries " + ", ".join(repr(entry) for entry in entries)


def _endless(tree: Any) -> str:
    """Why a structure could not be taken apart to its end: it contains itself, or is too deep."""
    root = root_name(tree, "structure")
    above: dict[int, str] = {}  # containers on the way down: where they stand
    stack: list[tuple[Any, str, bool]] = [(tree, root, True)]
    while stack:
        thing, place, down = stack.pop()
        if not down:
            del above[id(thing)]
        elif id(thing) in above:
            return (
                f"{place} is {above[id(thing)]} itself: a structure that contains itself has no "
                "end.\n  fix: keep an index or a name there instead of the object"
            )
        elif is_structure(thing):
            above[id(thing)] = place
            stack.append((thing, place, False))
            parts, entries = children(thing)
            for part, entry in zip(reversed(parts), reversed(entries), strict=True):
                stack.append((part, place + step(type(thing), entry), True))
    return (
        f"{root} is nested more than {optree.MAX_RECURSION_DEPTH} levels deep, which is more than "
        "can be taken apart; keep its parts in one list"
    )


def root_name(tree: Any, otherwise: str) -> str:
    """What messages call a structure: its class in lower case, or what the caller calls it."""
    cls = type(tree)
    if cls.__module__ in ("builtins", "collections"):
        return otherwise
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower().strip("_") or otherwise
