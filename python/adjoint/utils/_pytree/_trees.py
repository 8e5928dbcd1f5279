"""Maps over trees, and what they are made from: optree's functions by PyTorch's names and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import optree

from adjoint._tree import PLAIN

from ._spec import TreeSpec, shown

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``tree`` is not taken apart."""
    return optree.tree_is_leaf(tree, is_leaf, **PLAIN)


_is_leaf = tree_is_leaf


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure.

    Parameters
    ----------
    tree
        Any nesting of registered classes. None is a leaf.
    is_leaf
        Says of an object that it is not to be taken apart.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"b": 1, "a": (2, 3)})
    >>> leaves
    [1, 2, 3]
    >>> _pytree.tree_unflatten([4, 5, 6], spec)
    {'b': 4, 'a': (5, 6)}
    """
    leaves, spec = optree.tree_flatten(tree, is_leaf, **PLAIN)
    return leaves, shown(spec)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of structure ``treespec`` with these leaves; the inverse of `tree_flatten`."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after the other."""
    return iter(optree.tree_iter(tree, is_leaf, **PLAIN))


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return optree.tree_leaves(tree, is_leaf, **PLAIN)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return shown(optree.tree_structure(tree, is_leaf, **PLAIN))


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``func`` of every leaf, in the structure of ``tree``; further trees give further arguments.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    return optree.tree_map(func, tree, *rests, is_leaf=is_leaf, **PLAIN)


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call ``func`` on every leaf for its effect; return ``tree``."""
    return optree.tree_map_(func, tree, *rests, is_leaf=is_leaf, **PLAIN)


def _matcher(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, type | tuple) or hasattr(wanted, "__args__"):
        return lambda leaf: isinstance(leaf, wanted)
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(wanted: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function is called on leaves of that type, others are handed on."""
    is_wanted = _matcher(wanted)
    return lambda func: lambda leaf: func(leaf) if is_wanted(leaf) else leaf


def tree_map_only(
    wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``func`` of the leaves of one type (or several, or for which a predicate holds)."""
    return tree_map(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """As `tree_map_only`, for its effect."""
    return tree_map_(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for every leaf of a type."""
    is_wanted = _matcher(wanted)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if is_wanted(leaf))


def tree_any_only(
    wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for a leaf of a type."""
    is_wanted = _matcher(wanted)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if is_wanted(leaf))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """One value per leaf of ``treespec``; a leaf of ``tree`` stands for a whole part of it."""
    whole = treespec.unflatten([0] * treespec.num_leaves)
    try:
        return optree.broadcast_prefix(tree, whole, is_leaf, **PLAIN)
    except ValueError:  # the two are built differently
        return None
