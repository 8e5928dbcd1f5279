"""``utils._pytree`` against torch's: leaves, structures, what is printed, written and refused."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

from adjoint.utils import _pytree as ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.utils._pytree")

Pair = namedtuple("Pair", ["a", "b"])


class Own:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return f"Own{self.parts}"


for library in (ours, theirs):
    library.register_pytree_node(
        Own,
        lambda o: (list(o.parts), ["context", len(o.parts)]),
        lambda parts, _: Own(*parts),
        serialized_type_name="conformance.own",
        flatten_with_keys_fn=lambda o, keys=library: (
            [(keys.SequenceKey(i), p) for i, p in enumerate(o.parts)],
            None,
        ),
    )
    library._register_namedtuple(Pair, serialized_type_name="conformance.pair")

TREES: list[Any] = [
    1,
    None,
    (),
    {},
    [1, [2, ()]],
    {"b": 1, "a": {"c": 2}},
    {1: "x", "mixed": 2, None: 3},
    OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, {"x": [1, 2], "a": 3}),
    deque([1, (2, 3)], maxlen=5),
    deque([1]),
    Pair(1, (2, None)),
    Own(1, Own(), {"z": Own(2)}),
    (Pair([1], {"k": 2}), Own(3)),
    {"s": {1, 2}, "r": range(3), "t": "text"},
]

LOOKS: dict[str, Callable[[Any, Any], Any]] = {
    "leaves": lambda lib, tree: lib.tree_leaves(tree),
    "args": lambda lib, tree: lib.arg_tree_leaves(tree, 1, key=tree),
    "text": lambda lib, tree: repr(lib.tree_structure(tree)),
    "pprint": lambda lib, tree: lib.treespec_pprint(lib.tree_structure(tree)),
    "sizes": lambda lib, tree: [
        getattr(lib.tree_structure(tree), name)
        for name in ("type", "context", "num_nodes", "num_leaves", "num_children")
    ],
    "is_leaf": lambda lib, tree: (lib.tree_is_leaf(tree), lib.tree_structure(tree).is_leaf()),
    "stopped": lambda lib, tree: lib.tree_leaves(
        tree, is_leaf=lambda x: isinstance(x, dict | tuple)
    ),
    "paths": lambda lib, tree: [
        (lib.keystr(path), leaf, type(path[-1]).__name__ if path else "")
        for path, leaf in lib.tree_leaves_with_path(tree)
    ],
    "map": lambda lib, tree: repr(lib.tree_map(lambda x: (x, "mapped"), tree)),
    "map_two": lambda lib, tree: repr(lib.tree_map(lambda x, y: [x, y], tree, tree)),
    "map_with_path": lambda lib, tree: repr(
        lib.tree_map_with_path(lambda p, x: (lib.keystr(p), x), tree)
    ),
    "only": lambda lib, tree: repr(lib.tree_map_only(int, lambda x: -x, tree)),
    "dumps": lambda lib, tree: lib.treespec_dumps(lib.tree_structure(tree)),
    "loads": lambda lib, tree: (
        lib.treespec_loads(lib.treespec_dumps(lib.tree_structure(tree))) == lib.tree_structure(tree)
    ),
    "flat": lambda lib, tree: lib.tree_flatten_with_path(tree)[1] == lib.tree_structure(tree),
}


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns, or the class of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations
        try:
            return call()
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_looks_as_it_does_there(tree: Any, look: str) -> None:
    ask = LOOKS[look]
    assert answer(lambda: ask(ours, tree)) == answer(lambda: ask(theirs, tree))


@pytest.mark.parametrize("left", TREES, ids=repr)
def test_two_trees_agree_where_they_do_there(left: Any) -> None:
    for right in TREES:
        for ask in (
            lambda lib, right=right: lib.tree_structure(left) == lib.tree_structure(right),
            lambda lib, right=right: lib.tree_structure(left).flatten_up_to(right),
            lambda lib, right=right: lib._broadcast_to_and_flatten(left, lib.tree_structure(right)),
        ):
            found, wanted = (answer(lambda lib=lib, ask=ask: ask(lib)) for lib in (ours, theirs))
            assert found == wanted, (left, right)


def test_equal_structures_have_equal_hashes() -> None:
    for tree in TREES:
        assert hash(ours.tree_structure(tree)) == hash(ours.tree_structure(tree))
        built = ours.TreeSpec(
            ours.tree_structure(tree).type,
            ours.tree_structure(tree).context,
            ours.tree_structure(tree).children(),
        )
        assert built == ours.tree_structure(tree)
        assert hash(built) == hash(ours.tree_structure(tree))
