"""saved_tensors_hooks and its relatives: what nodes keep, and who may pack it."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import adjoint as ad
from adjoint.autograd import graph


def identity(x):
    return x


def test_pack_sees_each_saved_tensor_once_and_unpack_gives_it_back():
    packed = []

    def pack(t):
        packed.append(t)
        return ("kept", t.tolist())

    a = ad.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(pack, lambda p: ad.tensor(p[1])):
        y = a * a
    assert len(packed) == 2  # saved twice, once per operand
    assert packed[0] is a
    y.sum().backward()
    assert a.grad.tolist() == [2.0, 4.0]


def test_numbers_are_not_packed():
    def refuse(x):
        raise AssertionError("called")

    a = ad.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(refuse, refuse):
        (a * 3).sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.exp(),  # a saved output
        lambda x: x.sort().values ** 2,  # one of several outputs
        lambda x: ad.nn.functional.layer_norm(x, (3,)).sin(),  # values that forward left
        lambda x: x[ad.tensor([0, 2])] * x[0],  # a list of tensors
        lambda x: ad.einsum("i,i->i", x, x),
        lambda x: x.clone().mul_(x).sin_(),  # in place: copies of what was there before
        lambda x: x.max(0).values * x.cumprod(0),
        lambda x: ad.nn.functional.cross_entropy(x.reshape(1, 3), ad.tensor([1])),
    ],
)
def test_packing_as_numbers_changes_no_gradient(f):
    def run(hooks):
        x = ad.tensor([1.0, 3.0, 2.0], dtype=ad.float64, requires_grad=True)
        with hooks:
            y = f(x).sum()
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        (h,) = ad.autograd.grad(g.pow(2).sum(), x, allow_unused=True)
        return g.tolist(), None if h is None else h.tolist()

    copies = graph.saved_tensors_hooks(
        lambda t: (t.detach().tolist(), t.dtype), lambda p: ad.tensor(p[0], dtype=p[1])
    )
    assert run(copies) == run(graph.saved_tensors_hooks(identity, identity))


def test_unpack_runs_once_per_node_and_pass():
    calls = []
    a = ad.tensor([2.0], requires_grad=True)
    with graph.saved_tensors_hooks(identity, lambda t: calls.append(1) or t):
        y = a**3  # the rule reads its operand more than once
        y.sum().backward(retain_graph=True)
        assert len(calls) == 1
        y.sum().backward()
        assert len(calls) == 2


def test_double_backward_reaches_leaves_through_packed_values():
    a = ad.tensor([3.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), identity):
        y = (a**3).sum()
    (g,) = ad.autograd.grad(y, a, create_graph=True)
    g.backward()
    assert a.grad.item() == 18.0
    # A value unpacked for a leaf looks like a leaf.
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), identity):
        node = (a * a).grad_fn
    value = node._saved_self
    assert value.requires_grad and value.is_leaf and value.grad_fn is None


def test_unpacked_value_has_the_history_of_the_original():
    a = ad.ones(2, requires_grad=True) + 1
    with graph.saved_tensors_hooks(lambda t: 2 * t, lambda t: t / 2):
        y = a * a
    assert y.grad_fn._saved_self.grad_fn is a.grad_fn
    assert y.grad_fn._saved_self.tolist() == [2.0, 2.0]
    with graph.saved_tensors_hooks(identity, identity):
        z = a.exp()
    assert z.grad_fn._saved_result.grad_fn is z.grad_fn


def test_innermost_pair_is_used():
    b = ad.ones(1, requires_grad=True)
    a = ad.ones(1, requires_grad=True)
    with graph.saved_tensors_hooks(lambda x: 3 * x, lambda x: 3 * x):
        with graph.saved_tensors_hooks(lambda x: 5 * x, lambda x: 5 * x):
            y = a * a
        z = b * b
    (y + z).backward()
    assert (a.grad.item(), b.grad.item()) == (50.0, 18.0)


def test_hooks_hold_for_one_thread():
    calls = []
    a = ad.ones(1, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: calls.append(1) or t, identity):
        thread = threading.Thread(target=lambda: a.exp())
        thread.start()
        thread.join()
    assert not calls


def test_errors_in_hooks_reach_the_caller():
    class Mine(Exception):
        pass

    def fail(x):
        raise Mine("hook")

    a = ad.tensor(1.0, requires_grad=True)
    with graph.saved_tensors_hooks(fail, identity), pytest.raises(Mine, match="hook"):
        a.sin()
    with graph.saved_tensors_hooks(identity, fail):
        y = a.sin()
    with pytest.raises(Mine, match="hook"):
        y.backward()
    assert a.grad is None
    a.sin().backward()  # nothing is left behind
    assert a.grad is not None


def test_pack_error_before_an_in_place_change_leaves_the_tensor_as_it_was():
    def fail(x):
        raise ValueError("no")

    b = ad.ones(2, requires_grad=True).clone()
    before = b.grad_fn
    with graph.saved_tensors_hooks(fail, identity), pytest.raises(ValueError, match="no"):
        b.sin_()
    assert b.tolist() == [1.0, 1.0]
    assert b.grad_fn is before
    assert b._version == 0


def test_pack_error_after_an_in_place_change_is_told_at_backward():
    def fail(x):
        raise ValueError("no")

    b = ad.ones(2, requires_grad=True).clone()
    with graph.saved_tensors_hooks(fail, identity), pytest.raises(ValueError, match="no"):
        b.exp_()
    with pytest.raises(RuntimeError, match=r"the output of `exp_` .* was not saved"):
        b.sum().backward()


def test_pack_hook_may_not_change_its_argument():
    def increase(x):
        x += 1
        return x

    a = ad.ones(2, requires_grad=True)
    message = "A saved tensor pack hook is modifying its input in place"
    with graph.saved_tensors_hooks(increase, identity), pytest.raises(RuntimeError, match=message):
        a.exp()
    y = a.exp()
    with pytest.raises(RuntimeError, match=message):
        y.grad_fn._raw_saved_result.register_hooks(increase, identity)


def test_unpack_must_return_a_tensor():
    a = ad.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(identity, lambda x: 1):
        y = a.sin().sum()
    with pytest.raises(
        TypeError, match="unpack_hook expected to be a Tensor but got result of type int"
    ):
        y.backward()


def test_packed_values_are_freed_by_backward_and_with_the_graph():
    class Box:
        def __init__(self, t):
            self.t = t

    boxes = []

    def pack(t):
        box = Box(t.detach())
        boxes.append(weakref.ref(box))
        return box

    a = ad.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(pack, lambda b: b.t):
        y = a.exp().sin().sum()
        z = a.exp()
    assert all(b() is not None for b in boxes)
    y.backward()
    assert [b() is None for b in boxes] == [True, True, False]
    del z
    assert boxes[2]() is None


def test_cycles_through_packed_values_are_collected():
    class Box:
        pass

    def make():
        box = Box()

        def pack(t):
            return (box, t)

        a = ad.ones(2, requires_grad=True)
        with graph.saved_tensors_hooks(pack, lambda p: p[1]):
            y = a.exp()
        box.y = y  # y -> node -> packed -> box -> y
        return weakref.ref(box)

    ref = make()
    gc.collect()
    assert ref() is None


def test_a_hook_may_run_a_backward_of_its_own():
    def unpack(t):
        x = ad.ones(3, requires_grad=True)
        with ad.enable_grad():
            ad.nn.functional.layer_norm(x.exp(), (3,)).sum().backward()
        return t

    def loss():
        return (ad.nn.functional.layer_norm(a, (3,)) * a).sum()

    a = ad.tensor([1.0, 2.0, 4.0], requires_grad=True)
    with graph.saved_tensors_hooks(identity, unpack):
        y = loss()
    y.backward()
    got, a.grad = a.grad, None
    loss().backward()
    assert got.tolist() == a.grad.tolist()


def test_leaving_hooks_that_were_not_entered_is_refused():
    with pytest.raises(RuntimeError, match="without having been entered"):
        graph.saved_tensors_hooks(identity, identity).__exit__()


def test_disabled_hooks_raise_the_given_message():
    with graph.disable_saved_tensors_hooks("outer"):
        inner = graph.disable_saved_tensors_hooks("inner")
        with inner, pytest.raises(RuntimeError, match="inner"):
            graph.saved_tensors_hooks(identity, identity).__enter__()
        with pytest.raises(RuntimeError, match="outer"):
            graph.saved_tensors_hooks(identity, identity).__enter__()
    hooks = graph.saved_tensors_hooks(identity, identity)
    with hooks, pytest.raises(RuntimeError, match="late"):
        graph.disable_saved_tensors_hooks("late").__enter__()
    with pytest.raises(TypeError, match="must be a str"):
        graph.disable_saved_tensors_hooks(1).__enter__()

    @graph.disable_saved_tensors_hooks("decorated")
    def f():
        graph.saved_tensors_hooks(identity, identity).__enter__()

    with pytest.raises(RuntimeError, match="decorated"):
        f()


def test_save_on_cpu_keeps_a_copy():
    a = ad.ones(2, requires_grad=True)
    b = a.clone()
    with graph.save_on_cpu(pin_memory=True):
        y = (b * b).sum()
    b.detach().zero_()
    y.backward()
    assert a.grad.tolist() == [2.0, 2.0]


# --- SavedTensor ----------------------------------------------------------------------------------


def test_hooks_on_one_saved_value():
    a = ad.ones(2, requires_grad=True)
    y = a * a
    y.grad_fn._raw_saved_self.register_hooks(lambda x: 2 * x, identity)
    assert isinstance(y.grad_fn._raw_saved_self, ad.autograd.SavedTensor)
    assert y.grad_fn._saved_self.tolist() == [2.0, 2.0]
    assert y.grad_fn._saved_other.tolist() == [1.0, 1.0]
    y.sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]


def test_hooks_on_an_item_of_a_saved_list():
    a = ad.ones(2, 2, requires_grad=True)
    index = ad.tensor([0, 1])
    y = a[:, index]
    raw = y.grad_fn._raw_saved_indices
    with pytest.raises(RuntimeError, match="None is forbidden"):
        raw[0].register_hooks(identity, identity)
    raw[1].register_hooks(lambda t: t.tolist(), lambda p: ad.tensor(p))
    y.sum().backward()
    assert a.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_misuse_of_saved_tensors():
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python"):
        ad.autograd.SavedTensor()
    y = ad.ones(2, requires_grad=True).exp()
    raw = y.grad_fn._raw_saved_result
    for bad in [(identity,), (1, 1), ()]:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            raw.register_hooks(*bad)
    raw.register_hooks(identity, identity)
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(identity, identity)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(identity, identity)
    with pytest.raises(AttributeError, match="_raw_saved_nonsense"):
        _ = y.grad_fn._raw_saved_nonsense


# --- changes of saved values ----------------------------------------------------------------------


@pytest.mark.parametrize("change", ["itself", "a view", "out=", "an item", "copy_"])
def test_saved_values_may_be_changed_in_the_context(change):
    a = ad.rand(2, 3, requires_grad=True)

    def fn():
        b = a.clone()
        out = (b**2).sum()
        if change == "itself":
            b.sin_()
        elif change == "a view":
            b[0].mul_(5)
        elif change == "out=":
            with ad.no_grad():
                ad.sin(a.detach(), out=b.detach())
        elif change == "an item":
            b[0, 0] = 7
        else:
            b.copy_(ad.zeros(2, 3))
        out.backward()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        fn()
    with graph.allow_mutation_on_saved_tensors() as ctx:
        fn()
        assert len(ctx.cloned) == 0  # freed with the graph
    assert ad.allclose(a.grad, 2 * a)


def test_a_saved_value_is_copied_once_and_only_when_changed():
    with graph.allow_mutation_on_saved_tensors() as ctx:
        a = ad.rand(3, requires_grad=True).clone()
        b, c = a**2, a**2
        assert len(ctx.cloned) == 0
        a.sin_()
        assert len(ctx.cloned) == 1
        d = a**2
        a.sin_()
        assert len(ctx.cloned) == 2
        del b, c, d
        assert len(ctx.cloned) == 0


def test_rules_of_the_context():
    with graph.allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="contexts cannot be nested"):
            graph.allow_mutation_on_saved_tensors().__enter__()
        a = ad.rand(3, requires_grad=True)
        out = (a**2).sum()
    message = "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
    with pytest.raises(AssertionError, match=message):
        out.backward()
    with graph.allow_mutation_on_saved_tensors(), pytest.raises(AssertionError, match=message):
        out.backward()


def test_backward_twice_through_as_strided_needs_no_retain_graph():
    x = ad.ones(4, requires_grad=True)
    y = x.as_strided((2,), (2,)).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 0.0, 2.0, 0.0]


def test_save_on_cpu_refuses_tangents_that_its_copies_would_lose():
    def f(x):
        with ad.autograd.graph.save_on_cpu():
            return (x * x * x).sum()

    x = ad.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"save_on_cpu: .* carries a tangent"):
        ad.func.hessian(f)(x)
    assert ad.func.jacrev(ad.func.jacrev(f))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def forward_over_reverse(pack, unpack=lambda p: p):
    """The derivative of x**3's gradient in direction 1, at 2, with values packed by hooks."""
    fw = ad.autograd.forward_ad
    x = ad.tensor(2.0, requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, ad.tensor(1.0))
        with graph.saved_tensors_hooks(pack, unpack):
            y = dual * dual * dual
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        return fw.unpack_dual(g).tangent


