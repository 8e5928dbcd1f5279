"""`TreeSpec`: a structure without its leaves, with PyTorch's names for what optree keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import optree

from adjoint import _tree

from . import _nodes


class TreeSpec:
    """The structure of a tree without its leaves.

    Parameters
    ----------
    type
        The class of the outermost level; None for a leaf.
    context
        What it takes to rebuild it, besides its children: keys, for example.
    children_specs
        The structure of each child.

    Raises
    ------
    ValueError
        The class is not registered.
    """

    __slots__ = ("_spec",)
    _spec: optree.PyTreeSpec

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        if type is None:
            self._spec = optree.treespec_leaf(**_tree.PLAIN)
            return
        node = _nodes.SUPPORTED_NODES.get(type)
        if node is None:
            raise ValueError(
                f"{type} is not registered as pytree node.\n"
                f"  fix: register_pytree_node({getattr(type, '__name__', type)}, ...) first"
            )
        level = node.unflatten_fn([child._spec for child in children_specs], context)
        self._spec = optree.treespec_from_collection(level, **_tree.PLAIN)

    @property
    def type(self) -> Any:
        """The class of the outermost level; None for a leaf."""
        return _nodes.node_type(self._spec.type)

    @property
    def context(self) -> Any:
        """What it takes to rebuild the outermost level, besides its children."""
        level = self._spec.one_level()
        if level is None:
            return None
        found = level.walk([None] * level.num_leaves, lambda _cls, data, _parts: data)
        return _nodes.shown_context(self._spec.type, found)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structure of each child."""
        return self.children()

    @property
    def num_nodes(self) -> int:
        """How many levels and leaves there are."""
        return self._spec.num_nodes

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return self._spec.num_leaves

    @property
    def num_children(self) -> int:
        """How many parts the outermost level has."""
        return self._spec.num_children

    def is_leaf(self) -> bool:
        """Whether the whole tree is one leaf."""
        return self._spec.is_leaf()

    def children(self) -> list[TreeSpec]:
        """The structure of each child."""
        return [shown(child) for child in self._spec.children()]

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return shown(self._spec.child(index))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._spec.unflatten(values)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of ``tree`` where this structure has leaves; it may be deeper than this."""
        return self._spec.flatten_up_to(tree)

    def __eq__(self, other: object) -> bool:
        return self._spec == other._spec if isinstance(other, TreeSpec) else NotImplemented

    def __hash__(self) -> int:
        # Not optree's: equal structures that were made in different ways have two before 0.20.
        return hash((self.type, self.num_children, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        return self._text(2)

    def _text(self, indent: int) -> str:
        if self.is_leaf():
            return "*"
        inside = (",\n" + " " * indent).join(c._text(indent + 2) for c in self.children())
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


PyTreeSpec = TreeSpec


def shown(spec: optree.PyTreeSpec) -> TreeSpec:
    """The `TreeSpec` of a structure of optree's."""
    made = object.__new__(LeafSpec if spec.is_leaf() else TreeSpec)
    made._spec = spec
    return made


_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    """The structure of one leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple, from those of its parts."""
    return TreeSpec(tuple, None, _checked("tuple", list(iterable)))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dict, from those of its parts."""
    parts = dict(mapping, **kwargs)
    return TreeSpec(dict, list(parts), _checked("dictionary", list(parts.values())))


def _checked(kind: str, children: list[Any]) -> list[TreeSpec]:
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a {kind} of TreeSpec values, got: {children!r}.")
    return children


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as Python writes it, with ``*`` for leaves."""
    return repr(treespec.unflatten([_LEAF] * treespec.num_leaves))
