"""autograd.Function with views and in-place changes: what is returned, what is refused."""

from __future__ import annotations

import pytest

import adjoint as ad
from tests.unit.autograd.test_function import leaf, make


def add_in_place(ctx, a, b):
    a.add_(b)
    ctx.mark_dirty(a)
    return a


Adder = make(add_in_place, lambda ctx, g: (g * 10, g * 100), "Adder")
CUSTOM_VIEW = (
    r"Output 0 of \w+ is a view and is being modified inplace\. "
    "This view was created inside a custom Function"
)


# --- inputs and views as outputs ------------------------------------------------------------------


def test_an_input_returned_as_it_is_becomes_a_view():
    cls = make(lambda ctx, x: x, lambda ctx, g: g * 2)
    x = leaf(1.0, 2.0)
    y = cls.apply(x)
    assert y is not x
    assert y._base is x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.is_leaf
    plain = ad.ones(2)
    assert cls.apply(plain) is not plain


def test_hooks_on_a_returned_input_see_its_own_gradient():
    cls = make(lambda ctx, a, b: (a, a + b), lambda ctx, ga, gb: (ga + gb, gb))
    x, y = leaf(1.0), leaf(2.0)
    q, p = cls.apply(x, y)
    seen = []
    q.register_hook(lambda g: seen.append(g.tolist()))
    (q + p + x).sum().backward()
    assert seen == [[1.0]]
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0], [1.0])


def test_a_leaf_that_is_no_argument_stays_a_leaf():
    weight = leaf(5.0)
    x = leaf(1.0)
    returns_it = make(lambda ctx, x: weight, lambda ctx, g: g * 3)
    with pytest.raises(RuntimeError, match=r"the gradient of weight .* is lost"):
        returns_it.apply(x).backward()
    returns_it.allow_hidden_tensors = True
    y = returns_it.apply(x)
    assert weight.is_leaf
    y.backward()
    assert x.grad.tolist() == [3.0]
    assert weight.grad is None


def test_an_input_marked_non_differentiable_is_returned_detached():
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x, x * 2

    x = leaf(1.0)
    y, z = make(forward, lambda ctx, gy, gz: gz * 2).apply(x)
    assert not y.requires_grad
    assert x.requires_grad
    assert z.requires_grad


def test_an_output_recorded_inside_forward_gets_the_custom_history():
    def forward(ctx, x):
        with ad.enable_grad():
            return x * 2

    cls = make(forward, lambda ctx, g: g * 7, "Mine")
    x = leaf(1.0)
    y = cls.apply(x)
    assert y.grad_fn.name() == "MineBackward"
    y.backward()
    assert x.grad.tolist() == [7.0]
    with ad.no_grad():
        assert cls.apply(x).grad_fn is None


def test_one_tensor_returned_twice():
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(1.0)
    a, b = make(forward, lambda ctx, ga, gb: 2 * ga + 2 * gb).apply(x)
    assert a is b
    (a + b).backward()
    assert x.grad.tolist() == [4.0]


def test_returned_views_refuse_changes():
    x = leaf(1.0, 2.0).clone()
    view = make(lambda ctx, x: x[:1], lambda ctx, g: ad.cat([g, g * 0])).apply(x)
    with pytest.raises(RuntimeError, match=CUSTOM_VIEW):
        view.add_(1)
    with pytest.raises(RuntimeError, match=CUSTOM_VIEW):
        view[0:1].mul_(2)  # a view of it, too
    with pytest.raises(RuntimeError, match=CUSTOM_VIEW):
        make(lambda ctx, x: x, lambda ctx, g: g).apply(x).add_(1)
    (view + 1).sum().backward()


def test_returned_views_refuse_changes_that_would_bring_a_history():
    view = make(lambda ctx, x: x.view_as(x), lambda ctx, g: g).apply(ad.ones(2))
    view.add_(1)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        view.add_(leaf(1.0, 2.0))


def test_several_returned_views_refuse_changes():
    cls = make(lambda ctx, x: (x[:1], x[1:]), lambda ctx, a, b: ad.cat([a, b]), "Halves")
    a, _ = cls.apply(leaf(1.0, 2.0).clone())
    message = "Output 0 of HalvesBackward is a view .* returns multiple views"
    with pytest.raises(RuntimeError, match=message):
        a.add_(1)


