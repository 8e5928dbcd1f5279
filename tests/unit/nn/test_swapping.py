"""Tensors that exchange their contents, and tensors whose class is assigned."""

from __future__ import annotations

import gc
import weakref

import pytest

import adjoint as ad
from adjoint import nn


class Named(ad.Tensor):
    pass


def make(kind: str) -> ad.Tensor:
    plain = ad.arange(6.0).reshape(2, 3)
    return {
        "tensor": plain,
        "parameter": nn.Parameter(plain),
        "subclass": plain.as_subclass(Named),
        "parameter of a subclass": nn.Parameter(plain.as_subclass(Named)),
        "lazy": nn.UninitializedParameter(),
    }[kind]


KINDS = ["tensor", "parameter", "subclass", "parameter of a subclass", "lazy"]


@pytest.mark.parametrize("one", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_tensors_of_any_classes_swap_and_die(one, other):
    for _ in range(20):
        a, b = make(one), make(other)
        classes = type(a), type(b)
        ad.utils.swap_tensors(a, b)
        assert (type(b), type(a)) == classes
        fresh = [ad.ones(3) for _ in range(3)]
        del a, b
        assert all(t.sum().item() == 3 for t in fresh)
    gc.collect()


def test_a_class_that_is_assigned_goes_with_the_tensor():
    for _ in range(300):
        t = ad.ones(2)
        t.__class__ = Named
        u = ad.ones(2).as_subclass(Named)
        u.__class__ = ad.Tensor
        del t, u
    assert ad.ones(2).sum().item() == 2


def test_what_a_graph_or_a_weak_reference_holds_is_not_swapped():
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="the graph knows it"):
        ad.utils.swap_tensors(y, ad.ones(2))
    held = ad.ones(2)
    reference = weakref.ref(held)
    with pytest.raises(RuntimeError, match="weakref"):
        ad.utils.swap_tensors(held, ad.ones(2))
    assert reference() is held
    with pytest.raises(TypeError, match="not a tensor"):
        ad.utils.swap_tensors(ad.ones(2), 3)
