"""Which classes are taken apart: registering one here tells the one tree that all of adjoint uses.

What is registered goes to `adjoint._tree` (and so to optree); this module remembers it in the form
that PyTorch shows, `SUPPORTED_NODES`. Read next: `_spec`, what a structure looks like.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import optree

from adjoint import _tree
from adjoint._tree_classes import KeyEntry, Recipe

Context = Any
FlattenFn = Callable[[Any], tuple[Iterable[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], Any]
FlattenWithKeysFn = Callable[[Any], tuple[Iterable[tuple[Any, Any]], Context]]


class NodeDef(NamedTuple):
    """How objects of one class are taken apart and put together."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class Written(NamedTuple):
    """How a structure of one class is written as JSON: see `treespec_dumps`."""

    type: Any
    name: str | None
    to_json: Callable[[Context], Any] | None
    from_json: Callable[[Any], Context] | None


_nodes: dict[Any, NodeDef] = {}
written: dict[Any, Written] = {}

SUPPORTED_NODES: Mapping[Any, NodeDef] = MappingProxyType(_nodes)
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})

is_namedtuple = optree.is_namedtuple
is_namedtuple_class = optree.is_namedtuple_class
is_namedtuple_instance = optree.is_namedtuple_instance
is_structseq = optree.is_structseq
is_structseq_class = optree.is_structseq_class
is_structseq_instance = optree.is_structseq_instance


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Take objects of ``cls`` apart from now on, here and everywhere in adjoint.

    Parameters
    ----------
    cls
        The class itself; subclasses stay leaves.
    flatten_fn
        From an object to its children and a context.
    unflatten_fn
        From children and context to an object.
    serialized_type_name
        What `treespec_dumps` calls the class.
    to_dumpable_context, from_dumpable_context
        Between the context and something that JSON can hold; both or neither.
    flatten_with_keys_fn
        As ``flatten_fn``, with pairs of key and child.

    Raises
    ------
    ValueError
        The class is registered already.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    >>> _pytree.tree_leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    >>> gradient = ad.func.grad(lambda p: p.a * p.b)(Pair(ad.tensor(2.0), ad.tensor(3.0)))
    >>> gradient.a, gradient.b
    (tensor(3.), tensor(2.))
    """
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _register(
        NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn),
        Written(cls, serialized_type_name, to_dumpable_context, from_dumpable_context),
    )


def _register(node: NodeDef, writing: Written) -> None:
    cls = node.type
    if (writing.to_json is None) != (writing.from_json is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    if cls in _nodes:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=3,
        )
    _nodes[cls], written[cls] = node, writing
    if not is_namedtuple_class(cls):  # these are taken apart by their fields, registered or not
        _tree.declare(cls, _recipe(node))


def _recipe(node: NodeDef) -> Recipe:
    """The same in optree's words."""
    take_apart, rebuild, with_keys = node[1:]

    def flatten(value: Any) -> tuple[Iterable[Any], Any, Iterable[Any] | None]:
        children, context = take_apart(value)
        keys = None if with_keys is None else tuple(key for key, _ in with_keys(value)[0])
        return children, context, keys

    def unflatten(context: Context, children: Iterable[Any]) -> Any:
        return rebuild(list(children), context)

    entry = optree.FlattenedEntry if with_keys is None else KeyEntry
    return Recipe(flatten, unflatten, entry, own_methods=True)


