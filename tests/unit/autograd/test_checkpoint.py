"""Checkpoints: the same gradients with less kept, errors when the second run differs."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from contextlib import nullcontext

import pytest

import adjoint as ad
from adjoint.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)


def chain(x):
    return x.sin().exp().sin().cos()


def grad_of(f, *xs):
    return ad.autograd.grad(f(*xs).sum(), xs)


@pytest.mark.parametrize("use_reentrant", [True, False, None])
@pytest.mark.parametrize("preserve", [True, False])
def test_gradients_are_those_of_the_plain_call(use_reentrant, preserve):
    x, y = (ad.rand(3, dtype=ad.float64, requires_grad=True) for _ in range(2))

    def f(x, y):
        return (x * y).exp() * y.sin()

    f(x, y).sum().backward()
    expected = x.grad, y.grad
    x.grad = y.grad = None
    out = checkpoint(f, x, y, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    out.sum().backward()
    assert x.grad.tolist() == expected[0].tolist()
    assert y.grad.tolist() == expected[1].tolist()


@pytest.mark.parametrize("early_stop", [True, False])
def test_nested_and_higher_order(early_stop):
    def gradient(f):
        def wrapped(x):
            with ad.enable_grad():
                return ad.autograd.grad(f(x).sum(), x, create_graph=True)[0]

        return wrapped

    def c(f):
        return lambda x: checkpoint(f, x, use_reentrant=False)

    x = ad.tensor([0.3, 0.7], dtype=ad.float64, requires_grad=True)
    with set_checkpoint_early_stop(early_stop):
        for plain, variants in [
            (chain, [c(chain), c(c(chain))]),
            (gradient(chain), [gradient(c(chain)), gradient(c(c(chain))), c(gradient(c(chain)))]),
            (
                gradient(gradient(chain)),
                [gradient(c(gradient(chain))), c(gradient(gradient(c(chain))))],
            ),
        ]:
            expected = plain(x)
            (slope,) = ad.autograd.grad(expected.sum(), x)
            for variant in variants:
                got = variant(x)
                assert ad.allclose(got, expected)
                assert ad.allclose(ad.autograd.grad(got.sum(), x)[0], slope)


def test_arguments_and_results_of_any_structure():
    @dataclasses.dataclass
    class State:
        a: ad.Tensor

    def f(k, pair, *, scale, name):
        a, b = pair["a"], pair["b"]
        return {"out": (k * a * b.exp() * scale,), "name": name, "state": State(a * b)}

    a = ad.tensor(2.0, requires_grad=True)
    b = ad.tensor(3.0, requires_grad=True)
    out = checkpoint(f, 3, {"a": a, "b": b}, scale=ad.tensor(2.0), name="n")
    assert out["name"] == "n"
    got = ad.autograd.grad(out["out"][0] + out["state"].a, (a, b))
    plain = f(3, {"a": a, "b": b}, scale=ad.tensor(2.0), name="n")
    expected = ad.autograd.grad(plain["out"][0] + plain["state"].a, (a, b))
    assert [g.item() for g in got] == [g.item() for g in expected]


def test_parameters_used_by_closure_get_gradients():
    w = ad.rand(3, requires_grad=True)
    x = ad.rand(3)
    checkpoint(lambda x: (w * x).sin(), x).sum().backward()
    assert ad.allclose(w.grad, (w * x).cos() * x)


def test_random_numbers_are_drawn_again():
    x = ad.ones(100, requires_grad=True)
    ad.manual_seed(3)
    out = checkpoint(lambda t: t.exp() * ad.rand(100), x)
    after = ad.rand(2).tolist()
    ad.manual_seed(3)
    factor = ad.rand(100)
    assert ad.rand(2).tolist() == after
    before = ad.get_rng_state()
    out.sum().backward()
    assert ad.allclose(x.grad, x.detach().exp() * factor)
    assert ad.equal(ad.get_rng_state(), before)  # the stream outside did not move


def test_nothing_of_the_call_is_kept_until_backward():
    refs = []

    def f(x):
        y = x.exp()
        refs.append(weakref.ref(y))
        z = y.sin()
        refs.append(weakref.ref(z))
        return z * z

    x = ad.rand(10, requires_grad=True)
    out = checkpoint(f, x)
    assert [r() for r in refs] == [None, None]
    ref = weakref.ref(out.grad_fn)
    out.sum().backward()
    del out
    assert ref() is None


def test_memory_of_a_deep_chain_stays_small():
    def block(x):
        for _ in range(50):
            x = x.sin()
        return x

    def bytes_held(run):
        x = ad.rand(20_000, requires_grad=True)
        gc.collect()
        before = ad.memory_stats()["allocated_bytes"]
        y = run(x)
        held = ad.memory_stats()["allocated_bytes"] - before
        y.sum().backward()
        return held

    plain = bytes_held(block)
    saved = bytes_held(lambda x: checkpoint(block, x))
    assert saved * 10 < plain


def test_one_recomputation_per_pass_and_an_early_end():
    calls, tails = [], []

    def f(x):
        calls.append(1)
        y = x.sin().cos().exp()
        z = y.clone()  # saves nothing
        tails.append(1)
        return z

    x = ad.tensor(1.0, requires_grad=True)
    out = checkpoint(f, x)
    out.backward(retain_graph=True)
    assert (len(calls), len(tails)) == (2, 1)
    out.backward()
    assert (len(calls), len(tails)) == (3, 1)
    calls.clear()
    tails.clear()
    with set_checkpoint_early_stop(False):
        out = checkpoint(f, x)
    out.backward()
    assert (len(calls), len(tails)) == (2, 2)
    out = checkpoint(f, x, early_stop=False)
    out.backward()
    assert len(tails) == 4


def test_a_value_looked_at_outside_of_backward_is_recomputed():
    count = []

    def f(x):
        count.append(1)
        return x.exp()

    x = ad.rand(3, requires_grad=True)
    d = checkpoint(f, x)
    assert ad.allclose(d.grad_fn._saved_result, x.exp())
    assert ad.allclose(d.grad_fn._saved_result, x.exp())
    assert len(count) == 3
    d.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = d.grad_fn._saved_result


def test_no_grad_calls_the_function_and_keeps_nothing():
    x = ad.rand(3, requires_grad=True)
    with ad.no_grad():
        y = checkpoint(chain, x)
    assert not y.requires_grad


def test_an_input_changed_after_the_call_is_found():
    x = ad.rand(3, requires_grad=True).clone()
    out = checkpoint(chain, x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match=r"(?s)modified by an inplace operation.*mul_\(2\)"):
        out.sum().backward()


# --- errors ---------------------------------------------------------------------------------------


def first_then(first, second):
    calls = []

    def f(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else second(x)

    return f


def two(x):
    return x.sin().exp()


def three(x):
    return x.sin().exp().sin()


def test_fewer_values_are_refused():
    x = ad.rand(1, requires_grad=True)
    out = checkpoint(first_then(three, two), x)
    message = r"(?s)A different number of tensors was saved.*forward: 3\n.*recomputation: 2"
    with pytest.raises(CheckpointError, match=message):
        out.backward()


def test_more_values_are_refused_unless_they_are_not_reached():
    x = ad.rand(1, requires_grad=True)
    checkpoint(first_then(two, three), x).backward()
    with set_checkpoint_early_stop(False):
        out = checkpoint(first_then(two, three), x)
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        out.backward()


@pytest.mark.parametrize("debug", ["argument", "context", False])
def test_other_values_are_refused(debug):
    x = ad.rand(1, requires_grad=True)
    f = first_then(two, lambda x: x.sin() * ad.tensor([1.0, 2.0]))
    with set_checkpoint_debug_enabled(True) if debug == "context" else nullcontext():
        out = checkpoint(f, x, debug=debug == "argument")
    with pytest.raises(CheckpointError) as info:
        out.backward()
    text = str(info.value)
    assert "Recomputed values for the following tensors have different metadata" in text
    assert "tensor at position 1" in text
    assert "'shape': (1,)" in text and "'shape': (2,)" in text
    assert ("You are seeing this error because you passed `debug=True`" in text) == bool(debug)
    assert ("test_checkpoint.py" in text) == bool(debug)


def test_the_check_can_be_left_out():
    x = ad.ones(1, requires_grad=True)
    f = first_then(lambda x: x.sin() * ad.ones(1), lambda x: x.sin() * ad.ones(1).double())
    checkpoint(f, x, determinism_check="none").backward()
    with pytest.raises(ValueError, match=r"determinism_check should be one of \['default', 'none'"):
        checkpoint(f, x, determinism_check="all")


def test_errors_of_the_function_reach_the_caller():
    def fail(x):
        raise KeyError("mine")

    x = ad.rand(1, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        checkpoint(fail, x)
    out = checkpoint(first_then(two, fail), x)
    with pytest.raises(KeyError, match="mine"):
        out.backward()
    two(x).backward()  # nothing is left behind


def test_what_reentrant_checkpoints_refuse():
    x = ad.rand(2, requires_grad=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(chain, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: blah"):
        checkpoint(chain, x, use_reentrant=True, blah=1)

    def constant(x):
        with ad.no_grad():
            return x.sin()

    out = checkpoint(constant, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        (out + x).sum().backward()
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(chain, ad.rand(2), use_reentrant=True)


def test_reentrant_checkpoints_refuse_grad():
    x = ad.rand(2, requires_grad=True)
    out = checkpoint(chain, x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match=r"checkpoint is incompatible with .grad\(\)"):
        ad.autograd.grad(out, x)
    checkpoint(chain, x, use_reentrant=True).sum().backward()


# --- sequences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_sequences_in_segments(segments, use_reentrant):
    steps = [ad.sin, ad.exp, ad.cos, ad.tanh, ad.sin]
    x = ad.rand(4, requires_grad=True)
    y = x
    for step in steps:
        y = step(y)
    y.sum().backward()
    expected, x.grad = x.grad, None
    checkpoint_sequential(steps, segments, x, use_reentrant=use_reentrant).sum().backward()
    assert ad.allclose(x.grad, expected)


def test_modules_in_segments():
    net = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.ReLU(), ad.nn.Linear(4, 2))
    x = ad.rand(5, 3)
    net(x).sum().backward()
    expected = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    checkpoint_sequential(net, 2, x).sum().backward()
    assert [p.grad.tolist() for p in net.parameters()] == expected
    with pytest.raises(ValueError, match="3 functions cannot be divided into 4 segments"):
        checkpoint_sequential(net, 4, x)


# --- selective ------------------------------------------------------------------------------------


def selective(policy, **options):
    return functools.partial(create_selective_checkpoint_contexts, policy, **options)


@pytest.mark.parametrize(
    "policy",
    [
        [ad.mm],
        ["mm"],
        lambda ctx, op, *args: op is ad.mm,
        lambda ctx, op, *args: (
            CheckpointPolicy.MUST_SAVE if op is ad.mm else CheckpointPolicy.PREFER_RECOMPUTE
        ),
    ],
)
def test_chosen_results_are_kept(policy):
    asked = []
    chosen = policy

    if callable(policy):

        def chosen(ctx, op, *args):
            asked.append((ctx.is_recompute, op))
            return policy(ctx, op, *args)

    def f(x, y):
        return ad.mm(x.cos(), y).sin().sum()

    x, y = (ad.rand(3, 3, dtype=ad.float64, requires_grad=True) for _ in range(2))
    out = checkpoint(f, x, y, context_fn=selective(chosen))
    got = ad.autograd.grad(out, (x, y))
    for a, b in zip(got, ad.autograd.grad(f(x, y), (x, y)), strict=True):
        assert ad.allclose(a, b)
    if asked:
        assert [op.__name__ for again, op in asked if not again] == ["cos", "mm", "sin", "sum"]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.nn.functional.layer_norm(x, (3,)).sin(),  # leaves values for backward
        lambda x: ad.var_mean(x)[0] * x.sort().values,  # several results
        lambda x: (x.contiguous() * x.view(-1)).clone().mul_(2).exp(),  # itself, a view, in place
        lambda x: ad.nn.functional.softmax(x, 0).log(),
    ],
)
@pytest.mark.parametrize("early_stop", [True, False])
def test_keeping_everything_changes_no_gradient(f, early_stop):
    x = ad.rand(3, dtype=ad.float64, requires_grad=True)
    keep = selective(lambda ctx, op, *args: True, allow_cache_entry_mutation=True)
    got = checkpoint(f, x, context_fn=keep, early_stop=early_stop)
    assert ad.allclose(ad.autograd.grad(got.sum(), x)[0], ad.autograd.grad(f(x).sum(), x)[0])


def test_a_kept_result_that_was_changed_is_refused():
    def f(x):
        return x.sin().mul_(2).cos().exp()

    x = ad.rand(3, requires_grad=True)
    out = checkpoint(f, x, context_fn=selective([ad.sin]))
    with pytest.raises(RuntimeError, match="selective activation checkpoint has been mutated"):
        out.sum().backward()
    out = checkpoint(f, x, context_fn=selective([ad.sin], allow_cache_entry_mutation=True))
    out.sum().backward()


def test_kept_results_serve_one_pass():
    x = ad.rand(3, requires_grad=True)
    out = checkpoint(lambda x: x.sin().cos().exp(), x, context_fn=selective([ad.sin])).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.backward(retain_graph=True)


def test_bad_policies():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([2])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(2)
    x = ad.rand(3, requires_grad=True)
    with pytest.raises(TypeError, match="must return a CheckpointPolicy or a bool, got 'yes'"):
        checkpoint(chain, x, context_fn=selective(lambda *args: "yes"))
    chain(x).sum().backward()  # nothing is left behind


def test_contexts_passed_in_place_of_their_function_are_refused():
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"context_fn must be a function .* got .*functools.partial"
    ):
        checkpoint(ad.sin, x, context_fn=create_selective_checkpoint_contexts([ad.sin]))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_methods_of_objects_that_hold_tensors_can_be_checkpointed(use_reentrant):
    class Scale:
        def __init__(self) -> None:
            self.w = ad.ones(2, requires_grad=True)

        def run(self, x):
            return self.w * x

    scale = Scale()
    x = ad.ones(2, requires_grad=True)
    checkpoint(scale.run, x, use_reentrant=use_reentrant).sum().backward()
    assert scale.w.grad is not None
    assert scale.w.grad.tolist() == [1.0, 1.0]


def test_forward_over_reverse_through_a_checkpoint_is_refused():
    def f(x):
        return checkpoint(lambda y: (y * y * y).sum(), x)

    x = ad.tensor([1.0, 2.0])
    pushed = ad.func.grad(f)
    for run in (
        lambda: ad.func.hessian(f)(x),
        lambda: ad.func.jvp(pushed, (x,), (ad.ones(2),)),
        lambda: ad.func.jacfwd(ad.func.jacfwd(pushed))(x),
    ):
        with pytest.raises(RuntimeError, match="carries a tangent"):
            run()
    assert ad.func.jvp(f, (x,), (ad.ones(2),))[1].item() == 15
    assert ad.func.jacrev(ad.func.jacrev(f))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def of_rows(x):
    return (x.sin() * x).sum() + (x**3).prod()


@pytest.mark.parametrize(
    "f",
    [
        ad.func.vmap(ad.func.grad(of_rows)),
        ad.func.vmap(ad.func.jacrev(ad.func.jacrev(of_rows))),
        ad.func.vmap(ad.func.jacrev(lambda x: x.sin() * x.sum())),
        ad.func.jacrev(ad.func.vmap(of_rows)),
        ad.func.grad(lambda x: ad.func.vmap(of_rows)(x).sum()),
    ],
)
def test_derivatives_inside_of_maps_inside(f):
    """The values they need are asked for inside the map: the function runs again outside of it."""
    x = ad.randn(4, 3, dtype=ad.float64, requires_grad=True)
    expected, found = f(x), checkpoint(f, x, use_reentrant=False)
    assert ad.equal(found, expected)
    (expected,) = ad.autograd.grad(expected.square().sum(), x)
    (found,) = ad.autograd.grad(found.square().sum(), x)
    ad.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_batched_gradients_run_the_function_again_outside_of_their_map():
    x = ad.ones(4, 3, requires_grad=True)
    seed = ad.get_rng_state()
    y = checkpoint(ad.nn.functional.dropout, x * 2, use_reentrant=False)
    ad.set_rng_state(seed)
    kept = ad.nn.functional.dropout(x * 2)
    v = ad.randn(5, 4, 3)
    (found,) = ad.autograd.grad(y, x, v, is_grads_batched=True)
    (expected,) = ad.autograd.grad(kept, x, v, is_grads_batched=True)
    assert ad.equal(found, expected)


def test_a_derivative_in_a_map_in_a_checkpoint_in_a_map_is_refused():
    def f(x):
        return checkpoint(ad.func.vmap(ad.func.grad(of_rows)), x, use_reentrant=False)

    with pytest.raises(RuntimeError, match="cannot run again"):
        ad.func.vmap(f)(ad.randn(2, 4, 3, requires_grad=True))
