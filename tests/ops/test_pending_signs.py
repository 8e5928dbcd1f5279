"""Every op gives for operands whose conjugate or negative bit is set what it gives for the same
values without bits: results, gradients, in place and into `out=`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, outputs, to_library, to_numpy

_UNSIGNED = (ad.bool, ad.uint16, ad.uint32, ad.uint64)  # which have no negatives
_SAMPLES = 4  # of each op and dtype
_CALLABLE = [name for name in OPS if name != "view_as_real"]  # which refuses conjugates


def pending(t: Any) -> Any:
    """The same values, in memory that holds their conjugates (or negatives)."""
    if not isinstance(t, ad.Tensor) or t.dtype in _UNSIGNED:
        return t
    return t.conj_physical().conj() if t.is_complex() else t.neg()._neg_view()


def turned_back(t: Any) -> Any:
    """What memory holds that shows `t` with the bit set."""
    return t.conj_physical() if t.is_complex() else t.neg()


def drawn(op: Op) -> list[tuple[str, Sample]]:
    """Calls with tensors of adjoint: floats, complex numbers and integers where the op has them."""
    calls = []
    for dtype in op.letters("f")[-1:] + op.letters("c")[-1:] + op.letters("i")[-1:]:
        for sample in op.samples[:_SAMPLES]:
            call = sample.draw(dtype, op.name).map(lambda a, d=dtype: to_library(a, ad, d))
            calls.append((f"{op.name}({sample}) in {dtype}", call))
    return calls


def with_bits(call: Sample) -> Sample:
    return call.map(pending)


def assert_same(got: Any, want: Any, label: str) -> None:
    for a, b in zip(outputs(got), outputs(want), strict=True):
        if not isinstance(b, ad.Tensor):
            assert a == b, label
            continue
        assert a.dtype == b.dtype, label
        np.testing.assert_array_equal(to_numpy(a), to_numpy(b), label)


@pytest.mark.parametrize("name", _CALLABLE)
def test_results_are_those_of_resolved_operands(name: str) -> None:
    op = OPS[name]
    function = op.function(ad)
    for label, call in drawn(op):
        turned = with_bits(call)
        want = function(*call.args, **call.kwargs)
        assert_same(function(*turned.args, **turned.kwargs), want, label)


@pytest.mark.parametrize("name", [n for n in _CALLABLE if OPS[n].diff])
def test_gradients_are_those_of_resolved_operands(name: str) -> None:
    op = OPS[name]
    function = op.function(ad)

    def gradients(call: Sample, bits: bool) -> list[Any]:
        leaves: list[Any] = []

        def leaf(a: Any) -> Any:
            if not isinstance(a, ad.Tensor) or not (a.is_floating_point() or a.is_complex()):
                return a
            made = (turned_back(a) if bits else a.clone()).detach().requires_grad_()
            leaves.append(made)
            if not bits:
                return made
            return made.conj() if made.is_complex() else made._neg_view()

        watched = call.map(leaf)
        results = [
            t
            for t in outputs(function(*watched.args, **watched.kwargs))
            if isinstance(t, ad.Tensor) and t.requires_grad
        ]
        if not results:
            return []
        weights = [ad.ones_like(t) * (0.5 + 0.25j if t.is_complex() else 0.5) for t in results]
        found = ad.autograd.grad(results, leaves, weights, allow_unused=True)
        return [g if g is None or not bits else turned_back(g) for g in found]

    for label, call in drawn(op):
        for got, want in zip(gradients(call, True), gradients(call, False), strict=True):
            assert (got is None) == (want is None), label
            if got is not None:
                np.testing.assert_allclose(to_numpy(got), to_numpy(want), 1e-12, 1e-12, True, label)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.inplace])
def test_changes_in_place_write_what_memory_has_to_hold(name: str) -> None:
    op = OPS[name]
    for label, call in drawn(op):
        if not isinstance(call.args[0], ad.Tensor) or call.args[0].dtype == ad.bool:
            continue
        turned = with_bits(call)
        plain, shown = call.args[0].clone(), turned.args[0]
        memory = shown.conj() if shown.is_complex() else shown._neg_view()
        assert not memory.is_conj() and not memory.is_neg()
        try:
            getattr(plain, name + "_")(*call.args[1:], **call.kwargs)
        except (RuntimeError, TypeError) as error:  # a result of another dtype or shape
            with pytest.raises(type(error)):
                getattr(shown, name + "_")(*turned.args[1:], **turned.kwargs)
            continue
        getattr(shown, name + "_")(*turned.args[1:], **turned.kwargs)
        assert_same(shown, plain, label)
        assert_same(memory, turned_back(plain), label)


@pytest.mark.parametrize("name", OPS)
def test_results_are_written_into_out(name: str) -> None:
    op = OPS[name]
    function = op.function(ad)
    for label, call in drawn(op)[::3]:
        want = function(*call.args, **call.kwargs)
        if not isinstance(want, ad.Tensor) or want.dtype in _UNSIGNED:
            continue
        out = pending(ad.zeros_like(want))
        turned = with_bits(call)
        try:
            function(*call.args, **call.kwargs, out=ad.zeros_like(want))
        except (RuntimeError, TypeError):  # it has no out=
            continue
        assert function(*turned.args, **turned.kwargs, out=out) is out, label
        assert out.is_conj() or out.is_neg(), label
        assert_same(out, want, label)
