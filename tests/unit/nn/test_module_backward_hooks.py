"""Hooks on the backward pass of modules."""

from __future__ import annotations

import gc
import weakref

import pytest

import adjoint as ad
from adjoint import nn


class Double(nn.Module):
    def forward(self, a, b=None):
        return a * 2 if b is None else (a * 2, b * 3)


def test_a_full_hook_sees_the_gradients_at_the_module_s_edges():
    seen = []
    m = Double()
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((mod, gi, go)))
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    m(x).sum().backward()
    ((mod, gi, go),) = seen
    assert mod is m
    assert gi[0].tolist() == [2.0, 2.0]
    assert go[0].tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_replace_gradients():
    m = Double()
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 10,))
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0] + 1,))
    x = ad.tensor([1.0], requires_grad=True)
    m(x).backward()
    assert x.grad.tolist() == [21.0]


def test_several_inputs_and_outputs_with_one_unused():
    seen = []
    m = Double()
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go)))
    a = ad.tensor(1.0, requires_grad=True)
    b = ad.tensor(1.0, requires_grad=True)
    m(a, b)[1].backward()
    ((gi, go),) = seen
    assert gi[0].item() == 0
    assert gi[1].item() == 3
    assert go[0] is None
    assert go[1].item() == 1


def test_without_inputs_that_require_grad_the_hook_runs_with_none():
    seen = []
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda mod, gi, go: seen.append(gi))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(ad.ones(1, 2)).sum().backward()
    assert seen == [(None,)]
    assert m.weight.grad is not None


def test_removed_hooks_do_not_run_and_calls_without_grad_do_not_either():
    seen = []
    m = Double()
    handle = m.register_full_backward_hook(lambda *a: seen.append(1))
    with ad.no_grad():
        m(ad.ones(1))
    handle.remove()
    x = ad.ones(1, requires_grad=True)
    m(x).sum().backward()
    assert seen == []


def test_a_wrong_number_of_gradients_is_refused():
    m = Double()
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0], gi[0]))
    x = ad.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        m(x).sum().backward()


def test_kinds_of_hooks_do_not_mix():
    m = Double()
    m.register_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        m.register_full_backward_hook(lambda *a: None)


def test_plain_hooks_run_on_the_last_op():
    seen = []
    m = Double()
    m.register_backward_hook(lambda mod, gi, go: seen.append(go[0].item()))
    x = ad.tensor(1.0, requires_grad=True)
    with pytest.warns(FutureWarning, match="non-full backward hook"):
        m(x).backward()
    assert seen == [1.0]


def test_prepended_hooks_run_first():
    order = []
    m = Double()
    m.register_full_backward_hook(lambda *a: order.append("a"))
    m.register_full_backward_hook(lambda *a: order.append("b"), prepend=True)
    m(ad.ones(1, requires_grad=True)).sum().backward()
    assert order == ["b", "a"]


def test_a_graph_with_hooks_is_collected():
    m = Double()
    m.register_full_backward_hook(lambda *a: None)
    x = ad.ones(1, requires_grad=True)
    y = m(x)
    node = weakref.ref(y.grad_fn)
    with pytest.warns(UserWarning, match="reference cycle"):
        y.sum().backward(create_graph=True)
    x.grad = None
    del y
    gc.collect()
    assert node() is None
