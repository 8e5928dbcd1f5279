"""autograd.Function: the call, what ctx keeps, what backward may return, and how it is refused."""

from __future__ import annotations

import gc
import re
import threading
import traceback
import weakref

import pytest

import adjoint as ad
from adjoint.autograd import Function, graph
from adjoint.autograd.function import (
    BackwardCFunction,
    FunctionCtx,
    InplaceFunction,
    _is_setup_context_defined,
)


def make(forward, backward=None, name="Fn", **more):
    """A Function from plain functions."""
    rules = {"forward": staticmethod(forward)}
    if backward is not None:
        rules["backward"] = staticmethod(backward)
    rules |= {key: staticmethod(rule) for key, rule in more.items()}
    return type(Function)(name, (Function,), rules)


def save_and_square(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def square_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


Square = make(save_and_square, square_backward, "Square")


def leaf(*values):
    return ad.tensor(list(values), requires_grad=True)


# --- the call -------------------------------------------------------------------------------------


def test_gradients_come_from_the_users_backward():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)

    def forward(ctx, x, scale, y):
        ctx.scale = scale
        ctx.save_for_backward(x, y)
        return x + scale * y + x * y

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad + grad * y, None, grad * ctx.scale + grad * x

    z = make(forward, backward).apply(x, 2, y)
    z.sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]
    assert y.grad.tolist() == [3.0, 4.0]


def test_ctx_is_the_node_of_the_graph():
    seen = []

    def forward(ctx, x):
        seen.append(ctx)
        ctx.note = "kept"
        ctx.save_for_backward(x)
        return x * 2

    cls = make(forward, lambda ctx, g: (seen.append(ctx), g * 2)[1], "MyFn")
    x = leaf(1.0)
    y = cls.apply(x)
    y.backward(retain_graph=True)
    node = y.grad_fn
    assert node is seen[0] is seen[1]
    assert type(node) is cls._backward_cls
    assert type(node).__name__ == node.name() == "MyFnBackward"
    assert node._forward_cls is cls
    assert isinstance(node, graph.Node)
    assert isinstance(node, FunctionCtx)
    assert issubclass(cls._backward_cls, BackwardCFunction)
    assert node.note == "kept"
    assert vars(node) == {"note": "kept"}
    assert node.saved_tensors[0] is x
    assert node.next_functions[0][0].variable is x
    assert "MyFnBackward" in repr(y)


def test_forward_runs_without_recording_and_backward_as_the_engine_does():
    modes = []

    def forward(ctx, x):
        modes.append(ad.is_grad_enabled())
        return x * 1

    def backward(ctx, grad):
        modes.append(ad.is_grad_enabled())
        return grad

    cls = make(forward, backward)
    x = leaf(1.0)
    ad.autograd.grad(cls.apply(x), x)
    ad.autograd.grad(cls.apply(x), x, create_graph=True)
    assert modes == [False, False, False, True]
    assert ad.is_grad_enabled()


def test_nothing_is_recorded_under_no_grad_or_without_need():
    x = leaf(1.0)
    with ad.no_grad():
        y = Square.apply(x)
    assert y.grad_fn is None
    assert not y.requires_grad
    assert not Square.apply(ad.ones(2)).requires_grad


def test_split_forward_gets_defaults_and_setup_context_sees_them():
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append((inputs, output))
        x, power = inputs
        ctx.save_for_backward(x)
        ctx.power = power

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.power * x ** (ctx.power - 1), None

    cls = make(lambda x, power=3: x**power, backward, setup_context=setup_context)
    x = leaf(2.0)
    y = cls.apply(x)
    y.backward()
    assert x.grad.tolist() == [12.0]
    assert seen[0][0] == (x, 3)
    assert _is_setup_context_defined(cls.setup_context)
    assert not _is_setup_context_defined(Square.setup_context)


def test_split_forward_may_be_a_classmethod():
    class Power(Function):
        @classmethod
        def forward(cls, x, power=3):
            return x**power

        @classmethod
        def setup_context(cls, ctx, inputs, output):
            x, ctx.power = inputs
            ctx.save_for_backward(x)

        @classmethod
        def backward(cls, ctx, grad):
            return grad * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1), None

    x = leaf(2.0)
    Power.apply(x).backward()
    assert x.grad.tolist() == [12.0]


