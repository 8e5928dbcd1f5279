"""First and second derivatives of every op and sample, by finite differences
(tests/reference/finite.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Array, Op, Sample, outputs, to_library, to_numpy
from tests.reference.finite import assert_gradient, inner

DIFFERENTIABLE = [n for n, op in OPS.items() if op.diff and set("fc") & set(op.dtypes)]
# A result in fewer digits than float64 cannot be differenced; casts are tested at the end.
NARROW = ("float32", "float16", "bfloat16")
# A gradient by convention, not by differentiation: the torch comparison covers it.
CONVENTION = {"embedding_padded", "embedding_scaled"}
DIFFERENCED = [n for n in DIFFERENTIABLE if OPS[n].out not in NARROW and n not in CONVENTION]
# Differencing a large sample costs a call per element; its value is tested, and its shape adds
# nothing.
LARGEST = 80


class Problem:
    """One sample as a function of its floating-point arrays, with cotangents for its outputs."""

    def __init__(self, op: Op, sample: Sample) -> None:
        self.op = op
        self.inputs: list[Array] = []
        constants = {k: v for k, v in sample.kwargs.items() if k in op.constants}
        self.constants = Sample((), constants).map(lambda a: to_library(a, ad)).kwargs
        varied = {k: v for k, v in sample.kwargs.items() if k not in op.constants}
        self.sample = Sample(sample.args, varied).map(self._collect)
        rng = np.random.default_rng(0)
        self.cotangents = [drawn_like(y, rng) for y in self.forward(self.inputs)]
        self.weights = [drawn_like(x, rng) for x in self.inputs]

    def _collect(self, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc":
            self.inputs.append(leaf)
        return leaf

    def call(self, tensors: Sequence[Any]) -> list[Any]:
        """The differentiable outputs for these input tensors."""
        rest = iter(tensors)
        call = self.sample.map(
            lambda a: (
                next(rest)
                if isinstance(a, np.ndarray) and a.dtype.kind in "fc"
                else to_library(a, ad)
            )
        )
        results = outputs(self.op.function(ad)(*call.args, **call.kwargs, **self.constants))
        return [y for y in results if carries_gradients(y)]

    def forward(self, arrays: Sequence[Array]) -> list[Array]:
        return [to_numpy(y) for y in self.call([to_library(a, ad) for a in arrays])]

    def size(self) -> int:
        return sum(x.size for x in self.inputs)

    def is_finite(self) -> bool:
        """Differences say nothing about NaN; gradients there are compared with torch's."""
        return all(bool(np.isfinite(x).all()) for x in self.inputs)

    def loss(self, arrays: Sequence[Array]) -> float:
        return inner(self.cotangents, self.forward(arrays))

    def vjp(self, arrays: Sequence[Array], create_graph: bool = False) -> tuple[Any, Any, Any]:
        """Gradients, and the tensors they were taken with respect to: inputs and cotangents."""
        n = len(self.inputs)
        xs = [to_library(a, ad).requires_grad_() for a in arrays[:n]]
        cs = [to_library(c, ad).requires_grad_(create_graph) for c in arrays[n:]]
        ys = self.call(xs)
        grads = ad.autograd.grad(ys, xs, cs, create_graph=create_graph, allow_unused=True)
        return (
            [g if g is not None else ad.zeros_like(x) for g, x in zip(grads, xs, strict=True)],
            xs,
            cs,
        )

    def gradient_loss(self, arrays: Sequence[Array]) -> float:
        """⟨w, vjp(x, c)⟩: a number whose gradient holds every second derivative."""
        return inner(self.weights, [to_numpy(g) for g in self.vjp(arrays)[0]])


def carries_gradients(y: Any) -> bool:
    return not isinstance(y, bool) and (y.is_floating_point() or y.is_complex())


def drawn_like(x: Array, rng: np.random.Generator) -> Array:
    real = rng.uniform(0.5, 1.5, x.shape) * rng.choice([-1, 1], x.shape)
    return np.asarray(real + 1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else real)


