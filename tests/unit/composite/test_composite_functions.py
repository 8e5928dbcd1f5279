"""What one does with a tensor, done with a composite; tensors are treated as ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad


@dataclass
class State:
    x: Any
    steps: Any = 0
    name: str = "s"


class Pair(NamedTuple):
    a: Any
    b: Any


def t(*values: float) -> ad.Tensor:
    return ad.tensor(values)


def test_requires_grad_asks_all_tensors_that_can() -> None:
    state = State([t(1.0), {"z": ad.tensor(1j)}], ad.tensor(3))
    assert ad.requires_grad(state) is state
    assert state.x[0].requires_grad and state.x[1]["z"].requires_grad
    assert not state.steps.requires_grad
    ad.requires_grad(state, False)
    assert not state.x[0].requires_grad
    x = t(1.0)
    assert ad.requires_grad(x) is x and x.requires_grad


def test_requires_grad_refuses_before_it_changes_anything() -> None:
    with pytest.raises(
        RuntimeError, match=r"floating point.* composite\['n'\] has dtype torch.int"
    ):
        ad.requires_grad({"n": ad.tensor(1)})
    x = ad.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf variables, and state.x\[1\] was computed"):
        ad.requires_grad(State([x, x * 2]), False)
    assert x.requires_grad


def test_grads_and_zero_grad() -> None:
    x, y = ad.ones(2, requires_grad=True), ad.ones(1, requires_grad=True)
    state = State({"x": x, "y": y}, steps=ad.tensor(1), name="n")
    (x * 3).sum().backward()
    gradients = ad.grads(state)
    assert isinstance(gradients, State) and gradients.x["x"].tolist() == [3.0, 3.0]
    assert gradients.x["y"] is None and gradients.steps is None and gradients.name == "n"
    ad.zero_grad(state, set_to_none=False)
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0]
    ad.zero_grad(state)
    assert x.grad is None
    assert ad.grads(x) is None


def test_zero_grad_detaches_gradients_with_a_history() -> None:
    x = ad.ones(1, requires_grad=True)
    x.grad = (x * 2).clone()
    ad.zero_grad([x], set_to_none=False)
    assert x.grad.tolist() == [0.0] and not x.grad.requires_grad


def test_detach_and_clone() -> None:
    x = ad.ones(2, requires_grad=True)
    pair = Pair(x, x * 2)
    plain, copy = ad.detach(pair), ad.clone(pair)
    assert isinstance(plain, Pair) and not plain.a.requires_grad and not plain.b.requires_grad
    assert plain.a.data_ptr() == x.data_ptr()
    assert isinstance(copy, Pair) and copy.a.data_ptr() != x.data_ptr()
    copy.a.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]
    assert ad.clone(input=[x])[0].requires_grad
    assert ad.clone([x], memory_format=ad.contiguous_format)[0].tolist() == [1.0, 1.0]


def test_tensors_are_treated_as_ever() -> None:
    x = ad.arange(6.0).reshape(2, 3)
    assert ad.flatten(x).shape == (6,) and ad.flatten(x, start_dim=1).shape == (2, 3)
    assert ad.unflatten(ad.ravel(x), 0, (3, 2)).shape == (3, 2)
    assert ad.detach(x).data_ptr() == x.data_ptr() and ad.clone(x).equal(x)
    assert ad.numel(x) == 6 and ad.allclose(x, x) and ad.nbytes(x) == 24
    assert ad.to(x, ad.int32).dtype is ad.int32
    with pytest.raises(TypeError, match=r"must be Tensor, not int"):
        ad.clone(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"allclose\(\)"):
        ad.allclose(x, "x")  # type: ignore[arg-type]


def test_to_converts_floating_point_tensors_only() -> None:
    state = ad.to(State([t(1.0)], ad.tensor(2)), ad.float64)
    assert state.x[0].dtype is ad.float64 and state.steps.dtype is ad.int64
    assert ad.to(state, dtype=ad.float32).x[0].dtype is ad.float32
    assert ad.to(state, "cpu").x[0] is state.x[0]
    with pytest.raises(TypeError, match=r"floating point or complex dtypes only, got torch.int64"):
        ad.to(state, ad.int64)


def test_map_takes_several_composites() -> None:
    a, b = State([t(1.0), t(2.0)]), State([t(10.0), None])
    total = ad.map(lambda x, y: x if y is None else x + y, a, b)
    assert [x.tolist() for x in total.x] == [[11.0], [2.0]]
    shapes = ad.map(lambda x: x.ndim, a)
    assert shapes.x == [1, 1]
    rates = ad.map(lambda x, rate: x * rate, {"w": t(1.0)}, {"w": 0.5})
    assert rates["w"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (State([t(1.0), {"k": t(1.0)}], name="u"), "state.name: expected 's', got 'u'"),
        (State([t(1.0), {"k": t(1.0)}], 5), "state.steps: expected 0, got 5"),
        (State([t(1.0)]), r"state.x: expected 2 items, got 1 items"),
        (State((t(1.0), {"k": t(1.0)})), "state.x: expected a list, got a tuple"),
        (
            State([t(1.0), {"j": t(1.0)}]),
            r"state.x\[1\]: expected the entries 'k', got the entries 'j'",
        ),
        (State([t(1.0), t(1.0)]), r"state.x\[1\]: expected a dict, got a tensor \[1\]"),
        (State([[t(1.0)], {"k": t(1.0)}]), r"state.x\[0\]: expected a tensor, got a list"),
        (None, "state: expected a State, got None"),
        (t(1.0), r"state: expected a State, got a tensor \[1\]"),
    ],
)
def test_map_names_the_first_difference(other: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"map\(\): " + message):
        ad.map(lambda x, y: x, State([t(1.0), {"k": t(1.0)}]), other)


def test_counts() -> None:
    state = {"a": ad.ones(2, 3), "b": [ad.ones(4, dtype=ad.float64), "x"]}
    assert ad.numel(state) == 10 and ad.nbytes(state) == 56


def test_allclose_compares_composites() -> None:
    a = State([t(1.0, 2.0)], ad.tensor(1))
    assert ad.allclose(a, ad.clone(a))
    assert not ad.allclose(a, ad.map(lambda x: x + 1, a))
    assert ad.allclose(a, ad.map(lambda x: x + 1, a), atol=2.0)
    nan = [t(float("nan"))]
    assert not ad.allclose(nan, nan) and ad.allclose(nan, nan, equal_nan=True)
    with pytest.raises(ValueError, match=r"allclose\(\): state.x\[0\]: expected \[2\], got \[1\]"):
        ad.allclose(a, State([t(1.0)], ad.tensor(1)))
    with pytest.raises(
        RuntimeError, match=r"state.x\[0\]: expected torch.float32, got torch.float64"
    ):
        ad.allclose(a, ad.to(a, ad.float64))


def test_ravel_and_back_is_differentiable() -> None:
    state = ad.requires_grad({"w": ad.arange(4.0).reshape(2, 2), "b": ad.tensor(5.0), "n": "x"})
    vector, unravel = ad.ravel(state)
    assert vector.tolist() == [5.0, 0.0, 1.0, 2.0, 3.0] and vector.requires_grad
    again = unravel(vector * 2)
    assert again["w"].tolist() == [[0.0, 2.0], [4.0, 6.0]] and again["n"] == "x"
    (again["w"] ** 2).sum().backward()
    assert state["w"].grad.tolist() == [[0.0, 8.0], [16.0, 24.0]]
    assert "vector [5]" in repr(unravel)
    for wrong, got in ((ad.ones(4), r"\[4\]"), (ad.ones(5, 1), r"\[5, 1\]"), ("x", "str")):
        with pytest.raises(ValueError, match=rf"unravel\(\): expected a vector \[5\], got {got}"):
            unravel(wrong)


def test_ravel_promotes_dtypes_and_gives_them_back() -> None:
    state = {"a": t(1.0), "b": ad.tensor([2.0], dtype=ad.float64), "c": ad.tensor([3 + 4j])}
    state["n"] = ad.tensor([7])
    vector, unravel = ad.ravel(state)
    assert vector.dtype is ad.complex128 and vector.numel() == 3
    again = unravel(vector)
    assert [again[k].dtype for k in "abcn"] == [ad.float32, ad.float64, ad.complex64, ad.int64]
    assert again["n"] is state["n"] and ad.allclose(state, again)
    empty, rebuild = ad.ravel([])
    assert empty.numel() == 0 and rebuild(empty) == []


def test_describe_shows_the_tree() -> None:
    w = ad.ones(3, requires_grad=True)
    state = State({"w": w, "tied": Pair(w, "x" * 100)}, np.arange(2))
    assert ad.describe(state).splitlines() == [
        "State: 1 tensor, 3 elements, 12 bytes",
        "  x: dict",
        "    ['tied']: Pair",
        "      a: float32 [3] requires_grad",
        "      b: '" + "x" * 56 + "...",
        "    ['w']: float32 [3] requires_grad, the tensor at x['tied'].a",
        "  steps: array([0, 1])",
        "  name: 's'",
    ]
    assert ad.describe(w) == "float32 [3] requires_grad: 1 tensor, 3 elements, 12 bytes"
    assert ad.describe([t(1.0)] * 25).endswith("  ... 5 more")


def test_decorated_classes_print_as_trees() -> None:
    @ad.composite
    @dataclass
    class Tree:
        x: Any

    @ad.composite
    @dataclass
    class Quiet:
        x: Any

        def __repr__(self) -> str:
            return "quiet"

    assert repr(Tree(t(1.0))) == "Tree: 1 tensor, 1 element, 4 bytes\n  x: float32 [1]"
    assert repr(Tree(None)) == "Tree: 0 tensors, 0 elements, 0 bytes\n  x: None"
    assert repr(Quiet(t(1.0))) == "quiet"
    assert "tensor([1.])" in repr(State(t(1.0)))  # a dataclass of its own keeps its repr


def test_a_tensor_in_two_places_stays_one_tensor() -> None:
    w = t(1.0, 2.0)
    state = {"a": w, "b": [w, t(3.0)]}
    for made in (
        ad.clone(state),
        ad.detach(state),
        ad.to(state, ad.float64),
        ad.map(lambda x: x + 1, state),
        ad.map(lambda x, y: x + y, state, state),
        ad.ravel(state)[1](ad.ones(3)),
    ):
        assert made["a"] is made["b"][0]
    assert ad.numel(state) == 3 and ad.nbytes(state) == 12
    apart = ad.map(lambda x, y: x + y, state, {"a": t(0.0), "b": [t(1.0), t(1.0)]})
    assert apart["a"].tolist() == [1.0, 2.0] and apart["b"][0].tolist() == [2.0, 3.0]