def test_arguments_by_keyword_take_their_place():
    cls = make(lambda ctx, x, scale=1: x * scale, lambda ctx, g: (g, None))
    x = leaf(1.0)
    assert cls.apply(x, scale=3).tolist() == [3.0]
    assert cls.apply(x=x).tolist() == [1.0]
    cls.apply(scale=2, x=x).backward()
    assert x.grad.tolist() == [1.0]


def test_unknown_and_keyword_only_arguments_are_refused():
    cls = make(lambda ctx, x, *, scale=1: x * scale)
    with pytest.raises(TypeError, match=r"Fn.apply\(\): got an unexpected keyword argument 'size'"):
        cls.apply(leaf(1.0), size=1)
    with pytest.raises(TypeError, match=r"keyword-only arguments \(scale\) have no place"):
        cls.apply(leaf(1.0), scale=1)


def test_outputs_that_are_no_tensors_pass_through():
    got = []

    def backward(ctx, *grads):
        got.extend(grads)
        return grads[1] * 2

    cls = make(lambda ctx, x: ("text", x * 2, None, 7), backward)
    x = leaf(1.0)
    text, y, none, seven = cls.apply(x)
    assert (text, none, seven) == ("text", None, 7)
    assert y.output_nr == 1
    y.backward()
    assert [g is None for g in got] == [True, False, True, True]
    assert x.grad.tolist() == [2.0]


def test_a_call_without_tensors_just_runs():
    assert make(lambda ctx, a, b: (a + b, a * b)).apply(2, 3) == (5, 6)


def test_vjp_is_another_name_for_backward():
    x = leaf(3.0)
    make(save_and_square, vjp=square_backward).apply(x).backward()
    assert x.grad.tolist() == [6.0]


def test_attributes_for_transforms_have_pytorchs_defaults():
    assert Square.generate_vmap_rule is False
    with pytest.raises(NotImplementedError, match="override the vmap staticmethod"):
        Square.vmap(None, None)
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        Square.jvp(None)


def test_more_inputs_outputs_and_saved_tensors_than_fit_inline():
    def forward(ctx, *xs):
        ctx.save_for_backward(*xs)
        return tuple(x * x for x in xs)

    def backward(ctx, *grads):
        return tuple(2 * x * g for x, g in zip(ctx.saved_tensors, grads, strict=True))

    xs = [leaf(float(i)) for i in range(20)]
    ys = make(forward, backward).apply(*xs)
    sum(ys).backward()
    assert [x.grad.item() for x in xs] == [2.0 * i for i in range(20)]
    assert ys[19].grad_fn.needs_input_grad == (True,) * 20


def test_a_method_without_staticmethod_works_as_in_pytorch():
    class Fn(Function):
        def forward(ctx, x):
            return x * 2

        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    Fn.apply(x).backward()
    assert x.grad.tolist() == [2.0]


# --- needs_input_grad, materialize_grads, non-differentiable outputs ------------------------------


def test_needs_input_grad_has_one_flag_per_argument():
    seen = []

    def forward(ctx, *args):
        seen.append(ctx.needs_input_grad)
        return args[0] * 1

    cls = make(forward, lambda ctx, g: (g, None, None))
    cls.apply(leaf(1.0), ad.ones(1), "text")
    with ad.no_grad():
        cls.apply(leaf(1.0), ad.ones(1), "text")
    assert seen == [(True, False, False)] * 2


