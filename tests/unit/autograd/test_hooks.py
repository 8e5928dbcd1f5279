"""Hooks on gradients: order, what they may do, in-place changes, handles, errors."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

import adjoint as ad


def leaf(value: float = 2.0) -> Any:
    return ad.tensor(value, requires_grad=True)


class Sentinel:
    pass


# --- order ---
def test_hooks_of_a_tensor_come_before_those_of_its_node() -> None:
    log: list[str] = []
    a = leaf()
    b = a.clone()

    def named(name: str) -> Any:
        return lambda *_: log.append(name)

    b.grad_fn.register_prehook(named("pre 1"))
    b.register_hook(named("tensor 1"))
    b.grad_fn.register_hook(named("post"))
    b.grad_fn.register_prehook(named("pre 2"))
    b.register_hook(named("tensor 2"))
    node = b.grad_fn.next_functions[0][0]
    a.register_hook(named("leaf"))
    node.register_prehook(named("leaf pre"))
    node.register_hook(named("leaf post"))
    a.register_post_accumulate_grad_hook(named("accumulated"))
    b.backward()
    first = ["tensor 1", "tensor 2", "pre 1", "pre 2", "post"]
    assert log == [*first, "leaf", "leaf pre", "accumulated", "leaf post"]


def test_hooks_change_the_gradient_one_after_the_other() -> None:
    a = leaf()
    b = a * 3
    b.register_hook(lambda g: g + 1)
    b.register_hook(lambda g: g * 10)
    b.grad_fn.register_prehook(lambda gs: (gs[0] + 5,))
    b.grad_fn.register_hook(lambda ins, outs: (ins[0] * 100, ins[1]))
    b.backward()
    assert a.grad.item() == ((1 + 1) * 10 + 5) * 3 * 100


def test_a_retained_gradient_is_what_all_tensor_hooks_made_of_it() -> None:
    a = leaf()
    b = a.clone()
    b.register_hook(lambda g: g * 2)
    b.retain_grad()
    b.register_hook(lambda g: g * 2)
    b.grad_fn.register_prehook(lambda gs: (gs[0] * 1000,))
    b.clone().backward()
    assert b.grad.item() == 4 and a.grad.item() == 4000


def test_hooks_of_an_accumulator_see_the_gradient_that_is_added() -> None:
    a = leaf()
    seen: list[Any] = []
    b = a * 3
    node = b.grad_fn.next_functions[0][0]
    node.register_prehook(lambda gs: (gs[0] * 2,))
    node.register_hook(lambda ins, outs: seen.append((ins, outs[0].item())))
    b.backward()
    assert seen == [((), 6.0)] and a.grad.item() == 6.0


def test_grad_runs_hooks_of_tensors_but_not_of_nodes_it_does_not_execute() -> None:
    a = leaf()
    b = a * 2
    c = b * 2
    log: list[str] = []
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append("b"))
    b.grad_fn.register_prehook(lambda g: log.append("b pre"))
    b.grad_fn.register_hook(lambda i, o: log.append("b post"))
    b.grad_fn.next_functions[0][0].register_prehook(lambda g: log.append("a pre"))
    ad.autograd.grad(c, b, retain_graph=True)
    assert log == ["b"]
    log.clear()
    ad.autograd.grad(c, (a, b), retain_graph=True)
    assert log == ["b", "b pre", "b post", "a"]
    log.clear()
    c.backward(inputs=(b,))
    assert log == ["b", "b pre", "b post"]


def test_grad_returns_what_hooks_made_of_the_gradient() -> None:
    a = leaf()
    b = a * 2
    b.register_hook(lambda g: g * 10)
    a.register_hook(lambda g: g * 7)
    c = b * 3
    assert ad.autograd.grad(c, b, retain_graph=True)[0].item() == 30
    assert ad.autograd.grad(c, a, retain_graph=True)[0].item() == 3 * 10 * 2 * 7
    # As in PyTorch: the gradient is taken out before the hooks if the node itself is to run.
    assert [g.item() for g in ad.autograd.grad(c, (b, a))] == [3, 420]


def test_a_hook_is_called_with_none_where_no_gradient_arrived() -> None:
    a, b = ad.ones(2, requires_grad=True).unbind()
    seen: list[Any] = []
    a.register_hook(seen.append)
    a.retain_grad()
    b.backward()
    assert seen == [None]
    assert a.grad is None


class Withhold(ad.autograd.Function):
    """Returns None for its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None


