"""Structures drawn at random are taken apart, rebuilt, raveled, saved and differentiated."""

from __future__ import annotations

import io
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad

Point = namedtuple("Point", "x y")


@dataclass
class Node:
    left: Any
    right: Any
    tag: Any = "t"


@dataclass(frozen=True, slots=True)
class Box:
    held: Any


@ad.composite
class Own:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


def tensors() -> st.SearchStrategy[Any]:
    shapes = st.sampled_from([(), (1,), (3,), (2, 2), (0,)])
    return st.builds(lambda s, v: ad.full(s, v, dtype=ad.float64), shapes, st.integers(-3, 3))


def others() -> st.SearchStrategy[Any]:
    return st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.text(max_size=2) | st.integers(0, 5)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.builds(Point, inner, inner),
        st.builds(Node, inner, inner, others()),
        st.builds(Box, inner),
        st.builds(Own, inner, inner),
    )


# One tensor at least: what holds none is no composite.
composites = st.builds(
    lambda tree, t: {"tree": tree, "t": t},
    st.recursive(tensors() | others(), grown, max_leaves=8),
    tensors(),
)


@settings(max_examples=60, deadline=None)
@given(composites)
def test_round_trips(tree: Any) -> None:
    leaves, structure = ad.flatten(tree)
    again = ad.unflatten(structure, leaves)
    assert ad.flatten(again)[1] == structure
    assert all(a is b for a, b in zip(ad.flatten(again)[0], leaves, strict=True))
    vector, unravel = ad.ravel(tree)
    assert vector.numel() == ad.numel(tree) and ad.allclose(unravel(vector), tree)
    assert ad.describe(tree)
    buffer = io.BytesIO()
    ad.save(tree, buffer)
    buffer.seek(0)
    assert ad.allclose(ad.load(buffer, classes=[Point, Node, Box, Own]), tree)


@settings(max_examples=60, deadline=None)
@given(composites)
def test_the_gradient_of_a_sum_of_squares_is_twice_the_composite(tree: Any) -> None:
    ad.requires_grad(tree)
    squares = ad.map(lambda t: (t * t).sum(), tree)
    gradient = ad.autograd.grad(squares, tree)
    assert ad.allclose(gradient, ad.map(lambda t: 2 * t.detach(), tree))