def test_missing_gradients_are_zeros_unless_asked_otherwise():
    got = []

    def record(ctx, *grads):
        got.append([None if g is None else g.tolist() for g in grads])
        return grads[0] * 1

    def none_instead(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    x = leaf(1.0, 2.0)
    for forward in (lambda ctx, x: (x * 1, x * 2), none_instead):
        make(forward, record).apply(x)[0].sum().backward()
    assert got == [[[1.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], None]]


def test_outputs_marked_non_differentiable_have_no_history():
    def forward(ctx, x):
        mask = x * 0 + 1
        ctx.mark_non_differentiable(mask)
        return mask, x * 2

    got = []
    cls = make(forward, lambda ctx, gm, g: (got.append(gm.tolist()), g * 2)[1])
    x = leaf(1.0)
    mask, y = cls.apply(x)
    assert not mask.requires_grad
    y.backward()
    assert got == [[0.0]]
    assert x.grad.tolist() == [2.0]


def test_integer_outputs_have_no_history():
    x = leaf(1.5)
    whole, y = make(lambda ctx, x: (x.long(), x * 2), lambda ctx, gi, g: g * 2).apply(x)
    assert not whole.requires_grad
    assert y.requires_grad


def test_backward_may_return_none_and_surplus_nones():
    x = leaf(1.0)
    make(lambda ctx, x: x * 2, lambda ctx, g: None).apply(x).backward()
    assert x.grad is None
    make(lambda ctx, x: x * 2, lambda ctx, g: (g, None, None)).apply(x).backward()
    assert x.grad.tolist() == [1.0]


# --- saved tensors --------------------------------------------------------------------------------


def test_inputs_outputs_and_none_are_saved():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(None, x, y)
        return y

    def backward(ctx, grad):
        nothing, x, y = ctx.saved_tensors
        assert nothing is None
        assert y.grad_fn is ctx
        return grad * y + 0 * x

    x = leaf(0.0, 1.0)
    y = make(forward, backward).apply(x)
    saved = y.grad_fn.saved_tensors
    assert saved[1] is x
    assert saved[2].data_ptr() == y.data_ptr()
    (first,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = ad.autograd.grad(first.sum(), x)
    assert first.tolist() == second.tolist() == y.tolist()


def test_saving_an_output_makes_no_cycle():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    y = make(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf(1.0))
    alive = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert alive() is None
    finally:
        gc.enable()


def test_cycles_through_ctx_are_collected():
    def scope():
        notes = {}

        def forward(ctx, x):
            ctx.notes = notes
            y = x.clone()
            ctx.save_for_backward(y)
            return y

        y = make(forward, lambda ctx, g: g).apply(leaf(1.0))
        notes["y"] = y
        return weakref.ref(y), weakref.ref(y.grad_fn)

    refs = scope()
    gc.collect()
    assert all(r() is None for r in refs)


def test_classes_of_functions_are_collected():
    def scope():
        cls = make(save_and_square, square_backward, "Local")
        x = leaf(1.0)
        cls.apply(x).backward()
        return weakref.ref(cls), weakref.ref(cls._backward_cls)

    refs = scope()
    gc.collect()
    assert all(r() is None for r in refs)


def test_a_changed_saved_value_is_found_with_both_lines():
    x = leaf(1.0).clone()
    y = Square.apply(x)  # saved
    x.add_(1)  # changed
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.backward()
    message = str(caught.value)
    assert re.search(r"saved here .*y = Square\.apply\(x\)  # saved", message)
    assert re.search(r"changed here .*x\.add_\(1\)  # changed", message)


def test_saved_values_are_freed_by_backward():
    x = leaf(1.0)
    y = Square.apply(x)
    y.backward()
    for read in (lambda: y.grad_fn.saved_tensors, lambda: y.grad_fn._raw_saved_tensors, y.backward):
        with pytest.raises(RuntimeError, match="after they have already been freed") as caught:
            read()
        assert "freed here" in str(caught.value)
        assert "retain_graph=True" in str(caught.value)


def test_backward_without_saved_values_runs_again():
    x = leaf(1.0)
    y = make(lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0]


def test_maybe_clear_saved_tensors_lets_go_at_once():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        result = 2 * x * g
        ctx.maybe_clear_saved_tensors()
        return result

    x = leaf(3.0)
    y = make(save_and_square, backward).apply(x)
    y.backward(retain_graph=True)  # keeps them
    y.backward()
    assert x.grad.tolist() == [12.0]
    with pytest.raises(RuntimeError, match=r"by ctx.maybe_clear_saved_tensors\(\)"):
        _ = y.grad_fn.saved_tensors


def test_saved_tensors_may_be_given_away_at_the_first_access():
    alive = []

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        alive.append(weakref.ref(x))
        result = 2 * x * g
        del x
        assert alive[0]() is None
        return result

    cls = make(save_and_square, backward)
    cls.clear_saved_tensors_on_access = True
    x = leaf(3.0)
    y = cls.apply(x * 1)
    y.backward()
    assert x.grad.tolist() == [6.0]
    with pytest.raises(RuntimeError, match="can only be accessed once when clear_saved_tensors_on"):
        _ = y.grad_fn.saved_tensors


def test_gradients_may_come_in_a_list_of_their_own():
    cls = make(lambda ctx, x: (x * 2, x * 3), lambda ctx, grads: 2 * grads.pop() + 3 * grads.pop())
    cls.boxed_grads_call = True
    x = leaf(1.0)
    a, b = cls.apply(x)
    (a + 10 * b).backward()
    assert x.grad.tolist() == [23.0]


def test_saved_tensors_hooks_see_what_functions_save():
    packed = []
    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: (packed.append(t), t.tolist())[1], ad.tensor):
        y = Square.apply(x)
    assert packed[0] is x
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_unpacked_values_keep_their_history():
    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = Square.apply(x)
    (first,) = ad.autograd.grad(y, x, create_graph=True)
    (second,) = ad.autograd.grad(first, x)
    assert (first.tolist(), second.tolist()) == ([6.0], [2.0])


def test_raw_saved_tensors_take_hooks():
    x = leaf(3.0)
    y = Square.apply(x)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t * 2, lambda t: t)
    y.backward()
    assert x.grad.tolist() == [12.0]


