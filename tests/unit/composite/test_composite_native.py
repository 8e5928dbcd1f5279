"""The short way of composite arithmetic: what it takes on, and that it changes no result.

Every case is computed by the native method and by the one in Python behind it (``__wrapped__``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.composite import VectorSpace


@ad.composite(arithmetic=True)
@dataclass
class Flat:
    x: Any
    v: Any


@ad.composite(arithmetic=True)
@dataclass(frozen=True, slots=True)
class Slots:
    x: Any
    label: Any = "here"


@ad.composite(arithmetic=True)
@dataclass
class Tree:
    parts: Any
    inner: Any
    count: Any = 3
    names: Any = field(default_factory=tuple)


@ad.composite(arithmetic=True)
class Plain:
    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


@ad.composite(arithmetic=True)
@dataclass
class Cached:
    x: Any

    @cached_property
    def size(self) -> Any:
        return self.x.sum()


def t(*values: float, grad: bool = True) -> Any:
    return ad.tensor(values, dtype=ad.float64, requires_grad=grad)


def twice() -> Any:
    x = t(1.0, 2.0)
    return Flat(x, x)


def with_more() -> Any:
    state = Flat(t(1.0), t(2.0))
    state.extra = t(3.0)  # type: ignore[attr-defined]
    return state


def with_cache() -> Any:
    state = Cached(t(1.0, 2.0))
    assert state.size.item() == 3.0
    return state


MAKERS = {
    "flat": lambda: Flat(t(1.0, 2.0), t(3.0)),
    "slots": lambda: Slots(t(1.0, 2.0), "there"),
    "nested": lambda: Tree(
        [t(1.0), (t(2.0), Slots(t(4.0)))], Flat(t(5.0), t(6.0)), 4, (None, True)
    ),
    "dict": lambda: Tree({"a": t(1.0)}, t(2.0)),
    "plain class": lambda: Plain(a=t(1.0), b=[t(2.0)], c="c"),
    "twice": twice,
    "integers": lambda: Flat(t(1.0), ad.arange(3)),
    "parameter": lambda: Flat(ad.nn.Parameter(ad.ones(2)), t(1.0)),
    "more": with_more,
    "cached": with_cache,
    "no gradients": lambda: Flat(t(1.0, grad=False), t(2.0, grad=False)),
    "complex": lambda: Flat(ad.tensor([1 + 2j]), t(1.0)),
    "wide": lambda: Plain(**{f"x{i}": t(float(i)) for i in range(300)}),
}
OPERATIONS = {
    "__add__": lambda s: (s, s * 3),
    "__sub__": lambda s: (s, s * 3),
    "__mul__": lambda s: (s, 2.5),
    "__rmul__": lambda s: (s, 2),
    "__truediv__": lambda s: (s, ad.tensor(4.0)),
    "__neg__": lambda s: (s,),
    "dot": lambda s: (s, s * 2),
}


def same(a: Any, b: Any) -> None:
    (xs, first), (ys, second) = ad.flatten(a), ad.flatten(b)
    assert first == second
    assert [x.requires_grad for x in xs] == [y.requires_grad for y in ys]
    assert [id(x) in map(id, xs[:i]) for i, x in enumerate(xs)] == [
        id(y) in map(id, ys[:i]) for i, y in enumerate(ys)
    ]
    for x, y in zip(xs, ys, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", MAKERS)
def test_the_short_way_gives_what_the_long_one_gives(kind: str, operation: str) -> None:
    state = MAKERS[kind]()
    args = OPERATIONS[operation](state)
    method = vars(VectorSpace)[operation]
    if operation == "dot":
        simple = ad._core._vector_pairs(*args)
        closer = ("dict", "twice", "integers", "parameter", "more", "cached")
        assert (simple is None) == (kind in closer)
        total = sum((a * b).sum() for a, b in _pairs(*args))
        np.testing.assert_allclose(method(*args).detach().numpy(), total.detach().numpy())
        return
    short, long = method(*args), method.__wrapped__(*args)
    assert type(short) is type(long)
    same(short, long)


def _pairs(a: Any, b: Any) -> list[tuple[Any, Any]]:
    each = {id(x): (x, y) for x, y in zip(ad.flatten(a)[0], ad.flatten(b)[0], strict=True)}
    return [(x, y) for x, y in each.values() if x.is_floating_point() or x.is_complex()]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (Flat(t(1.0), t(2.0)), Flat(t(1.0, 2.0), t(2.0)), r"flat\.x: expected \[1\], got \[2\]"),
        (Slots(t(1.0), "a"), Slots(t(1.0), "b"), r"slots\.label: expected 'a', got 'b'"),
        (Tree([t(1.0)], None), Tree([t(1.0), t(2.0)], None), "expected 1 items, got 2"),
        (Tree(t(1.0), None), Tree(None, t(1.0)), r"tree\.inner: expected None"),
    ],
)
def test_refusals_are_those_of_the_long_way(a: Any, b: Any, message: str) -> None:
    for operation in (lambda: a + b, lambda: a - b, lambda: a.dot(b)):
        with pytest.raises(ValueError, match=message):
            operation()


def test_nodes_have_the_line_of_the_user() -> None:
    state = Flat(t(1.0), t(2.0))
    line = sys._getframe().f_lineno + 1
    result = state + 0.5 * state
    assert result.x.grad_fn.source == (__file__, line)


def test_numbers_on_the_left_that_are_no_plain_numbers() -> None:
    state = Flat(t(1.0), t(2.0))
    for factor in (np.float64(2.0), True, 2j, ad.tensor(2.0)):
        same(factor * state, Flat(factor * state.x, factor * state.v))
    with pytest.raises(TypeError):
        state * "2"
    with pytest.raises(TypeError):
        state + 1


def test_an_error_of_an_operation_is_not_hidden() -> None:
    def refuse(tensor: Any) -> Any:
        raise ZeroDivisionError("nothing is saved today")

    state = Flat(t(1.0), t(2.0))
    with (
        ad.autograd.graph.saved_tensors_hooks(refuse, lambda x: x),
        pytest.raises(ZeroDivisionError, match="today"),
    ):
        state * ad.tensor(2.0, requires_grad=True)


def test_methods_look_like_those_they_stand_for() -> None:
    assert VectorSpace.__add__.__name__ == "__add__"
    assert Flat.__dict__["__add__"] is vars(VectorSpace)["__add__"]
    assert sum([Flat(t(1.0), t(2.0))] * 2).x.item() == 2.0  # type: ignore[call-overload]


def test_nothing_is_leaked() -> None:
    import gc

    state = Tree([t(1.0)], Flat(t(2.0), t(3.0)), 4)
    wrong = Tree([t(1.0)], Flat(t(2.0), t(3.0, 4.0)), 4)

    def counts_after(rounds: int) -> list[int]:
        for _ in range(rounds):
            made = -(state + 0.5 * state)
            with pytest.raises(ValueError, match="expected"):
                state + wrong
        del made
        gc.collect()
        things = (state, state.parts[0], state.inner, state.inner.x, Tree, Flat)
        return [sys.getrefcount(thing) for thing in things]

    before = counts_after(1)  # what is kept for each class is made by its first use
    assert counts_after(50) == before
