"""Forward mode of every op and sample: the tangent against differences and against the gradient,
and second derivatives by all four combinations of forward and reverse.

J and H are the derivatives of a sample's outputs; u, v and w directions. Everything is compared as
one number: ⟨u, Jv⟩ with ⟨Jᵀu, v⟩, and the second derivative of ⟨u, f⟩ along v and w.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import forward_ad as fw
from tests.ops.samples import OPS
from tests.ops.spec import Array, outputs, to_library, to_numpy
from tests.ops.test_derivatives import DIFFERENCED, Problem, drawn_like, problems
from tests.ops.test_inplace import INPLACE, calls, edit
from tests.reference.finite import STEP, inner

# Two ways to one number in float64: they differ by rounding alone.
RTOL, ATOL = 1e-9, 1e-9


def tensors(arrays: Sequence[Array]) -> list[Any]:
    return [to_library(a, ad) for a in arrays]


def duals(values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    return [fw.make_dual(x, t) for x, t in zip(values, tangents, strict=True)]


def tangents_of(values: Sequence[Any]) -> list[Any]:
    found = [fw.unpack_dual(y).tangent for y in values]
    return [ad.zeros_like(y) if t is None else t for y, t in zip(values, found, strict=True)]


def directions(problem: Problem, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [drawn_like(x, rng) for x in problem.inputs]


def jvp(problem: Problem, vs: Sequence[Array]) -> list[Array]:
    with fw.dual_level():
        ys = problem.call(duals(tensors(problem.inputs), tensors(vs)))
        return [to_numpy(t) for t in tangents_of(ys)]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", DIFFERENCED)
def test_the_tangent_and_the_gradient_are_transposes(name: str, dtype: str) -> None:
    for label, problem in problems(name, dtype):
        every = directions(problem, 1)
        grads, _, _ = problem.vjp([*problem.inputs, *problem.cotangents])
        alone = [
            [v if i == k else np.zeros_like(v) for i, v in enumerate(every)]
            for k in range(len(every) if len(every) > 1 else 0)
        ]
        for vs in [every, *alone]:
            forward = inner(problem.cotangents, jvp(problem, vs))
            reverse = inner(vs, [to_numpy(g) for g in grads])
            np.testing.assert_allclose(forward, reverse, RTOL, ATOL, err_msg=label)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", DIFFERENCED)
def test_the_tangent_is_the_limit_of_differences(name: str, dtype: str) -> None:
    for label, problem in problems(name, dtype)[::2]:
        vs = directions(problem, 1)
        got = jvp(problem, vs)
        ahead, behind = (
            problem.forward(
                [np.asarray(x + h * v) for x, v in zip(problem.inputs, vs, strict=True)]
            )
            for h in (STEP, -STEP)
        )
        for k, t in enumerate(got):
            assert t.shape == ahead[k].shape, label
            finite = np.isfinite(ahead[k])  # the logsumexp of nothing is not
            want = (ahead[k][finite] - behind[k][finite]) / (2 * STEP)
            np.testing.assert_allclose(t[finite], want, 1e-5, 2e-6, err_msg=label)


@pytest.mark.parametrize("name", DIFFERENCED)
def test_a_tangent_for_one_argument_alone_is_enough(name: str) -> None:
    """The other arguments have none at all, rather than zeros."""
    for label, problem in problems(name, "float64")[::2]:
        vs = directions(problem, 1)
        for k in range(len(vs)):
            only = [v if i == k else np.zeros_like(v) for i, v in enumerate(vs)]
            want = jvp(problem, only)
            with fw.dual_level():
                xs = tensors(problem.inputs)
                xs[k] = fw.make_dual(xs[k], to_library(vs[k], ad))
                got = [to_numpy(t) for t in tangents_of(problem.call(xs))]
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, 1e-12, 1e-12, err_msg=label)


def reverse_over_reverse(problem: Problem, vs: list[Array], ws: list[Array]) -> float:
    grads, xs, _ = problem.vjp([*problem.inputs, *problem.cotangents], create_graph=True)
    return along(grads, xs, ws, vs)


def forward_over_reverse(problem: Problem, vs: list[Array], ws: list[Array]) -> float:
    with fw.dual_level():
        leaves = [x.requires_grad_() for x in tensors(problem.inputs)]
        ys = problem.call(duals(leaves, tensors(vs)))
        found = ad.autograd.grad(ys, leaves, tensors(problem.cotangents), allow_unused=True)
        grads = [ad.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]
        return inner(ws, [to_numpy(t) for t in tangents_of(grads)])


def reverse_over_forward(problem: Problem, vs: list[Array], ws: list[Array]) -> float:
    leaves = [x.requires_grad_() for x in tensors(problem.inputs)]
    with fw.dual_level():
        out = tangents_of(problem.call(duals(leaves, tensors(vs))))
    return along(out, leaves, problem.cotangents, ws)


def forward_over_forward(problem: Problem, vs: list[Array], ws: list[Array]) -> float:
    with fw.dual_level():
        outer = duals(tensors(problem.inputs), tensors(ws))
        with fw.dual_level(nested=True):
            inside = tangents_of(problem.call(duals(outer, tensors(vs))))
        return inner(problem.cotangents, [to_numpy(t) for t in tangents_of(inside)])


def along(values: Sequence[Any], xs: Any, us: Sequence[Array], vs: Sequence[Array]) -> float:
    """The derivative of ⟨u, values⟩ in the directions v of the leaves."""
    used = [(y, u) for y, u in zip(values, tensors(us), strict=True) if y.requires_grad]
    if not used:
        return 0.0
    ys, cs = zip(*used, strict=True)
    grads = ad.autograd.grad(ys, xs, cs, allow_unused=True)
    return inner(
        vs, [to_numpy(ad.zeros_like(x) if g is None else g) for g, x in zip(grads, xs, strict=True)]
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", DIFFERENCED)
def test_second_derivatives_agree_in_any_order_of_modes(name: str, dtype: str) -> None:
    for label, problem in problems(name, dtype)[::2]:
        vs, ws = directions(problem, 1), directions(problem, 2)
        want = reverse_over_reverse(problem, vs, ws)
        for way in (forward_over_reverse, reverse_over_forward, forward_over_forward):
            got = way(problem, vs, ws)
            np.testing.assert_allclose(got, want, 1e-8, 1e-8, err_msg=f"{label}, {way.__name__}")


@pytest.mark.parametrize(
    "name", [n for n in INPLACE if OPS[n].diff and set("fc") & set(OPS[n].dtypes)]
)
def test_the_in_place_form_has_the_tangent_of_the_op(name: str) -> None:
    op = OPS[name]
    dtype = "float64" if "f" in op.dtypes else "complex128"
    for label, sample, _ in calls(op, dtype):
        x = to_library(sample.args[0], ad)
        t = ad.ones_like(x) * 0.75
        with fw.dual_level():
            call = sample.map(lambda a: to_library(a, ad))
            dual = fw.make_dual(x.clone(), t.clone())
            (y,) = outputs(op.function(ad)(dual, *call.args[1:], **call.kwargs))
            (want,) = tangents_of([y])
            edited = fw.make_dual(x.clone(), t.clone())
            edit(op, edited, sample, dtype)
            base = ad.zeros(2, *x.shape, dtype=x.dtype)
            before = base[1]  # a view older than the tangent
            base[1].copy_(fw.make_dual(x, t))
            edit(op, base[1], sample, dtype)
            for got in tangents_of([edited, before]):
                np.testing.assert_allclose(to_numpy(got), to_numpy(want), 1e-13, err_msg=label)
            assert not to_numpy(tangents_of([base])[0])[0].any(), label


def test_every_op_with_a_derivative_states_how_tangents_go_through_it() -> None:
    from adjoint import _core

    # Those two have no gradient either: they say so when it is asked for.
    without = {"scatter.reduce", "scatter.value_reduce"}
    assert {op["full_name"] for op in _core.op_table() if not op["forward_mode"]} == without
    with (
        fw.dual_level(),
        pytest.raises(NotImplementedError, match=r"forward AD with scatter\.reduce"),
    ):
        x = fw.make_dual(ad.ones(3), ad.ones(3))
        x.scatter(0, ad.tensor([1]), ad.ones(1), reduce="add")