def _register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """As `register_pytree_node`; a class that is registered already gets a warning."""
    _register(
        NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn),
        Written(cls, serialized_type_name, to_dumpable_context, from_dumpable_context),
    )


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a class of named tuples a name for `treespec_dumps`."""
    if not is_namedtuple_class(cls):
        raise TypeError(f"_register_namedtuple() expects a class of named tuples, got {cls}")
    _register(_nodes[namedtuple]._replace(type=cls), Written(cls, serialized_type_name, None, None))


def _deregister_pytree_node(cls: type) -> None:
    """Take objects of ``cls`` for leaves again."""
    del _nodes[cls], written[cls]
    _tree.retract(cls)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Take objects of a dataclass apart into their fields, and rebuild them by ``cls(...)``.

    Composites take dataclasses apart without this, and rebuild them without their ``__init__``.

    Parameters
    ----------
    cls
        A dataclass, or a class whose ``__init__`` takes its fields.
    field_names
        The fields that are children: by default those that ``__init__`` of a dataclass takes.
    drop_field_names
        Fields to leave out.
    serialized_type_name
        What `treespec_dumps` calls the class.

    Raises
    ------
    ValueError
        ``field_names`` are not the fields, or are needed: the class is not a dataclass.
    """
    dropped = set(drop_field_names or ())
    names = field_names
    if dataclasses.is_dataclass(cls):
        found = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
        if names is not None and set(names) != set(found):
            raise ValueError(
                f"field_names {names} do not name the fields of {cls.__name__}, which are {found}"
            )
        names = names or found
    elif names is None:
        raise ValueError(
            "field_names must be specified with a list of all fields used to initialize "
            f"{cls}, as it is not a dataclass."
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

    _register(
        NodeDef(cls, flatten, unflatten, with_keys),
        Written(cls, serialized_type_name, None, None),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of an object that is carried along: the object."""

    value: Any


def register_constant(cls: Any) -> None:
    """Carry objects of ``cls`` along as part of the structure: they have no leaves.

    Structures are compared and hashed with them, so ``cls`` must say what is equal.

    Raises
    ------
    TypeError
        ``cls`` has no ``__eq__`` or no ``__hash__`` of its own.
    """
    for method, missing in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, method) is missing:
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{method}` "
                "implementation."
            )

    def flatten(value: Any) -> tuple[list[Any], Context]:
        return [], ConstantNode(value)

    _register(
        NodeDef(cls, flatten, lambda _, context: context.value, flatten),
        Written(cls, None, None, None),
    )
    _constants.add(cls)


_constants: set[type] = set()


def is_constant_class(cls: Any) -> bool:
    """Whether ``cls`` was registered with `register_constant`."""
    return cls in _constants and cls in _nodes


def node_type(cls: type | None) -> Any:
    """What a structure calls a class: all classes of named tuples are ``namedtuple``."""
    return namedtuple if cls is not None and is_namedtuple_class(cls) else cls


def shown_context(cls: type | None, data: Any) -> Context:
    """The context of a level, from what optree keeps of it."""
    return list(data) if cls is defaultdict else data


def _builtin(kind: Any, name: str, unflatten: UnflattenFn, write: Any = None) -> None:
    def flatten(value: Any) -> tuple[list[Any], Context]:
        children, data, *_ = optree.tree_flatten_one_level(value, **_tree.PLAIN)
        return list(children), shown_context(type(value), data)

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Context]:
        from ._paths import tree_leaves_with_path

        pairs = tree_leaves_with_path(value, lambda part: part is not value)
        return [(path[0], part) for path, part in pairs], flatten(value)[1]

    _nodes[kind] = NodeDef(kind, flatten, unflatten, with_keys)
    written[kind] = Written(kind, name, *(write or (None, None)))


_builtin(tuple, "builtins.tuple", lambda parts, _: tuple(parts))
_builtin(list, "builtins.list", lambda parts, _: list(parts))
_builtin(dict, "builtins.dict", lambda parts, keys: dict(zip(keys, parts, strict=True)))
_builtin(namedtuple, "collections.namedtuple", lambda parts, cls: cls(*parts))
_builtin(
    OrderedDict,
    "collections.OrderedDict",
    lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
)
_builtin(
    defaultdict,
    "collections.defaultdict",
    lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
)
_builtin(deque, "collections.deque", lambda parts, length: deque(parts, length))

BUILTIN_TYPES: frozenset[Any] = frozenset(_nodes)