@pytest.mark.parametrize("thing", [3, "text", [1.0]])
def test_only_tensors_are_saved(thing):
    cls = make(lambda ctx, x: ctx.save_for_backward(thing))
    kind = type(thing).__name__
    with pytest.raises(
        TypeError, match=f"can only save variables, but argument 0 is of type {kind}"
    ):
        cls.apply(leaf(1.0))


def test_save_for_forward_takes_tensors_only():
    with pytest.raises(TypeError, match="save_for_forward expects all arguments to be tensors"):
        make(lambda ctx, x: ctx.save_for_forward(1)).apply(leaf(1.0))


def test_old_spellings_warn():
    x = leaf(1.0)
    node = Square.apply(x).grad_fn
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        assert node.saved_variables[0] is x
    with pytest.warns(FutureWarning, match="mark_shared_storage is deprecated"):
        node.mark_shared_storage((x, x))


# --- refused gradients ----------------------------------------------------------------------------


def test_wrong_number_of_gradients_names_the_arguments():
    cls = make(lambda ctx, x, y: x * y, lambda ctx, g: g, "Product")
    message = (
        r"function ProductBackward returned an incorrect number of gradients \(expected 2, got 1\)"
        r": Product.backward must return one gradient per argument of forward \('x', 'y'\)"
    )
    with pytest.raises(RuntimeError, match=message):
        cls.apply(leaf(1.0), leaf(1.0)).backward()
    too_many = make(lambda ctx, x: x * 2, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match=r"expected 1, got 2"):
        too_many.apply(leaf(1.0)).backward()


def test_wrong_shape_names_the_argument_and_both_shapes():
    cls = make(lambda ctx, a, *rest: a * 2, lambda ctx, g: (None, ad.ones(3)), "Fn")
    with pytest.raises(RuntimeError, match="expected shape compatible") as caught:
        cls.apply(leaf(1.0, 2.0), leaf(1.0, 2.0)).sum().backward()
    message = str(caught.value)
    assert "FnBackward returned an invalid gradient at index 1 - got [3]" in message
    assert "gradient of shape [3] for argument 'rest[0]', which has shape [2]" in message
    assert "cls.apply(leaf(1.0, 2.0)" in message


def test_gradients_that_broadcast_are_summed():
    x = leaf(1.0)
    make(lambda ctx, x: x.expand(3), lambda ctx, g: g).apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_wrong_type_of_gradient():
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got int\): Fn.backward"):
        make(lambda ctx, x: x * 2, lambda ctx, g: 3).apply(leaf(1.0)).backward()


def test_a_gradient_for_what_is_no_tensor():
    message = "different than None at position 2, but the corresponding forward input was not"
    with pytest.raises(RuntimeError, match=message) as caught:
        make(lambda ctx, x, k: x * k, lambda ctx, g: (g, g)).apply(leaf(1.0), 2).backward()
    assert "argument 'k' of Fn.forward" in str(caught.value)


# --- refused definitions --------------------------------------------------------------------------


