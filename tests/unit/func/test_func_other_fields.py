"""Transforms of composites with fields that are not tensors: carried along, and compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint import func


@dataclasses.dataclass
class State:
    position: ad.Tensor
    mass: Any = 2.0
    name: str = "ball"
    force: Callable[[Any], Any] | None = None
    steps: Any = 3


class Pair(NamedTuple):
    value: Any
    unit: Any


def spring(x: Any) -> Any:
    return x**3


def state(**changes: Any) -> State:
    return State(ad.tensor([1.0, 2.0], dtype=ad.float64), force=spring, **changes)


def energy(s: State) -> Any:
    assert s.force is spring and s.name == "ball" and s.steps == 3
    return s.mass * s.force(s.position).sum()


def check_rest(s: Any) -> None:
    assert type(s) is State
    assert (s.mass, s.name, s.force, s.steps) == (2.0, "ball", spring, 3)


GRADIENT = [6.0, 24.0]
HESSIAN = [[12.0, 0.0], [0.0, 24.0]]
DIRECTION = State(ad.tensor([1.0, 0.0], dtype=ad.float64), force=spring)


def test_gradients_have_the_structure_with_the_rest_untouched() -> None:
    found = [
        func.grad(energy)(state()),
        func.grad_and_value(energy)(state())[0],
        func.value_and_grad(energy)(state())[1],
        func.grad(energy, argnums=(0,))(state())[0],
        func.vjp(energy, state())[1](ad.tensor(1.0, dtype=ad.float64))[0],
        func.jacrev(energy)(state()),
        func.jacrev(energy, chunk_size=1)(state()),
        func.jacfwd(energy)(state()),
    ]
    for g in found:
        check_rest(g)
        assert g.position.tolist() == GRADIENT


def test_directions_and_products() -> None:
    value, moved = func.jvp(energy, (state(),), (DIRECTION,))
    assert (value.item(), moved.item()) == (18.0, 6.0)
    value, push = func.linearize(energy, state())
    assert push(DIRECTION).item() == 6.0
    for product in (func.hvp, func.vhp):
        value, (column,) = product(energy, (state(),), (DIRECTION,))
        check_rest(column)
        assert value.item() == 18.0
        assert column.position.tolist() == HESSIAN[0]


def test_hessians() -> None:
    for make in (
        func.hessian(energy),
        func.jacrev(func.grad(energy)),
        func.jacfwd(func.grad(energy)),
    ):
        h = make(state())
        check_rest(h)
        check_rest(h.position)
        assert h.position.position.tolist() == HESSIAN


def test_sparse_derivatives() -> None:
    pytest.importorskip("scipy")
    assert func.hessian(energy, sparsity="detect")(state()).toarray().tolist() == HESSIAN
    rate = func.jacobian(lambda s: State(s.mass * s.position, name="rate"))
    assert rate(state()).toarray().tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert func.sparsity(energy)(state()).shape == (1, 2)


def test_results_are_carried_and_cotangents_compared() -> None:
    def step(s: State) -> State:
        return State(s.position * 2, s.mass, "moved", s.force)

    value, pull = func.vjp(step, state())
    assert value.name == "moved" and value.force is spring
    (g,) = pull(value)
    check_rest(g)
    assert g.position.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError, match=r"state\.name: expected 'moved', got 'ball'"):
        pull(state())
    value, moved = func.jvp(step, (state(),), (DIRECTION,))
    assert moved.name == "moved" and moved.position.tolist() == [2.0, 0.0]
    with pytest.raises(RuntimeError, match=r"tangents: state\.mass: expected 2\.0, got 1\.0"):
        func.jvp(step, (state(),), (state(mass=1.0),))
    jacobian = func.jacfwd(step)(state())
    assert jacobian.name == "moved"
    check_rest(jacobian.position)


def test_integer_tensors_have_no_gradient() -> None:
    counts = ad.tensor([1, 2])

    def f(s: State) -> Any:
        assert s.steps is counts or s.steps.dtype == ad.int64
        return (s.position * s.steps).sum()

    s = state(steps=counts)
    for g in (func.grad(f)(s), func.jacrev(f)(s), func.jacfwd(f)(s)):
        assert g.steps is None and g.position.tolist() == [1.0, 2.0]
    assert func.jvp(f, (s,), (func.grad(f)(s),))[1].item() == 5.0
    with pytest.raises(RuntimeError, match="floating point"):
        func.grad(lambda n: n.sum())(counts)


def test_structures_of_every_kind() -> None:
    x = ad.tensor(3.0)
    assert func.grad(lambda t: t[0] ** t[1])((x, 2)) == (ad.tensor(6.0), 2)
    g = func.grad(lambda d: d["x"] * d["k"])({"x": x, "k": 5, "none": None})
    assert g == {"x": ad.tensor(5.0), "k": 5, "none": None}
    assert func.grad(lambda p: p.value**2)(Pair(x, "m")) == Pair(ad.tensor(6.0), "m")


def test_vmap_gives_each_sample_what_is_no_tensor() -> None:
    batch = State(ad.tensor([[1.0, 2.0], [0.0, 1.0], [2.0, 0.0]], dtype=ad.float64), force=spring)
    assert func.vmap(energy)(batch).tolist() == [18.0, 2.0, 16.0]
    assert func.vmap(energy, in_dims=(0,))(batch).tolist() == [18.0, 2.0, 16.0]
    dims = State(0, None, None, None, None)  # type: ignore[arg-type]
    assert func.vmap(energy, in_dims=(dims,))(batch).tolist() == [18.0, 2.0, 16.0]
    for chunk_size in (None, 2):
        g = func.vmap(func.grad(energy), chunk_size=chunk_size)(batch)
        check_rest(g)
        assert g.position.tolist() == [[6.0, 24.0], [0.0, 6.0], [24.0, 0.0]]
    g, value = func.vmap(func.grad_and_value(energy))(batch)
    check_rest(g)
    assert value.tolist() == [18.0, 2.0, 16.0]


def test_vmap_compares_what_chunks_return() -> None:
    names = iter("ab")
    with pytest.raises(ValueError, match=r"output\['name'\].*differs between chunks: 'a' and 'b'"):
        func.vmap(lambda x: {"x": x, "name": next(names)}, chunk_size=1)(ad.ones(2))


def test_dims_of_dicts_are_matched_by_key() -> None:
    batch = {10: ad.ones(2, 3), 2: ad.zeros(3, 2)}
    out = func.vmap(lambda d: d[10].sum() + d[2].sum(), in_dims=({2: 1, 10: 0},))(batch)
    assert out.tolist() == [3.0, 3.0]


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: func.grad(energy)(2.0), r"^grad\(f\)"),
    (lambda: func.value_and_grad(energy)(2.0), r"^value_and_grad\(f\)"),
    (lambda: func.grad_and_value(energy)(2.0), r"^grad_and_value\(f\)"),
    (lambda: func.vjp(energy, 2.0), r"^vjp\(f"),
    (lambda: func.linearize(energy, 2.0), r"^linearize\(f"),
    (lambda: func.jacrev(energy)(2.0), r"^jacrev\(f"),
    (lambda: func.jacfwd(energy)(2.0), r"^jacfwd: "),
    (lambda: func.hessian(energy)(2.0), r"^hessian: "),
    (lambda: func.jvp(energy, (2.0,), (2.0,)), r"^jvp\(f"),
    (lambda: func.hvp(energy, (2.0,), (2.0,)), r"^hvp\(f"),
    (lambda: func.vhp(energy, (2.0,), (2.0,)), r"^vhp\(f"),
    (lambda: func.jacobian(energy)(2.0), r"^jacobian\(f"),
    (lambda: func.hessian(energy, sparsity="detect")(2.0), r"^hessian\(f"),
]


@pytest.mark.parametrize(("call", "name"), CALLS)
def test_refusals_name_the_call_the_place_and_the_fix(call: Callable[[], Any], name: str) -> None:
    pytest.importorskip("scipy")
    with pytest.raises((ValueError, RuntimeError), match=name) as info:
        call()
    assert "float: 2.0 for " in str(info.value) and (
        "[0]" in str(info.value) or "for input" in str(info.value)
    )
    assert "\n  fix: " in str(info.value)


def test_refusals_name_the_leaf() -> None:
    x = ad.ones(2)
    with pytest.raises(ValueError, match=r"^grad\(f\).*none of.*state\.position \(1\.5\)"):
        func.grad(energy)(State(1.5))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"^hessian\(f\).*f\(\*primals\) to return only tensors"):
        func.hessian(lambda x: 3.0)(x)
    with pytest.raises(RuntimeError, match=r"^grad\(f\).*scalar tensor"):
        func.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match=r"^jacrev: Expected all inputs .*\(state\.position\)"):
        func.jacrev(energy)(State(ad.ones(2, dtype=ad.complex64)))
    with pytest.raises(RuntimeError, match=r"return only tensors.*int: 3 \(output\[1\]\)"):
        func.vjp(lambda x: (x, 3), x)
