"""Tensors that a custom forward computes with although they are not arguments of ``apply``.

Their gradient is lost unless backward sees to it: an error says so, and functions that do (such as
reentrant checkpoints) work.
"""

from __future__ import annotations

import functools
import gc
import weakref

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function

SCALE = ad.tensor([3.0], requires_grad=True)


def leaf(*values):
    return ad.tensor(values, requires_grad=True)


class Call(Function):
    """Runs a function; backward passes the gradient on as it is."""

    @staticmethod
    def forward(ctx, run, x):
        return run(x)

    @staticmethod
    def backward(ctx, grad):
        return None, grad


class Checkpoint(Function):
    """As written for PyTorch: runs the function again in backward, and differentiates that."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        with ad.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        inner = x.detach().requires_grad_(x.requires_grad)
        with ad.enable_grad():
            out = ctx.run(inner)
        ad.autograd.backward(out, grad)
        return None, inner.grad


class Runner:
    def __init__(self, t):
        self.t = t

    def run(self, x):
        return x * self.t


def closure(w):
    return lambda x: x * w


def default(w):
    return lambda x, w=w: x * w


def keyword_default(w):
    def run(x, *, w=w):
        return x * w

    return run


def nested(w):
    inner = closure(w)
    return lambda x: inner(x)


def module(w):
    net = nn.Sequential(nn.Linear(1, 1))
    with ad.no_grad():
        net[0].weight.copy_(w.reshape(1, 1))
        net[0].bias.zero_()
    return net


HIDING = [
    (closure, "w (a variable of run, float32 [1])"),
    (default, "w (a default of run, float32 [1])"),
    (keyword_default, "w (a default of run, float32 [1])"),
    (nested, "w (a variable of inner, float32 [1])"),
    (lambda w: functools.partial(ad.mul, w), "run.args[0] (argument 'run', float32 [1])"),
    (
        lambda w: functools.partial(lambda x, k: x * k, k=w),
        "run.keywords['k'] (argument 'run', float32 [1])",
    ),
    (lambda w: Runner(w).run, "run.__self__.t (argument 'run', float32 [1])"),
    (module, "run.0.weight (argument 'run', float32 [1, 1])"),
    (lambda w: module(w).forward, "run.__self__.0.weight (argument 'run', float32 [1, 1])"),
    (lambda w: lambda x: x * SCALE, "SCALE (a global of run, float32 [1])"),
]
IDS = [f"{i}-{name.partition(' ')[0]}" for i, (_, name) in enumerate(HIDING)]


@pytest.mark.parametrize(("hide", "name"), HIDING, ids=IDS)
def test_a_gradient_that_backward_does_not_give_is_an_error(hide, name):
    run = hide(leaf(2.0))  # held: what is gone needs no gradient
    y = Call.apply(run, leaf(1.0))
    with pytest.raises(RuntimeError) as e:
        y.sum().backward()
    text = str(e.value)
    assert text.startswith(f"the gradient of {name} is lost: Call.forward computes with it")
    assert "Call.backward gave it no gradient" in text
    assert text.count("test_function_hidden.py") == 2  # where it was read, and the call
    assert "pass it to apply as an argument of its own" in text
    assert "allow_hidden_tensors = True" in text


@pytest.mark.parametrize(("hide", "name"), HIDING, ids=IDS)
def test_a_backward_that_differentiates_the_function_itself_is_right(hide, name):
    w, x = leaf(2.0), leaf(5.0)
    run = hide(w)
    Checkpoint.apply(run, x).sum().backward()
    got = x.grad.clone()
    x.grad = None
    run(x.reshape(1, 1) if isinstance(run, nn.Module) else x).sum().backward()
    assert ad.equal(got, x.grad)
    SCALE.grad = None


def test_the_hidden_tensor_gets_its_gradient_from_such_a_backward():
    w, x = leaf(2.0), leaf(5.0)
    for _ in range(2):  # into a gradient that is there, too
        Checkpoint.apply(lambda t: t * w, x).sum().backward()
    assert (w.grad.item(), x.grad.item()) == (10, 4)


def test_a_hidden_result_that_is_no_leaf_is_found_too():
    w = leaf(2.0)
    h = w * 2
    y = Call.apply(lambda t: t * h, leaf(1.0))
    with pytest.raises(RuntimeError, match=r"the gradient of h \(a variable of run"):
        y.backward()
    x = leaf(5.0)
    Checkpoint.apply(lambda t: t * h, x).backward()
    assert (w.grad.item(), x.grad.item()) == (10, 4)


def test_gradients_captured_by_grad_in_backward_count():
    class Grad(Call):
        @staticmethod
        def forward(ctx, run, w, x):
            ctx.run, ctx.w = run, w[0]
            ctx.save_for_backward(x)
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            inner = x.detach().requires_grad_()
            with ad.enable_grad():
                out = ctx.run(inner)
            to_x, to_w = ad.autograd.grad(out, (inner, ctx.w()), grad)
            collected.append(to_w)
            return None, None, to_x

    collected = []
    w, x = leaf(2.0), leaf(5.0)
    Grad.apply(lambda t: t * w, (lambda: w,), x).backward()
    assert collected[0].item() == 5
    assert w.grad is None


def test_a_gradient_written_by_hand_counts():
    class Manual(Call):
        @staticmethod
        def backward(ctx, grad):
            if w.grad is None:
                w.grad = grad * 5
            else:
                w.grad.add_(grad * 5)
            return None, grad * 2

    w, x = leaf(2.0), leaf(5.0)
    for _ in range(2):
        Manual.apply(lambda t: t * w, x).backward()
    assert w.grad.item() == 10


def test_a_class_may_allow_it():
    class Allowed(Call):
        allow_hidden_tensors = True

    w, x = leaf(2.0), leaf(5.0)
    Allowed.apply(lambda t: t * w, x).backward()
    assert w.grad is None
    assert not Allowed.apply(lambda t: t * w, ad.ones(1)).requires_grad
    assert Allowed.apply(Runner(w).run, x).requires_grad

    class Holder(Function):
        allow_hidden_tensors = True

        @staticmethod
        def forward(ctx, x, holder):
            return x * holder.t

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    Holder.apply(x, Runner(w)).backward()


def test_what_no_gradient_was_asked_for_is_not_missed():
    w, x, y = leaf(2.0), leaf(5.0), leaf(1.0)
    out = Call.apply(lambda t: t * w, x)
    assert ad.autograd.grad(out, x, retain_graph=True)[0].item() == 1
    out.backward(inputs=[x], retain_graph=True)
    with pytest.raises(RuntimeError, match="is lost"):
        ad.autograd.grad(out + w, [x, w], retain_graph=True)
    with pytest.raises(RuntimeError, match="is lost"):
        out.backward(retain_graph=True)
    h = y * 2
    out = Call.apply(lambda t: t * h, x)
    assert ad.autograd.grad(out, x, retain_graph=True)[0].item() == 1
    with pytest.raises(RuntimeError, match="is lost"):  # behind h
        ad.autograd.grad(out + y, [x, y])


def test_without_a_recorded_argument_the_result_requires_grad_all_the_same():
    w = leaf(2.0)
    y = Call.apply(lambda t: t * w, ad.ones(1))
    assert y.requires_grad
    assert y.item() == 2
    with pytest.raises(
        RuntimeError, match=r"the gradient of w \(a variable of run, float32 \[1\]\)"
    ):
        y.backward()
    with ad.no_grad():
        assert not Call.apply(lambda t: t * w, ad.ones(1)).requires_grad
    assert not Call.apply(lambda t: t * w.detach(), ad.ones(1)).requires_grad
    w.requires_grad_(False)
    assert not Call.apply(lambda t: t * w, ad.ones(1)).requires_grad


def test_without_a_recorded_argument_backward_can_give_the_gradient():
    w = leaf(2.0)
    y = Checkpoint.apply(lambda t: t * w, ad.tensor([5.0]))
    (y * 3).backward()
    assert w.grad.item() == 15


@pytest.mark.parametrize(
    "ask",
    [
        lambda y, w: ad.autograd.grad(y, w, allow_unused=True),
        lambda y, w: ad.autograd.grad(y, w),
        lambda y, w: y.backward(inputs=[w]),
    ],
)
def test_a_gradient_asked_of_the_hidden_tensor_alone_is_missed(ask):
    w, x = leaf(2.0), leaf(5.0)
    for argument in (x, x.detach()):
        y = Call.apply(lambda t: t * w, argument) * 3
        with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
            ask(y, w)
    h = w * 2
    y = Call.apply(lambda t: t * h, x) * 3
    with pytest.raises(RuntimeError, match=r"the gradient of h .* is lost"):
        ask(y, w)


def test_transforms_miss_what_they_differentiate_by():
    def f(w):
        return Call.apply(lambda t: t * w, ad.ones(1)).sum()

    with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
        ad.func.grad(f)(ad.ones(1))
    with pytest.raises(RuntimeError, match=r"the tangent of w .* is lost"):
        ad.func.jvp(f, (ad.ones(1),), (ad.ones(1),))


def test_reads_that_lose_nothing_are_none():
    w, x = leaf(2.0), leaf(5.0)

    def run(t):
        assert (w > 0).all()
        assert w.argmax() == 0
        assert w.isnan().sum() == 0
        str(w), repr(w), w.shape, w.item(), w.tolist()
        return t + ad.zeros_like(w) + w.detach() + w.data

    Call.apply(run, x).backward()
    Call.apply(run, ad.ones(1))


def test_writing_into_a_hidden_tensor_is_not_reading_it():
    w, x = leaf(2.0), leaf(5.0)

    def run(t):
        w.copy_(t)
        w.mul_(2)
        return t * 1

    Call.apply(run, x).backward()
    assert w.item() == 10


def test_an_argument_is_not_hidden_however_it_is_reached():
    w, x = leaf(2.0), leaf(5.0)

    class Both(Function):
        @staticmethod
        def forward(ctx, run, x, *params):
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            return None, grad * 2, grad * 5

    Both.apply(lambda t: t * w, x, w).backward()
    assert (w.grad.item(), x.grad.item()) == (5, 2)


def test_what_forward_makes_for_itself_is_not_hidden():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            p = x.detach().requires_grad_()
            with ad.enable_grad():
                y = p * p
                (g,) = ad.autograd.grad(y, p)
                z = p * 3
            ctx.save_for_backward(g)
            return p * p + z - z

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = leaf(3.0)
    Inner.apply(x).backward()
    assert x.grad.item() == 6
    Inner.apply(ad.ones(1))


def test_a_function_inside_of_forward_reads_for_the_outer_one():
    w, x = leaf(2.0), leaf(5.0)
    y = Call.apply(lambda t: Call.apply(lambda s: s * w, t), x)
    with pytest.raises(RuntimeError, match=r"is lost: Call\.forward"):
        y.backward()


def test_functions_recorded_during_a_backward_pass_are_watched():
    w, x = leaf(2.0), leaf(5.0)
    y = Checkpoint.apply(lambda t: Call.apply(lambda s: s * w, t), x)
    with pytest.raises(RuntimeError, match=r"is lost: Call\.forward"):
        y.backward()


def test_our_reentrant_checkpoint_works_on_modules_and_closures():
    net = nn.Linear(2, 2)
    x = leaf(1.0, 2.0)
    ad.utils.checkpoint.checkpoint(lambda t: net(t), x, use_reentrant=True).sum().backward()
    assert net.weight.grad is not None
    ad.utils.checkpoint.checkpoint(net, x, use_reentrant=True).sum().backward()


def test_a_hidden_tensor_that_died_is_not_missed():
    held, x = [leaf(2.0)], leaf(5.0)
    y = Call.apply(lambda t: t * held[0], x)
    gone = weakref.ref(held.pop())
    assert gone() is None  # the node keeps nothing alive
    y.backward()
    assert x.grad.item() == 1


# --- computed tensors, which may die before the leaf that misses its gradient


def by_object(w):
    return Runner(w * 2).run


def by_closure(w):
    s = w * 2
    return lambda t: t * s


@pytest.mark.parametrize("hide", [by_object, by_closure])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_computed_tensor_that_died_is_missed_by_its_leaf(hide, recorded):
    w, x = leaf(2.0), ad.ones(1, requires_grad=recorded)
    y = Call.apply(hide(w), x)  # what computes it dies with the call
    gc.collect()
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=r"the gradient of .* is lost"):
        ad.autograd.grad(y, w, allow_unused=True, retain_graph=True)
    with pytest.raises(RuntimeError, match=r"the gradient of .* is lost"):
        y.sum().backward()
    assert w.grad is None


def test_a_computed_tensor_that_died_is_not_missed_if_nobody_asks():
    w, x = leaf(2.0), leaf(5.0)
    y = Call.apply(by_closure(w), x)
    assert ad.autograd.grad(y, x)[0].item() == 1


def test_a_state_read_from_an_attribute_does_not_lose_its_chain():
    class State(Function):
        previous = None

        @staticmethod
        def forward(ctx, x):
            return x * 2 if State.previous is None else x + State.previous

        @staticmethod
        def backward(ctx, grad):
            return grad

    w, x = leaf(2.0), leaf(5.0)
    State.previous = State.apply(w)
    for _ in range(3):
        State.previous = State.apply(x)
    with pytest.raises(RuntimeError, match="is lost"):
        State.previous.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="is lost"):
        ad.autograd.grad(State.previous, w, allow_unused=True)


def test_a_long_chain_of_states_is_freed_with_the_last_one():
    class State(Function):
        previous = None

        @staticmethod
        def forward(ctx, x):
            return x * 2 if State.previous is None else x + State.previous

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(5.0)
    first = State.previous = State.apply(x)
    node = weakref.ref(first.grad_fn)
    del first
    for _ in range(3000):
        State.previous = State.apply(x)
    assert node() is not None
    State.previous = None
    assert node() is None


def test_a_computed_tensor_is_held_by_the_graph_and_no_longer():
    w, x = leaf(2.0), leaf(5.0)
    h = w * 2
    node = weakref.ref(h.grad_fn)
    y = Call.apply(closure(h), x)
    del h
    assert node() is not None
    del y
    assert node() is None


def test_a_pass_that_frees_the_graph_lets_go_of_computed_tensors():
    w, x, h = leaf(2.0), leaf(5.0), []
    h.append(w * 2)
    node = weakref.ref(h[0].grad_fn)
    y = Checkpoint.apply(lambda t: t * h[0], x)
    y.backward(retain_graph=True, inputs=[x])
    h[0] = ad.ones(1)
    assert node() is not None
    ad.autograd.grad(y, x)
    assert node() is None


@pytest.mark.parametrize("passed", [False, True])
def test_a_cycle_through_a_computed_hidden_tensor_is_collected(passed):
    w, x = leaf(2.0), leaf(5.0)
    h = w * 2
    node = h.grad_fn
    y = Call.apply(closure(h), x)
    if passed:
        with pytest.raises(RuntimeError, match="is lost"):
            y.backward()
    node.metadata["result"] = y  # y -> its node -> h's node -> y
    gone = weakref.ref(w), weakref.ref(node), weakref.ref(y.grad_fn)
    del w, h, node, y
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


def test_nothing_is_left_behind_on_the_hidden_tensor():
    w, x = leaf(2.0), leaf(5.0)
    node = weakref.ref(Checkpoint.apply(lambda t: t * w, x).grad_fn)
    assert node() is None
    y = Checkpoint.apply(lambda t: t * w, x)
    y.backward()
    assert not w._backward_hooks
    gone = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert gone() is None


def test_a_result_without_a_gradient_loses_nothing():
    class Mask(Function):
        @staticmethod
        def forward(ctx, x):
            out = x * w
            ctx.mark_non_differentiable(out)
            return out

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError

    w = leaf(2.0)
    assert not Mask.apply(ad.ones(1)).requires_grad
    assert not Mask.apply(leaf(1.0)).requires_grad


def test_reads_that_no_result_depends_on_lose_nothing():
    net, w, x = nn.Linear(1, 1), leaf(2.0), leaf(5.0)
    log = []

    def run(t):
        with ad.no_grad():
            log.append(net(t).mean().item())
        log.append(float((t * w).abs().sum()))
        assert ad.allclose(w, w)
        chosen = (t * w).argmax()
        return t * 2 + chosen

    Call.apply(run, x).backward()
    assert x.grad.item() == 1
    Call.apply(run, ad.ones(1))
    assert len(log) == 4


@pytest.mark.parametrize(
    "use",
    [
        lambda t, w: (t * w).clone().view(1)[0:1].detach(),
        lambda t, w: ad.cat([t, (w * 2).exp()]),
        lambda t, w: t.clone().mul_(w),
        lambda t, w: write(ad.zeros(2), 0, w * t),
        lambda t, w: ad.where(t > 0, w, t),
        lambda t, w: Call.apply(lambda s: s, t * w),
        lambda t, w: t * 2 + (w + t).unbind()[0],
        lambda t, w: ad.add(t, w, out=ad.zeros(1)),
    ],
)
def test_a_result_is_followed_back_to_what_was_read(use):
    w, x = leaf(2.0), leaf(5.0)
    y = Call.apply(lambda t: use(t, w), x)
    with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
        y.sum().backward()


def write(to, index, value):
    to[index] = value.reshape(())
    return to * 2


def test_an_argument_put_together_from_the_hidden_tensors_stands_for_them():
    class Flat(Function):
        @staticmethod
        def forward(ctx, run, flat, x):
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            return None, ad.cat([grad * 5, grad * 7]), grad * 2

    w, v, x = leaf(2.0), leaf(3.0), leaf(5.0)
    Flat.apply(lambda t: t * w + v, ad.cat([w.view(-1), v.view(-1)]), x).backward()
    assert (w.grad.item(), v.grad.item(), x.grad.item()) == (5, 7, 2)
    y = Flat.apply(lambda t: t * w + v, ad.cat([w, v]) * 2, x)  # computed from them: another value
    with pytest.raises(RuntimeError, match="is lost"):
        y.backward()


def test_somebody_elses_tensor_that_is_returned_is_missed():
    w, x = leaf(2.0), leaf(5.0)
    y = Call.apply(lambda t: w, x)
    with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
        y.backward()


# --- recorded inside


def detached(run):
    def inside(t):
        with ad.enable_grad():
            return run(t).detach()

    return inside


def kept_data(run):
    def inside(t):
        with ad.enable_grad():
            y = run(t)
        return y.data

    return inside


def in_place(run):
    def inside(t):
        with ad.enable_grad():
            y = run(t)
        return y.detach_()

    return inside


def as_it_is(run):
    def inside(t):
        with ad.enable_grad():
            return run(t)

    return inside


def computed_with(run):
    def inside(t):
        with ad.enable_grad():
            y = run(t)
        return y * 2

    return inside


@pytest.mark.parametrize("leave", [detached, kept_data, in_place, as_it_is, computed_with])
def test_what_forward_records_itself_is_missed_where_it_leaves_that_graph(leave):
    net, x = nn.Linear(1, 1), leaf(5.0)
    y = Call.apply(leave(net), x)
    with pytest.raises(
        RuntimeError, match=r"the gradient of .*(weight|bias) \(a variable of .*is lost: Call"
    ):
        y.sum().backward()
    h = leaf(2.0) * 2
    y = Call.apply(leave(lambda t: t * h), x)
    with pytest.raises(RuntimeError, match=r"the gradient of a tensor \(float32 \[1\]\) is lost"):
        y.sum().backward()
    Call.apply(leave(lambda t: t.detach() * 2), x).sum().backward()


def test_a_graph_recorded_in_forward_and_differentiated_in_backward_is_right():
    class Inside(Function):
        @staticmethod
        def forward(ctx, run, x):
            with ad.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = run(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.y.backward(grad)
            return None, ctx.x.grad

    w, x = leaf(2.0), leaf(5.0)
    Inside.apply(lambda t: t * w, x).backward()
    assert (w.grad.item(), x.grad.item()) == (5, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.detach().requires_grad_(),
        lambda x: ad.full((1,), x.item(), requires_grad=True),
        lambda x: ad.tensor(x.tolist(), requires_grad=True),
        lambda x: nn.Parameter(x.detach().clone()),
    ],
)
def test_a_leaf_that_forward_makes_and_keeps_is_not_hidden(make):
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.p = make(x)
            with ad.enable_grad():
                y = ctx.p * 2
            return ctx.p * ctx.p + y.detach() - y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.p.detach()

    x = leaf(3.0)
    Inner.apply(x).backward()
    assert x.grad.item() == 6
    assert not Inner.apply(ad.ones(1)).requires_grad


def test_a_long_graph_recorded_in_forward_is_gone_through_once():
    w, x = leaf(1.0), leaf(5.0)

    def run(t):
        with ad.enable_grad():
            for _ in range(3000):  # each step leaves the graph
                t = t * w
                log.append(t.detach())
        return t.detach()

    log = []
    y = Call.apply(run, x)
    with pytest.raises(RuntimeError, match=r"the gradient of w .* is lost"):
        y.backward()


# --- tangents


def dual(value=2.0):
    return ad.autograd.forward_ad.make_dual(ad.tensor([value]), ad.ones(1))


class Forward(Call):
    @staticmethod
    def jvp(ctx, _, tangent):
        return tangent


@pytest.mark.parametrize("recorded", [True, False])
def test_a_hidden_tangent_is_refused_at_the_call(recorded):
    with ad.autograd.forward_ad.dual_level(), ad.set_grad_enabled(recorded):
        w = dual()
        for x in (ad.ones(1), dual(3.0)):
            with pytest.raises(RuntimeError) as e:
                Forward.apply(lambda t: t * w, x)
            text = str(e.value)
            assert text.startswith(
                "the tangent of w (a variable of run, float32 [1]) is lost: Forward.forward "
                "computes with it although it is not an argument of apply, and Forward.jvp is told "
                "of its arguments alone"
            )
            assert text.count("test_function_hidden.py") == 2
            assert "use its tangent in jvp" in text
    assert Forward.apply(lambda t: t * w, ad.ones(1)).item() == 2  # the level is over


def test_a_view_of_a_dual_tensor_and_a_modules_parameter_are_found():
    net = nn.Linear(1, 1)
    with ad.autograd.forward_ad.dual_level():
        w = dual()
        with pytest.raises(RuntimeError, match=r"the tangent of .* is lost"):
            Forward.apply(lambda t: t * w[0:1], ad.ones(1))
        tangents = {name: ad.ones_like(p) for name, p in net.named_parameters()}
        duals = {
            name: ad.autograd.forward_ad.make_dual(p.detach(), tangents[name])
            for name, p in net.named_parameters()
        }
        with pytest.raises(RuntimeError, match=r"the tangent of .* is lost"):
            Forward.apply(lambda t: ad.func.functional_call(net, duals, (t,)), dual())


def test_tangents_of_arguments_are_not_hidden():
    with ad.autograd.forward_ad.dual_level():
        x = dual()
        for run in (
            lambda t: t.view(1, 1).sum(0) * 2,
            lambda t: x * 2,
            lambda t: t.detach() * 2,
            lambda t: (t > 0) * 2.0,
        ):
            y = Forward.apply(run, x)
            assert ad.autograd.forward_ad.unpack_dual(y).tangent.item() == 1
        w = dual()
        Forward.apply(lambda t: t * (w > 0), x)  # no derivative


def test_a_class_may_see_to_hidden_tangents_itself():
    class Allowed(Call):
        allow_hidden_tensors = True

    class Seen(Allowed):
        @staticmethod
        def jvp(ctx, _, tangent):
            return tangent * 7

    with ad.autograd.forward_ad.dual_level():
        w = dual()
        with pytest.raises(RuntimeError, match=r"the tangent of w .* is lost"):
            Allowed.apply(lambda t: t * w, ad.ones(1))  # without a jvp nothing can
        y = Seen.apply(lambda t: t * w, dual())
        assert ad.autograd.forward_ad.unpack_dual(y).tangent.item() == 7


def test_a_second_pass_after_one_that_freed_what_was_read() -> None:
    class Shifted(Function):
        @staticmethod
        def forward(ctx, x, holder):
            return x + holder[0]()

        @staticmethod
        def backward(ctx, g):
            return g, None

    w = ad.ones(3, requires_grad=True)
    x = ad.ones(3, requires_grad=True)

    def shifted():
        hidden = w * 2
        return Shifted.apply(x, [lambda: hidden * 1.0]).sum()

    y = shifted()
    ad.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    y = shifted()
    ad.autograd.grad(y, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="gradient of"):
        y.backward()