def test_missing_rules():
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        type(Function)("Empty", (Function,), {}).apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        make(lambda ctx, x: x * 2).apply(leaf(1.0)).backward()
    both = make(lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    y = both.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        y.backward()
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        y.grad_fn.apply(ad.ones(1))


def test_instances_are_of_no_use():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        f = Square()
    assert isinstance(f, Square)
    with pytest.raises(RuntimeError, match="non-static forward method is deprecated"):
        f(leaf(1.0))
    for name in ("next_functions", "register_hook", "name", "_register_hook_dict"):
        with pytest.raises(RuntimeError, match=f"Attribute '{name}' is invalid"):
            getattr(f, name)
    with pytest.raises(RuntimeError, match="underlying PyNode has already been deallocated"):
        _ = f.metadata
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = f.nothing
    with pytest.warns(DeprecationWarning):
        assert InplaceFunction(inplace=True).inplace


def test_nodes_are_made_by_apply_alone():
    with pytest.raises(TypeError, match=r"made by Function\.apply"):
        Square._backward_cls()
    with pytest.raises(TypeError, match=r"belongs to subclasses of autograd\.Function"):
        ad._core._function_apply(int, 1)


def test_marks_take_tensors_only():
    for mark, text in (
        ("mark_dirty", "mark_dirty can only accept variables, but argument 0 is of type int"),
        ("mark_non_differentiable", "only accepts variable arguments, but argument 0 is of type"),
    ):
        cls = make(lambda ctx, x, mark=mark: getattr(ctx, mark)(3))
        with pytest.raises(RuntimeError, match=text):
            cls.apply(leaf(1.0))


# --- exceptions, threads, depth -------------------------------------------------------------------


def test_errors_reach_the_user_with_their_traceback():
    def backward(ctx, g):
        raise KeyError("mine")

    y = make(lambda ctx, x: x * 2, backward).apply(leaf(1.0))
    with pytest.raises(KeyError, match="mine") as caught:
        y.backward()
    assert any(
        frame.name == "backward" for frame in traceback.extract_tb(caught.value.__traceback__)
    )
    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError):
        make(lambda ctx, x: 1 / 0).apply(x)
    assert ad.is_grad_enabled()
    Square.apply(x).backward()
    assert x.grad.tolist() == [2.0]


def test_backward_inside_backward():
    y_data = ad.tensor([2.0, 3.0])

    def forward(ctx, x):
        with ad.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = ctx.x * y_data
        return ctx.y.detach()

    def backward(ctx, grad):
        with ad.enable_grad():
            ctx.y.sum().backward()
        return ctx.x.grad * grad

    x = leaf(1.0, 1.0)
    make(forward, backward).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


def test_backward_in_other_threads():
    x = leaf(3.0)
    ys = [Square.apply(x) for _ in range(4)]
    threads = [threading.Thread(target=y.backward) for y in ys]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [24.0]


def test_a_million_calls_are_freed_without_recursion():
    cls = make(lambda ctx, x, y: x, lambda ctx, g: (g, None))
    x = y = leaf(1.0)
    for _ in range(1_000_000):
        y = cls.apply(y, y)
    del y
    y = x
    for _ in range(200_000):
        y = cls.apply(y, None)
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_many_iterations_leave_nothing_behind():
    x = leaf(1.0)

    def forward(ctx, x):
        y = x.exp()
        ctx.extra = [y]
        ctx.save_for_backward(x, y)
        return y

    cls = make(forward, lambda ctx, g: g * ctx.saved_tensors[1])

    def live():
        gc.collect()
        return sum(issubclass(type(o), (graph.Node, ad.Tensor)) for o in gc.get_objects())

    for _ in range(10):
        cls.apply(x).backward()
    before = live()
    for _ in range(10_000):
        cls.apply(x).backward()
    assert live() < before + 1_000  # what other tests left may come or go meanwhile


# --- hooks on the node ----------------------------------------------------------------------------


def test_hooks_on_the_node_and_on_outputs():
    calls = []
    x = leaf(3.0)
    y = Square.apply(x)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda gin, gout: calls.append((gin[0].item(), gout[0].item())))
    y.register_hook(lambda g: g * 5)
    y.backward()
    assert x.grad.tolist() == [60.0]
    assert calls == [(60.0, 10.0)]


def test_the_node_can_be_applied_by_hand():
    y = Square.apply(leaf(3.0))
    assert y.grad_fn.apply(ad.ones(1)).tolist() == [6.0]
    assert y.grad_fn.metadata == {}
    assert y.grad_fn.source[1] > 0


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        ({"a": 1}, r"of type dict \(save the tensors in a dict: .*\*d\.values\(\)\)"),
        ([1], r"of type list \(save the tensors in it one by one: .*\*tensors\)"),
        (3, r"of type int \(keep other things as attributes: ctx\.name = value\)"),
    ],
)
def test_what_cannot_be_saved_is_named_with_the_way_to_keep_it(what, advice):
    cls = make(lambda ctx, x: ctx.save_for_backward(what), lambda ctx, g: g)
    with pytest.raises(TypeError, match="save_for_backward can only save variables.*" + advice):
        cls.apply(leaf(1.0))