def test_hooks_of_all_kinds_see_none_down_to_the_leaf() -> None:
    a = leaf()
    log: list[Any] = []
    a.register_hook(lambda g: log.append(("leaf", g)))
    a.register_post_accumulate_grad_hook(lambda t: log.append(("post", t.grad)))
    h = a * 2
    h.register_hook(lambda g: log.append(("result", g)))
    h.grad_fn.register_prehook(lambda gs: log.append(("before", gs)))
    y = Withhold.apply(h)
    assert ad.autograd.grad(y, a, allow_unused=True, retain_graph=True) == (None,)
    assert log[-1] == ("leaf", None)
    log.clear()
    y.backward()
    expected = [("result", None), ("before", (None,)), ("leaf", None), ("post", None)]
    assert log == expected
    assert a.grad is None


def test_a_tensor_hook_cannot_make_a_gradient_out_of_none() -> None:
    a = leaf()
    a.register_hook(lambda g: ad.ones_like(a))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        Withhold.apply(a).backward()


def test_a_multi_hook_counts_gradients_that_are_none() -> None:
    a, b = leaf(), leaf()
    calls: list[Any] = []
    ad.autograd.graph.register_multi_grad_hook((a, b), calls.append)
    (Withhold.apply(a) + b).backward()
    assert [g if g is None else g.item() for g in calls[0]] == [None, 1.0]


# --- added and removed ---
def test_a_hook_may_remove_itself_and_others_while_it_runs() -> None:
    a = leaf()
    log: list[str] = []

    def first(_: Any) -> None:
        log.append("first")
        one.remove()
        two.remove()

    one = a.register_hook(first)
    two = a.register_hook(lambda _: log.append("second"))
    (a * 2).backward()
    (a * 2).backward()
    assert log == ["first", "second"]  # what was there when the hooks started runs


def test_a_hook_added_while_hooks_run_waits_for_the_next_pass() -> None:
    a = leaf()
    log: list[str] = []

    def first(_: Any) -> None:
        log.append("first")
        if len(log) == 1:
            a.register_hook(lambda _: log.append("late"))

    a.register_hook(first)
    (a * 2).backward()
    assert log == ["first"]
    (a * 2).backward()
    assert log == ["first", "first", "late"]


def test_handles() -> None:
    a = leaf()
    log: list[int] = []
    with a.register_hook(lambda _: log.append(1)) as handle:
        (a * 2).backward()
    (a * 2).backward()
    assert log == [1]
    handle.remove()
    again = pickle.loads(pickle.dumps(a.register_hook(print)))
    again.remove()
    copy.deepcopy(again).remove()


def test_the_hooks_of_a_tensor_can_be_looked_at() -> None:
    a = leaf()
    b = a * 2
    assert a._backward_hooks is None and b._backward_hooks is None
    a.register_hook(print)
    b.register_hook(len)
    assert list(a._backward_hooks.values()) == [print]
    assert list(b._backward_hooks.values()) == [len]
    with pytest.raises(RuntimeError, match="register_hook"):
        del a._backward_hooks


def test_the_hooks_of_a_tensor_can_be_given_as_a_whole() -> None:
    """Also to one that does not require grad: nobody calls them."""
    seen: list[str] = []
    a = leaf()
    b = a * 2
    ad.ones(1)._backward_hooks = {0: print}
    b.register_hook(lambda _: seen.append("gone"))
    a._backward_hooks = {0: lambda _: seen.append("a")}
    b._backward_hooks = {0: lambda _: seen.append("b"), 1: lambda g: g * 10}
    b.register_hook(lambda _: seen.append("more"))
    b.sum().backward(retain_graph=True)
    assert seen == ["b", "more", "a"] and a.grad.unique().tolist() == [20.0]
    b._backward_hooks = None
    b.sum().backward()
    assert seen == ["b", "more", "a", "a"] and b._backward_hooks is None


