"""``utils._pytree``: trees by PyTorch's rules."""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
import json
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

from adjoint.utils import _pytree as pytree

Pair = namedtuple("Pair", ["a", "b"])

TREES: list[Any] = [
    1,
    None,
    (1, 2),
    [1, [2, ()]],
    {"b": 1, "a": {"c": 2}},
    OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, {"x": [1, 2]}),
    deque([1, 2], maxlen=5),
    Pair(1, (2, None)),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_comes_back_from_its_leaves(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec == pytree.tree_structure(again)
    assert hash(spec) == hash(pytree.tree_structure(again))
    assert spec.num_leaves == len(leaves)


def test_different_structures_differ() -> None:
    specs = [pytree.tree_structure(tree) for tree in TREES[2:]]
    assert all(a != b for a, b in itertools.combinations(specs, 2))


def test_dicts_keep_their_order_and_none_is_a_leaf() -> None:
    assert pytree.tree_leaves({"b": 1, "a": None}) == [1, None]
    assert pytree.tree_structure(None).is_leaf()
    assert pytree.tree_structure(3) == pytree.LeafSpec()


def test_a_spec_shows_type_context_and_parts() -> None:
    spec = pytree.tree_structure({"x": (1, 2), "y": Pair(3, 4)})
    assert spec.type is dict
    assert spec.context == ["x", "y"]
    assert spec.children_specs[0].type is tuple
    assert spec.children_specs[1].context is Pair
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (7, 4, 2)
    assert repr(pytree.tree_structure((1,))) == "TreeSpec(tuple, None, [*])"


def test_maps_take_several_trees_and_the_order_of_keys_does_not_matter() -> None:
    result = pytree.tree_map(lambda a, b: (a, b), {"x": 1, "y": 2}, {"y": [3], "x": 4})
    assert result == {"x": (1, 4), "y": (2, [3])}
    seen: list[int] = []
    tree = [1, (2, 3)]
    assert pytree.tree_map_(seen.append, tree) is tree
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        ((1, 2), [1, 2], r"Expected an instance of tuple, got \[1, 2\]"),
        ((1, 2), (1, 2, 3), "tuple arity mismatch; expected: 2, got: 3"),
        ({"a": 1}, {"b": 1}, r"missing key\(s\): \['a'\]"),
        (Pair(1, 2), namedtuple("Other", "a b")(1, 2), "namedtuple type mismatch"),
        ((1, 2), 5, "Expected an instance of tuple, got 5"),
    ],
)
def test_trees_that_do_not_fit_are_refused(tree: Any, other: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pytree.tree_map(lambda a, b: a, tree, other)


def test_unflatten_counts_leaves_and_wants_a_spec() -> None:
    spec = pytree.tree_structure((1, 2))
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds"):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(TypeError, match="instance of TreeSpec"):
        pytree.tree_unflatten([1], (1,))  # type: ignore[arg-type]


def test_only_some_leaves_are_mapped_or_asked() -> None:
    tree = (1, "a", 2.0)
    assert pytree.tree_map_only(int, lambda x: x + 1, tree) == (2, "a", 2.0)
    assert pytree.tree_map_only((int, float), lambda x: x * 2, tree) == (2, "a", 4.0)
    assert pytree.tree_map_only(lambda x: x == "a", lambda x: "b", tree) == (1, "b", 2.0)
    assert pytree.tree_any(lambda x: x == "a", tree)
    assert not pytree.tree_all(lambda x: isinstance(x, int), tree)
    assert pytree.tree_all_only(int, lambda x: x == 1, tree)
    assert not pytree.tree_any_only(str, lambda x: x == "b", tree)
    with pytest.raises(TypeError, match="a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, lambda x: x, tree)


def test_is_leaf_stops_the_descent() -> None:
    tree = [(1, 2), [3]]
    assert pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]
    assert pytree.tree_is_leaf((1,), is_leaf=lambda x: True)
    assert not pytree.tree_is_leaf((1,))


def test_paths_lead_to_leaves() -> None:
    tree = {"a": [1, Pair(2, 3)]}
    found = pytree.tree_leaves_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in found] == [
        ("['a'][0]", 1),
        ("['a'][1].a", 2),
        ("['a'][1].b", 3),
    ]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in found)
    marked = pytree.tree_map_with_path(lambda p, x, y: (pytree.keystr(p), x + y), [1, 2], [10, 20])
    assert marked == [("[0]", 11), ("[1]", 22)]


class Own:
    def __init__(self, value: Any, name: str) -> None:
        self.value, self.name = value, name


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Constant:
    name: str = "c"


class Mode(enum.Enum):
    FAST = 1


@pytest.fixture
def registered() -> Any:
    yield
    for cls in (Own, Point, Constant, Pair):
        if cls in pytree.SUPPORTED_NODES:
            pytree._deregister_pytree_node(cls)


