"""Externals inside compiled functions: host calls, repeated by every replay."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import CompileError


class Model:
    """Two results; counts its evaluations."""

    def __init__(self) -> None:
        self.evaluations = 0

    def __call__(self, s: Any, k: Any) -> Any:
        self.evaluations += 1
        return np.sin(s) * k.sum(), (s**2).sum()


def vector(n: int, grad: bool = True) -> ad.Tensor:
    return ad.randn(n, dtype=ad.float64).requires_grad_(grad)


def around(external: Any) -> Any:
    def f(s: Any, k: Any) -> Any:
        a, b = external(s * 2, k)
        return (a * a).sum() + b * k.sum()

    return f


OPTIONS: list[dict[str, Any]] = [
    {},
    {"derivative": "forward"},
    {"derivative": "richardson"},
    {"workers": "threads"},
    {
        "vjp": lambda grad, s, k: (
            grad[0] * np.cos(s) * k.sum() + 2 * s * grad[1],
            np.full(k.shape, (grad[0] * np.sin(s)).sum()),
        )
    },
    {
        "jvp": lambda tangents, s, k: (
            np.cos(s) * k.sum() * tangents[0] + np.sin(s) * tangents[1].sum(),
            (2 * s * tangents[0]).sum(),
        )
    },
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "central")
def test_values_and_gradients_are_those_of_the_eager_function(options: dict[str, Any]) -> None:
    f = around(ad.external(Model(), **options))
    g = ad.compile(f, fullgraph=True)
    for _ in range(3):
        s, k = vector(3), vector(2)
        expected, found = f(s, k), g(s, k)
        assert ad.equal(found, expected)
        for a, b in zip(
            ad.autograd.grad(found, (s, k)), ad.autograd.grad(expected, (s, k)), strict=True
        ):
            assert ad.equal(a, b)
    assert len(g.programs) == 1


def test_each_replay_evaluates_once_and_a_jacobian_serves_several_passes() -> None:
    model = Model()
    g = ad.compile(around(ad.external(model, probe=False)), fullgraph=True)
    s, k = vector(3), vector(2)
    g(s, k)
    assert model.evaluations == 1  # the backward was recorded without an evaluation
    result = g(s, k)
    assert model.evaluations == 2
    result.backward(retain_graph=True)
    after = model.evaluations
    assert after > 2
    first = s.grad.clone()
    result.backward()
    assert model.evaluations == after
    assert ad.equal(s.grad, 2 * first)


def test_two_replays_keep_their_own_points() -> None:
    f = around(ad.external(Model()))
    g = ad.compile(f, fullgraph=True)
    points = [(vector(3), vector(2)) for _ in range(3)]
    results = [g(*p) for p in points]
    for point, result in zip(points, results, strict=True):
        for a, b in zip(
            ad.autograd.grad(result, point), ad.autograd.grad(f(*point), point), strict=True
        ):
            assert ad.equal(a, b)


@pytest.mark.parametrize("name", ["grad", "jacrev", "jacfwd", "hessian"])
def test_transforms(name: str) -> None:
    transform = getattr(ad.func, name)
    f = around(ad.external(Model()))

    def of_s(s: Any) -> Any:
        return f(s, ad.ones(2, dtype=ad.float64))

    inside = ad.compile(transform(of_s), fullgraph=True)
    outside = transform(ad.compile(of_s, fullgraph=True))
    for _ in range(3):
        s = vector(3, False)
        expected = transform(of_s)(s)
        assert ad.equal(inside(s), expected)
        assert ad.equal(outside(s), expected)
    assert len(inside.programs) == 1


@pytest.mark.parametrize("batched", [False, True])
def test_vmap(batched: bool) -> None:
    external = ad.external(lambda s: np.sin(s).sum(-1), batched=batched)

    def f(s: Any) -> Any:
        return external(s * 2) * 3

    mapped = ad.func.vmap(f)
    g = ad.compile(mapped, fullgraph=True)
    for _ in range(3):
        s = ad.randn(4, 3, dtype=ad.float64)
        assert ad.equal(g(s), mapped(s))


def test_checkpoints() -> None:
    f = around(ad.external(Model()))

    def through(s: Any, k: Any) -> Any:
        return ad.utils.checkpoint.checkpoint(f, s, k, use_reentrant=False)

    g = ad.compile(through, fullgraph=True)
    for _ in range(3):
        s, k = vector(3), vector(2)
        found, expected = g(s, k), f(s, k)
        assert ad.equal(found, expected)
        for a, b in zip(
            ad.autograd.grad(found, (s, k)), ad.autograd.grad(expected, (s, k)), strict=True
        ):
            assert ad.equal(a, b)


def test_composites_and_static_arguments() -> None:
    @dataclass
    class State:
        x: Any
        n: Any

    def model(state: Any, power: int) -> Any:
        return {"y": state.x**power * state.n, "parity": np.asarray(state.n % 2)}

    external = ad.external(model, static=("power",))

    def f(x: Any, n: Any) -> Any:
        out = external(State(x, n), power=3)
        return out["y"].sum() * 2, out["parity"]

    g = ad.compile(f, fullgraph=True)
    for k in range(4):
        x, n = vector(3), ad.tensor(k + 1)
        found, expected = g(x, n), f(x, n)
        assert ad.equal(found[0], expected[0])
        assert ad.equal(found[1], expected[1])
        assert ad.equal(ad.autograd.grad(found[0], x)[0], ad.autograd.grad(expected[0], x)[0])


def test_second_derivatives_through_a_replay() -> None:
    f = around(ad.external(Model()))
    g = ad.compile(f, fullgraph=True)
    for _ in range(3):
        s, k = vector(3), vector(2)
        seconds = []
        for function in (f, g):
            (d,) = ad.autograd.grad(function(s, k), s, create_graph=True)
            seconds.append(ad.autograd.grad(d.sum(), s)[0])
        assert ad.equal(*seconds)


def test_a_c_function_in_a_compiled_step() -> None:
    libm = ctypes.CDLL("libm.so.6")
    sine = ad.ctypes_function(libm, "sin", ["double x"], restype="double")

    def step(x: Any) -> Any:
        (sine(x) * 2).backward()
        grad = x.grad
        x.grad = None
        return grad

    g = ad.compile(step, fullgraph=True)
    for _ in range(3):
        x = ad.rand((), dtype=ad.float64).requires_grad_()
        assert ad.equal(g(x), step(x))


def test_an_error_of_the_model_is_raised_by_the_replay_and_leaves_it_usable() -> None:
    def model(x: Any) -> Any:
        if x[0] > 10:
            raise ValueError("the model diverged")
        return x * 2

    external = ad.external(model)
    g = ad.compile(lambda x: external(x).sum())
    x = ad.ones(2, dtype=ad.float64)
    assert g(x).item() == 4.0
    assert g(x).item() == 4.0
    with pytest.raises(Exception, match="the model diverged"):
        g(x * 100)
    assert g(x).item() == 4.0


def test_a_result_of_another_shape_is_refused() -> None:
    external = ad.external(lambda x: np.ones(int(x[0])))
    g = ad.compile(lambda x: external(x) * 2)
    x = ad.tensor([3.0, 1.0], dtype=ad.float64)
    assert g(x).shape == (3,)
    with pytest.raises(RuntimeError, match="another kind"):
        g(x + 1)


def test_text_among_the_results_runs_eagerly() -> None:
    external = ad.external(lambda x: (x * 2, "done"))
    with pytest.raises(CompileError, match="more than numbers"):
        ad.compile(lambda x: external(x)[0], fullgraph=True)(vector(2))


def test_a_jacobian_serves_several_passes_where_nobody_else_holds_the_result() -> None:
    model = Model()
    external = ad.external(lambda s: model(s, np.ones(2))[0], probe=False)
    g = ad.compile(lambda s: external(s).sum(), fullgraph=True)
    s = vector(3)
    g(s)
    result = g(s)
    result.backward(retain_graph=True)
    after = model.evaluations
    result.backward(retain_graph=True)
    result.backward()
    assert model.evaluations == after