def test_setting_the_grad_fn_to_none_detaches() -> None:
    b = leaf() * 2
    b._grad_fn = None
    assert b.is_leaf and not b.requires_grad and b._grad_fn is None


@pytest.mark.parametrize("given", ["backward", "grad"])
def test_gradients_of_inputs_are_complete_before_older_nodes_run(given: str) -> None:
    """A leaf's hook runs as soon as it can, even if an older graph keeps the leaf's old place."""
    order: list[str] = []
    a, b = leaf(), leaf()
    for name, t in (("a", a), ("b", b)):
        t.register_hook(lambda _, name=name: order.append(name))
    older = a * b
    c = a.sin()
    c.register_hook(lambda _: order.append("c"))
    out = (c * b).sum()
    if given == "grad":
        ad.autograd.grad(out, (a, b))
    else:
        out.backward(inputs=(a, b))
    assert order == ["b", "c", "a"]
    order.clear()
    two = (a * 3).sum() + (a * b).sum() + (b * b).sum()  # several gradients for one leaf
    got = ad.autograd.grad(two, (b, a, b))
    assert sorted(order) == ["a", "b"]
    assert ad.equal(got[0], (a + 2 * b).detach()) and ad.equal(got[1], (b + 3).detach())
    assert ad.equal(got[2], got[0]) and older.requires_grad


def test_a_handle_keeps_neither_the_hook_nor_the_tensor() -> None:
    def make() -> Any:
        sentinel = Sentinel()
        a = leaf()
        handle = a.register_hook(lambda _: print(sentinel))
        return handle, weakref.ref(sentinel), weakref.ref(a)

    handle, hook, tensor = make()
    gc.collect()
    assert hook() is None and tensor() is None
    handle.remove()


def test_a_hook_that_holds_its_tensor_is_collected() -> None:
    def make() -> list[Any]:
        a = leaf()
        b = a * 2
        sentinel = Sentinel()
        seen: list[Any] = []
        a.register_hook(lambda _: seen.append((a, sentinel)))
        b.register_hook(lambda _: seen.append((b, sentinel)))
        b.grad_fn.register_hook(lambda *_: seen.append((b.grad_fn, sentinel)))
        b.retain_grad()
        b.backward()
        return [weakref.ref(a), weakref.ref(b), weakref.ref(sentinel)]

    references = make()
    gc.collect()
    assert [r() for r in references] == [None, None, None]


# --- in-place changes ---
def test_hooks_stay_with_the_value_they_were_registered_on() -> None:
    log: list[tuple[str, float]] = []
    a = leaf()
    b = a.clone()
    b.register_hook(lambda g: log.append(("before", g.item())))
    b.mul_(5)
    b.register_hook(lambda g: log.append(("after", g.item())))
    (b * 3).backward()
    assert log == [("after", 3.0), ("before", 15.0)]


def test_a_retained_gradient_follows_the_tensor() -> None:
    a = leaf()
    b = a.clone()
    b.retain_grad()
    b.mul_(5)
    assert b.retains_grad
    (b * 3).backward()
    assert b.grad.item() == 3.0 and a.grad.item() == 15.0
    # and several changes, with retain_grad asked for twice
    c = a.clone()
    c.retain_grad()
    c.mul_(2)
    c.retain_grad()
    c.mul_(2)
    c.backward()
    assert c.grad.item() == 1.0


def test_a_retained_gradient_follows_a_view_and_its_base() -> None:
    a = ad.ones(4, requires_grad=True)
    base = a.clone()
    view = base[:2]
    base.retain_grad()
    view.retain_grad()
    view.mul_(5)
    (base * 3).sum().backward()
    assert base.grad.tolist() == [3.0] * 4
    assert a.grad.tolist() == [15.0, 15.0, 3.0, 3.0]
    assert view.retains_grad


def test_retain_grad_of_a_leaf_does_nothing() -> None:
    a = leaf()
    a.retain_grad()
    assert not a.retains_grad
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        ad.ones(1).retain_grad()