def problems(name: str, dtype: str) -> list[tuple[str, Problem]]:
    if dtype not in OPS[name].letters("fc"):
        pytest.skip(f"{name} does not take {dtype}")
    drawn = [(label, Problem(OPS[name], sample)) for label, sample in OPS[name].drawn(dtype)]
    return [(label, p) for label, p in drawn if p.size() <= LARGEST and p.is_finite()]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", DIFFERENCED)
def test_the_gradient_is_the_limit_of_differences(name: str, dtype: str) -> None:
    for label, problem in problems(name, dtype):
        grads, _, _ = problem.vjp([*problem.inputs, *problem.cotangents])
        for i, grad in enumerate(grads):
            assert_gradient(to_numpy(grad), problem.loss, problem.inputs, i, f"{label}, input {i}")


@pytest.mark.parametrize("dtype", ["float64", pytest.param("complex128", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DIFFERENCED)
def test_the_gradient_of_the_gradient_is_the_limit_of_differences(name: str, dtype: str) -> None:
    for label, problem in problems(name, dtype)[::2]:  # strides were tested in first order
        point = [*problem.inputs, *problem.cotangents]
        grads, xs, cs = problem.vjp(point, create_graph=True)
        recorded = [
            (g, to_library(w, ad))
            for g, w in zip(grads, problem.weights, strict=True)
            if g.requires_grad
        ]
        if not recorded:
            second = [ad.zeros_like(t) for t in [*xs, *cs]]
        else:
            gs, ws = zip(*recorded, strict=True)
            found = ad.autograd.grad(gs, [*xs, *cs], ws, allow_unused=True)
            second = [
                g if g is not None else ad.zeros_like(t)
                for g, t in zip(found, [*xs, *cs], strict=True)
            ]
        for i, grad in enumerate(second):
            which = f"input {i}" if i < len(xs) else f"cotangent {i - len(xs)}"
            assert_gradient(to_numpy(grad), problem.gradient_loss, point, i, f"{label}, {which}")


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if not op.diff and "f" in op.dtypes])
def test_an_op_without_gradient_records_nothing_or_says_so(name: str) -> None:
    """Its result does not require grad, or its backward is zero, or it raises: never a made-up
    number.
    """
    for label, problem in problems(name, "float64")[:2]:
        xs = [to_library(a, ad).requires_grad_() for a in problem.inputs]
        for y in problem.call(xs):
            if not y.requires_grad:
                continue
            try:
                grads = ad.autograd.grad(y.sum(), xs, allow_unused=True)
            except RuntimeError:
                continue
            assert all(g is None or not g.any() for g in grads), label


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_have_the_dtype_of_their_inputs(name: str) -> None:
    op = OPS[name]
    for dtype in op.letters("hfc"):
        label, sample = next(op.drawn(dtype))
        leaves: list[Any] = []

        def leaf(a: Any, dtype: str = dtype, leaves: list[Any] = leaves) -> Any:
            t = to_library(a, ad, dtype)
            if isinstance(a, np.ndarray) and a.dtype.kind in "fc":
                leaves.append(t.requires_grad_())
            return t

        call = sample.map(leaf)
        ys = [y for y in outputs(op.function(ad)(*call.args, **call.kwargs)) if y.requires_grad]
        if not ys:  # a cast to an integer
            continue
        grads = ad.autograd.grad(ys, leaves, [ad.ones_like(y) for y in ys], allow_unused=True)
        for x, g in zip(leaves, grads, strict=True):
            assert g is None or (g.dtype == x.dtype and g.shape == x.shape), label


@pytest.mark.parametrize("narrow", ["float16", "bfloat16", "float32"])
def test_a_cast_passes_the_gradient_on_in_the_dtype_of_its_input(narrow: str) -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    x.to(getattr(ad, narrow)).backward(ad.tensor([0.5, -3.0], dtype=getattr(ad, narrow)))
    assert x.grad.dtype == ad.float64 and x.grad.tolist() == [0.5, -3.0]