def test_a_returned_view_whose_base_changed_is_refused():
    x = leaf(1.0, 2.0).clone()
    view = make(lambda ctx, x: x[:1], lambda ctx, g: ad.cat([g, g * 0])).apply(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modif"):
        (view * 2).sum().backward()


def test_views_made_under_no_grad_are_those_of_no_grad():
    cls = make(lambda ctx, x: x[:], lambda ctx, g: g)
    x = leaf(1.0, 2.0)
    with ad.no_grad():
        y, expected = cls.apply(x), x[:]
    assert y.grad_fn is None
    assert y.requires_grad == expected.requires_grad
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modif"):
        y.zero_()


def test_changes_inside_forward_are_free():
    def forward(ctx, x):
        view = x.clone()[:1]
        view += 2
        return view

    y = make(forward, lambda ctx, g: ad.cat([g, g * 0]), "Local").apply(leaf(1.0, 2.0))
    assert y.tolist() == [3.0]
    assert y.grad_fn.name() == "LocalBackward"


# --- mark_dirty -----------------------------------------------------------------------------------


def test_a_changed_input_is_returned_itself():
    a, b = leaf(1.0), leaf(2.0)
    x = a * 1
    y = Adder.apply(x, b)
    assert y is x
    assert x.tolist() == [3.0]
    assert x.grad_fn.name() == "AdderBackward"
    y.sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([10.0], [100.0])


def test_retain_grad_and_hooks_of_a_changed_input():
    a, b = leaf(1.0), leaf(2.0)
    x = a * 1
    x.retain_grad()
    seen = []
    x.register_hook(lambda g: seen.append(("before", g.item())))
    Adder.apply(x, b)
    x.register_hook(lambda g: seen.append(("after", g.item())))
    x.sum().backward()
    assert seen == [("after", 1.0), ("before", 10.0)]
    assert x.grad.tolist() == [1.0]


def test_a_changed_input_without_history_gets_one():
    x, y = ad.ones(2), leaf(1.0, 1.0)
    out = Adder.apply(x, y)
    assert out is x
    assert x.requires_grad
    x.sum().backward()
    assert y.grad.tolist() == [100.0, 100.0]


def test_saving_a_changed_input_saves_its_new_value():
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    a = leaf(1.0)
    y = make(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(a * 1)
    (first,) = ad.autograd.grad(y, a, create_graph=True)
    (second,) = ad.autograd.grad(first, a)
    assert first.item() == pytest.approx(2.718281828)
    assert second.item() == pytest.approx(2.718281828)


def test_a_changed_view_rebases_its_base():
    a, b = leaf(1.0, 1.0, 1.0), leaf(2.0)
    base = a * 1
    view = base[:1]
    out = Adder.apply(view, b)
    assert out is view
    assert base.tolist() == [3.0, 1.0, 1.0]
    base.sum().backward()
    assert a.grad.tolist() == [10.0, 1.0, 1.0]
    assert b.grad.tolist() == [100.0]


def test_a_changed_view_need_not_be_the_first_argument():
    def forward(ctx, b, scale, view):
        ctx.mark_dirty(view)
        return view.add_(b)

    cls = make(forward, lambda ctx, g: (g * 100, None, g * 10))
    a, b = leaf(1.0, 1.0, 1.0), leaf(2.0)
    base = a * 1
    cls.apply(b, 1.0, base[:1])
    base.sum().backward()
    assert a.grad.tolist() == [10.0, 1.0, 1.0]
    assert b.grad.tolist() == [100.0]


def test_a_change_by_other_means_counts():
    def forward(ctx, x):
        x.numpy()[:] = 7
        ctx.mark_dirty(x)
        return x

    x = leaf(1.0) * 1
    saved = x * x
    make(forward, lambda ctx, g: g).apply(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_leaves_must_not_be_changed():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used"):
        Adder.apply(leaf(1.0), leaf(1.0))
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        Adder.apply(leaf(1.0, 2.0)[:1], leaf(1.0))


def test_dirty_tensors_must_be_returned():
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.add_(1) * 2

    with pytest.raises(RuntimeError, match=r"marked as dirty during the forward .* not returned"):
        make(forward).apply(leaf(1.0) * 1)


def test_a_changed_view_must_be_the_only_output():
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.add_(1), a * 2

    with pytest.raises(RuntimeError, match="modifies inplace an input that is a view of another"):
        make(forward).apply((leaf(1.0) * 1).view(1))


def test_marking_what_is_no_input_warns():
    def forward(ctx, a):
        b = a * 3
        ctx.mark_dirty(b)
        return b

    x = leaf(1.0)
    with pytest.warns(UserWarning, match="Only input Tensors should be given to ctx.mark_dirty"):
        y = make(forward, lambda ctx, g: g * 3).apply(x)
    y.backward()
    assert x.grad.tolist() == [3.0]


def test_a_change_that_was_not_announced_is_refused():
    cls = make(lambda ctx, x, y: x.add_(1) * y, name="Sly")
    with pytest.raises(RuntimeError, match="changed its argument 'x' in place") as caught:
        cls.apply(leaf(1.0) * 1, leaf(1.0))
    message = str(caught.value)
    assert "Sly.forward" in message
    assert "x.add_(1) * y" in message
    assert "ctx.mark_dirty" in message


def test_buffers_may_be_changed_without_notice():
    running = ad.zeros(1)
    x = leaf(1.0)
    make(lambda ctx, x, r: (r.add_(1), x * 2)[1], lambda ctx, g: (g * 2, None)).apply(x, running)
    assert running.tolist() == [1.0]


def test_an_input_saved_and_returned_needs_a_view_in_setup_context():
    cls = make(
        lambda x: x,
        lambda ctx, g: g,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    with pytest.raises(RuntimeError, match="returned as-is as output is being saved for backward"):
        cls.apply(leaf(1.0))