def test_classes_are_leaves_until_registered(registered: None) -> None:
    assert pytree.tree_leaves(Point(1, 2)) == [Point(1, 2)]
    pytree.register_pytree_node(
        Own, lambda o: ([o.value], o.name), lambda children, name: Own(*children, name)
    )
    again = pytree.tree_map(lambda v: v + 1, Own(1, "n"))
    assert (again.value, again.name) == (2, "n")
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Own, lambda o: ([], None), lambda c, _: Own(1, ""))
    pytree.register_dataclass(Point)
    assert pytree.tree_map(lambda v: v * 2, Point(3)) == Point(6, None)
    assert pytree.keystr(pytree.tree_leaves_with_path([Point(3)])[0][0]) == "[0].x"
    pytree.register_constant(Constant)
    constant = Constant()
    assert pytree.tree_leaves((constant, 1)) == [1]
    assert pytree.tree_map(lambda v: v, (constant, 1))[0] is constant
    assert pytree.is_constant_class(Constant)
    assert pytree.tree_structure(Constant()) == pytree.tree_structure(constant)
    assert pytree.tree_structure(Constant("other")) != pytree.tree_structure(constant)


def test_a_class_is_a_leaf_again_when_it_is_deregistered(registered: None) -> None:
    pytree.register_dataclass(Point)
    spec = pytree.tree_structure(Point(1, 2))
    pytree._deregister_pytree_node(Point)
    assert pytree.tree_is_leaf(Point(1, 2))
    assert spec.unflatten([3, 4]) == Point(3, 4)  # what was taken apart can be put together


def test_registering_again_warns_where_pytorch_does(registered: None) -> None:
    pytree.register_dataclass(Point)
    with pytest.warns(UserWarning, match="already registered.*Overwriting"):
        pytree.register_dataclass(Point, field_names=["x"], drop_field_names=["y"])
    assert pytree.tree_leaves(Point(1, 2)) == [1]


def test_registered_nodes_can_be_read_not_changed() -> None:
    children, context = pytree.SUPPORTED_NODES[dict].flatten_fn({"b": 1, "a": 2})
    assert (children, context) == ([1, 2], ["b", "a"])
    assert pytree.SUPPORTED_NODES[dict].unflatten_fn([3, 4], context) == {"b": 3, "a": 4}
    with_keys = pytree.SUPPORTED_NODES[namedtuple].flatten_with_keys_fn
    assert with_keys is not None
    assert with_keys(Pair(1, 2)) == (
        [(pytree.GetAttrKey("a"), 1), (pytree.GetAttrKey("b"), 2)],
        Pair,
    )
    with pytest.raises(TypeError):
        pytree.SUPPORTED_NODES[Own] = None  # type: ignore[index]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_spec_is_made_from_its_parts_and_travels(tree: Any) -> None:
    spec = pytree.tree_structure(tree)
    assert pytree.TreeSpec(spec.type, spec.context, spec.children()) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec
    if not isinstance(tree, Pair):
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_specs_of_registered_classes_are_written_by_their_names(registered: None) -> None:
    pytree.register_pytree_node(
        Own,
        lambda o: ([o.value], o.name),
        lambda children, name: Own(*children, name),
        serialized_type_name="own",
    )
    pytree._register_namedtuple(Pair, serialized_type_name="pair")
    spec = pytree.tree_structure((Own(1, Mode.FAST), Pair(2, 3)))
    text = pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(text) == spec
    assert pytree.treespec_pprint(pytree.tree_structure(Pair(2, [3]))) == "Pair(a=*, b=[*])"
    assert pytree.tree_leaves(Pair(1, 2)) == [1, 2]


def test_a_text_cannot_name_what_is_called() -> None:
    text = pytree.treespec_dumps(pytree.tree_structure(defaultdict(list)))
    for module, name in (("os", "getcwd"), ("builtins", "eval")):
        changed = text.replace('"builtins"', json.dumps(module)).replace('"list"', json.dumps(name))
        assert changed != text
        with pytest.raises(NotImplementedError, match=f"{module}.{name} is not read"):
            pytree.treespec_loads(changed)


def test_specs_are_built_from_specs() -> None:
    leaf = pytree.treespec_leaf()
    assert pytree.treespec_tuple([leaf, leaf]) == pytree.tree_structure((1, 2))
    assert pytree.treespec_dict({"b": leaf}, a=leaf) == pytree.tree_structure({"b": 1, "a": 2})


def test_a_prefix_is_spread_over_what_is_below_it() -> None:
    spec = pytree.tree_structure(({"a": 1, "b": 2}, 3))
    spread = pytree._broadcast_to_and_flatten
    assert spread(0, spec) == [0, 0, 0]
    assert spread((0, None), spec) == [0, 0, None]
    assert spread(({"a": 1, "b": 2}, 0), spec) == [1, 2, 0]
    assert spread([0, 1], spec) is None
    assert spread((0, 1, 2), spec) is None
