"""Trees: which objects are taken apart, what their structure is, maps over their leaves."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

PyTree = Any
Context = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]
IsLeaf = Callable[[Any], bool] | None
Class = TypeVar("Class", bound=type)


class NodeDef(NamedTuple):
    """How objects of one class are taken apart and put together."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


SUPPORTED_NODES: dict[type, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Take objects of ``cls`` apart from now on.

    Parameters
    ----------
    cls
        The class itself; subclasses stay leaves.
    flatten_fn
        From an object to its children and a context.
    unflatten_fn
        From children and context to an object.
    serialized_type_name, to_dumpable_context, from_dumpable_context
        Accepted: specs are not written to files here.
    flatten_with_keys_fn
        As ``flatten_fn``, with pairs of key and child.

    Raises
    ------
    ValueError
        The class is registered already.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    >>> _pytree.tree_leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Take objects of a dataclass apart into their fields.

    Parameters
    ----------
    cls
        A dataclass.
    field_names
        The fields that are children: by default those that ``__init__`` takes.
    drop_field_names
        Fields to leave out.
    serialized_type_name
        Accepted, without effect.
    """
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"field names must be specified for dataclasses only, got {cls}")
    dropped = set(drop_field_names or ())
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    if field_names is not None and set(field_names) != set(names):
        raise ValueError(
            f"field_names {field_names} do not name the fields of {cls.__name__}, which are {names}"
        )

    def flatten(value: Any) -> tuple[list[Any], Context]:
        present = [n for n in names if getattr(value, n) is not None]
        absent = [n for n in names if getattr(value, n) is None]
        return [getattr(value, n) for n in present], [present, absent]

    def unflatten(children: Iterable[Any], context: Context) -> Any:
        present, absent = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(absent))

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Context]:
        from ._paths import GetAttrKey

        children, context = flatten(value)
        return [(GetAttrKey(n), c) for n, c in zip(context[0], children, strict=True)], context

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def register_constant(cls: type) -> None:
    """Carry objects of ``cls`` along as part of the structure: they have no leaves."""

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Context]:
        return [], value

    register_pytree_node(
        cls,
        lambda value: ([], value),
        lambda _, context: context,
        flatten_with_keys_fn=with_keys,
    )


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a named tuple, or derived from one."""
    fields = getattr(cls, "_fields", None)
    return (
        issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(name, str) for name in fields)
    )


def is_namedtuple(obj: object) -> bool:
    """Whether ``obj`` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


class _NamedTuple:
    """Under this key the registry holds the rule for every named tuple."""


def _by_position(kind: Callable[[Iterable[Any]], Any]) -> tuple[FlattenFunc, UnflattenFunc]:
    return lambda value: (list(value), None), lambda children, _: kind(children)


def _keyed(value: Any) -> tuple[list[Any], Context]:
    return list(value.values()), list(value)


register_pytree_node(tuple, *_by_position(tuple))
register_pytree_node(list, *_by_position(list))
register_pytree_node(
    deque, lambda value: (list(value), value.maxlen), lambda children, n: deque(children, n)
)
register_pytree_node(dict, _keyed, lambda children, keys: dict(zip(keys, children, strict=True)))
register_pytree_node(
    OrderedDict, _keyed, lambda children, keys: OrderedDict(zip(keys, children, strict=True))
)
register_pytree_node(
    defaultdict,
    lambda value: (list(value.values()), [value.default_factory, list(value)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
register_pytree_node(
    _NamedTuple, lambda value: (list(value), type(value)), lambda children, cls: cls(*children)
)

_BUILTIN_DICTS = frozenset({dict, OrderedDict, defaultdict})


def node_of(tree: Any) -> NodeDef | None:
    """The rule for ``tree``; None for a leaf."""
    cls = type(tree)
    found = SUPPORTED_NODES.get(cls)
    if found is None and isinstance(tree, tuple) and is_namedtuple_class(cls):
        return SUPPORTED_NODES[_NamedTuple]
    return found


@dataclasses.dataclass(init=False, frozen=True, eq=True, repr=False)
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
    """

    type: Any
    context: Context
    children_specs: list[TreeSpec]

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        put = object.__setattr__
        put(self, "type", type)
        put(self, "context", context)
        put(self, "children_specs", children_specs)
        leaf = type is None
        put(self, "num_nodes", 1 + sum(c.num_nodes for c in children_specs))
        put(self, "num_leaves", 1 if leaf else sum(c.num_leaves for c in children_specs))
        put(self, "num_children", len(children_specs))

    num_nodes: int = dataclasses.field(init=False, compare=False)
    num_leaves: int = dataclasses.field(init=False, compare=False)
    num_children: int = dataclasses.field(init=False, compare=False)

    def is_leaf(self) -> bool:
        """Whether the whole tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structure of each child."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(values))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        rule = SUPPORTED_NODES[self.type]
        return rule.unflatten_fn([c._built(leaves) for c in self.children_specs], self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of ``tree`` where this structure has leaves; it may be deeper than this."""
        found: list[Any] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: Any, found: list[Any]) -> None:
        if self.type is None:
            found.append(tree)
            return
        rule = node_of(tree)
        both_dicts = self.type in _BUILTIN_DICTS and type(tree) in _BUILTIN_DICTS
        if rule is None or (rule.type is not self.type and not both_dicts):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = rule.flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if both_dicts:  # the order of keys does not matter
            keys = self.context[1] if self.type is defaultdict else self.context
            missing = [k for k in keys if k not in tree]
            if missing:
                raise ValueError(f"Node keys mismatch; missing key(s): {missing}.")
            children = [tree[k] for k in keys]
        elif context != self.context and self.type is not deque:
            raise ValueError(
                f"Node context mismatch for {self.type!r}; expected {self.context!r}, but got "
                f"{context!r}."
            )
        for spec, child in zip(self.children_specs, children, strict=True):
            spec._collect(child, found)

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inside = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__.lstrip('_')}, {self.context!r}, [{inside}])"

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The structure of one leaf."""
    return _LEAF


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``tree`` is not taken apart."""
    return (is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


_is_leaf = tree_is_leaf


def _flatten(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    rule = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if rule is None:
        leaves.append(tree)
        return _LEAF
    children, context = rule.flatten_fn(tree)
    return TreeSpec(rule.type, context, [_flatten(c, leaves, is_leaf) for c in children])


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
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


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
    return iter(tree_flatten(tree, is_leaf)[0])


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves(list(args)) + tree_leaves(list(kwargs.values()))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


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
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call ``func`` on every leaf for its effect; return ``tree``."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    for row in zip(*columns, strict=True):
        func(*row)
    return tree


def _matcher(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, type | tuple) or hasattr(wanted, "__args__"):
        return lambda leaf: isinstance(leaf, wanted)
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(wanted: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function is called on leaves of that type, others are handed on."""
    fits = _matcher(wanted)
    return lambda func: lambda leaf: func(leaf) if fits(leaf) else leaf


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
    fits = _matcher(wanted)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if fits(leaf))


def tree_any_only(
    wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for a leaf of a type."""
    fits = _matcher(wanted)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if fits(leaf))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """One value per leaf of ``treespec``; a leaf of ``tree`` stands for a whole part of it."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    rule = node_of(tree)
    if treespec.is_leaf() or rule is None or rule.type is not treespec.type:
        return None
    children, context = rule.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        below = _broadcast_to_and_flatten(child, spec, is_leaf)
        if below is None:
            return None
        found += below
    return found