# --- several tensors ---
def test_a_multi_hook_waits_for_all_gradients() -> None:
    t = [leaf() for _ in range(4)]
    calls: list[list[Any]] = []
    handle = ad.autograd.graph.register_multi_grad_hook(t, calls.append)
    (t[1] * t[2]).backward()
    assert len(calls) == 1
    assert [g if g is None else g.item() for g in calls[0]] == [None, 2.0, 2.0, None]
    (t[0] * t[3]).backward(inputs=[t[0]])
    assert [g is None for g in calls[1]] == [False, True, True, True]
    handle.remove()
    (t[0] * t[3]).backward()
    assert len(calls) == 2


def test_a_multi_hook_takes_the_first_gradient() -> None:
    t = [leaf(float(i)) for i in range(3)]
    calls: list[Any] = []
    with ad.autograd.graph.register_multi_grad_hook(t, calls.append, mode="any"):
        (t[0] * t[1] * t[2]).backward()
        assert len(calls) == 1
        (t[0] + t[1]).backward()
        assert len(calls) == 2
    (t[0] + t[1]).backward()
    assert len(calls) == 2


def test_a_multi_hook_needs_tensors_with_gradients_and_a_mode() -> None:
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        ad.autograd.graph.register_multi_grad_hook([leaf()], print, mode="some")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="require"):
        ad.autograd.graph.register_multi_grad_hook([ad.ones(1)], print)


# --- errors ---
def test_hooks_need_a_gradient_and_something_to_call() -> None:
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        ad.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        ad.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf() * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(TypeError, match="callable"):
        leaf().register_hook(3)
    with pytest.raises(TypeError, match="callable"):
        (leaf() * 2).grad_fn.register_prehook("hook")


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (lambda g: g.expand(2), RuntimeError, "hook 'bad' has changed the size of value"),
        (lambda g: g.double(), RuntimeError, "hook 'bad' has changed the type of value"),
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    ],
)
def test_a_tensor_hook_returns_a_gradient_or_nothing(
    result: Any, error: type[Exception], words: str
) -> None:
    def bad(g: Any) -> Any:
        return result(g)

    a = leaf()
    b = a * 2
    b.register_hook(bad)
    with pytest.raises(error, match=words):
        b.backward()
    assert a.grad is None


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (lambda gs: 3, TypeError, "expected tuple, but hook returned 'int'"),
        (lambda gs: gs[0], TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda gs: (1, 2, 3), RuntimeError, "incorrect number of values"),
        (lambda gs: (gs[0].double(), None)[: len(gs)], RuntimeError, "changed the type"),
    ],
)
def test_a_node_hook_returns_all_gradients_or_nothing(
    result: Any, error: type[Exception], words: str
) -> None:
    for after in (False, True):
        b = leaf() * 2
        if after:
            b.grad_fn.register_hook(lambda ins, outs: result(ins))
        else:
            b.grad_fn.register_prehook(result)
        with pytest.raises(error, match=words):
            b.backward()


def test_a_node_hook_cannot_make_a_gradient_out_of_none() -> None:
    b = leaf() * 2
    b.grad_fn.register_hook(lambda ins, outs: (outs[0], outs[0]))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        b.backward()


def test_a_post_accumulate_hook_returns_nothing() -> None:
    a = leaf()
    a.register_post_accumulate_grad_hook(lambda t: t)
    with pytest.raises(RuntimeError, match="should return None"):
        (a * 2).backward()


def test_after_an_error_in_a_hook_a_second_try_gives_the_right_gradient() -> None:
    a = leaf()
    b = a * 2
    c = a * 3
    d = b * c
    fail = [True]

    def hook(_: Any) -> None:
        if fail[0]:
            raise ValueError("not yet")

    b.register_hook(hook)
    with pytest.raises(ValueError, match="not yet"):
        d.backward(retain_graph=True)
    fail[0] = False
    a.grad = None
    d.backward()
    assert a.grad.item() == 12 * 2.0


def test_a_hook_can_step_the_optimizer_in_backward() -> None:
    a = leaf(1.0)

    def step(t: Any) -> None:
        with ad.no_grad():
            t.sub_(0.5 * t.grad)
        t.grad = None

    a.register_post_accumulate_grad_hook(step)
    (a * 4).backward()
    assert a.item() == -1.0 and a.grad is None