def test_a_hook_that_keeps_tangents_gives_forward_over_reverse():
    assert forward_over_reverse(lambda t: t).item() == 12
    assert forward_over_reverse(lambda t: t.clone()).item() == 12
    assert forward_over_reverse(lambda t: (t,), lambda p: p[0]).item() == 12


@pytest.mark.parametrize(
    "pack", [lambda t: t.detach().clone(), lambda t: t.detach(), lambda t: ad.tensor(t.item())]
)
def test_a_hook_that_loses_a_tangent_is_refused_where_it_would_be_missed(pack):
    with pytest.raises(RuntimeError, match="had a tangent when it was packed") as e:
        forward_over_reverse(pack)
    assert "unpack hook 'forward_over_reverse.<locals>" in str(e.value) or "'<lambda>'" in str(
        e.value
    )
    assert "fix: let the pack hook keep the tangent" in str(e.value)


def test_a_tangent_whose_level_is_over_is_not_missed():
    fw = ad.autograd.forward_ad
    x = ad.tensor(2.0, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        with fw.dual_level():
            dual = fw.make_dual(x, ad.tensor(1.0))
            y = dual * dual
        y.backward()
        z = x * x  # no tangents at all
    assert x.grad.item() == 4
    with fw.dual_level():
        z.backward()
    assert x.grad.item() == 8
