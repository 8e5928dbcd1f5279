"""adjoint._tree: structures taken apart and put together again."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

import adjoint as ad
from adjoint import _tree

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Plain:
    x: Any
    y: Any = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    x: Any
    y: Any = 2


@dataclasses.dataclass
class Late:
    x: Any
    y: Any = dataclasses.field(init=False)

    def __post_init__(self):
        if not isinstance(self.x, int):
            raise TypeError("x must be an int")
        self.cache = "kept"


@pytest.mark.parametrize(
    "tree",
    [
        [1, (2, 3)],
        {"b": 1, "a": [2]},
        Pair(1, {"x": 2}),
        OrderedDict(b=1, a=2),
        Plain(1, [2, 3]),
        Strict(x=Plain(1), y=(2,)),
        [None, 1],
        (),
        {},
    ],
    ids=repr,
)
def test_what_is_taken_apart_can_be_put_together(tree):
    leaves, spec = _tree.flatten(tree)
    again = _tree.unflatten(spec, leaves)
    assert again == tree
    assert type(again) is type(tree)


def test_tensors_numbers_strings_and_none_are_leaves():
    for leaf in (ad.ones(2), 3, "text", None, object(), ad.ones(2).shape):
        leaves, spec = _tree.flatten(leaf)
        assert spec.is_leaf()
        assert leaves == [leaf] or leaves[0] is leaf
        assert not _tree.is_structure(leaf)
    assert _tree.is_structure([])
    assert _tree.is_structure(Plain(1))


def test_dataclasses_are_rebuilt_without_their_init():
    value = Late(3)
    leaves, spec = _tree.flatten(value)
    assert leaves == [3]  # y has no value yet
    other = _tree.unflatten(spec, ["no int"])
    assert other.x == "no int"
    assert other.cache == "kept"
    assert not hasattr(other, "y")


def test_paths_read_like_python():
    _, spec = _tree.flatten({"w": [1, Plain(2)], "p": Pair(3, 4)})
    assert _tree.paths(spec, "s") == [
        "s['p'].a",
        "s['p'].b",
        "s['w'][0]",
        "s['w'][1].x",
        "s['w'][1].y",
    ]


def test_leaves_like_takes_none_for_a_part():
    _, spec = _tree.flatten({"a": [1, 2], "b": Plain(3, 4)})
    assert _tree.leaves_like(spec, None, "t") == [None] * 4
    assert _tree.leaves_like(spec, {"a": None, "b": Plain(5, None)}, "t") == [None, None, 5, None]
    assert _tree.leaves_like(spec, {"a": (1, 2), "b": None}, "t") == [1, 2, None, None]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1], r"t: expected a dict, got a list"),
        ({"a": [1, 2]}, r"t: expected the entries 'a', 'b', got the entries 'a'"),
        ({"a": [1], "b": None}, r"t\['a'\]: expected 2 items, got 1 items"),
        ({"a": None, "b": 3}, r"t\['b'\]: expected a Plain, got 3"),
        ({"a": None, "b": Plain(1, [2])}, None),
    ],
)
def test_leaves_like_names_what_differs(tree, message):
    _, spec = _tree.flatten({"a": [1, 2], "b": Plain(3, 4)})
    if message is None:
        assert _tree.leaves_like(spec, tree, "t") == [None, None, 1, [2]]
    else:
        with pytest.raises(ValueError, match=message):
            _tree.leaves_like(spec, tree, "t")
