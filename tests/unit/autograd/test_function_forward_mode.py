"""Custom functions in forward mode: jvp."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.autograd import forward_ad as fw
from tests.unit.autograd.test_function import leaf, make


def forward(ctx, x, y, scale):
    ctx.save_for_forward(x, y)
    ctx.save_for_backward(x, y)
    ctx.scale = scale
    return x * y * scale


def jvp(ctx, x_t, y_t, _):
    x, y = ctx.saved_tensors
    return ctx.scale * (y * x_t + x * y_t)


Product = make(
    forward,
    lambda ctx, g: (
        g * ctx.saved_tensors[1] * ctx.scale,
        g * ctx.saved_tensors[0] * ctx.scale,
        None,
    ),
    "Product",
    jvp=jvp,
)


def tangent(cls, values, tangents, *more):
    with fw.dual_level():
        duals = [
            v if t is None else fw.make_dual(v, t) for v, t in zip(values, tangents, strict=True)
        ]
        out = cls.apply(*duals, *more)
        outs = out if isinstance(out, tuple) else (out,)
        found = [None if not isinstance(o, ad.Tensor) else fw.unpack_dual(o).tangent for o in outs]
        return [None if t is None else t.tolist() for t in found]


def test_jvp_gives_the_tangent():
    x, y = ad.tensor([2.0]), ad.tensor([3.0])
    one = ad.ones(1)
    assert tangent(Product, (x, y), (one, None), 5) == [[15.0]]
    assert tangent(Product, (x, y), (None, one), 5) == [[10.0]]
    assert tangent(Product, (x, y), (one, one), 5) == [[25.0]]


def test_backward_through_the_same_call():
    x, y = leaf(2.0), leaf(3.0)
    with fw.dual_level():
        out = Product.apply(fw.make_dual(x, ad.ones(1)), y, 5)
        assert fw.unpack_dual(out).tangent.tolist() == [15.0]
        out.backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([15.0], [10.0])


def test_backward_over_forward_and_forward_over_backward():
    x, y = leaf(2.0), leaf(3.0)
    with fw.dual_level():
        out = Product.apply(fw.make_dual(x, ad.ones(1)), y, 5)
        fw.unpack_dual(out).tangent.backward()
    assert y.grad.tolist() == [5.0]
    with fw.dual_level():
        dual = fw.make_dual(x.detach(), ad.ones(1)).requires_grad_()
        (g,) = ad.autograd.grad(Product.apply(dual, y, 5), y, create_graph=True)
        assert fw.unpack_dual(g).tangent.tolist() == [5.0]


def test_what_is_saved_for_backward_alone_is_not_seen_by_jvp():
    def only_backward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    seen = []
    cls = make(only_backward, jvp=lambda ctx, t: (seen.append(ctx.saved_tensors), t.clone())[1])
    assert tangent(cls, (ad.ones(1),), (ad.ones(1),)) == [[1.0]]
    assert seen == [()]


def test_arguments_without_tangents_get_zeros_or_none():
    seen = []

    def rule(ctx, *tangents):
        seen.append([None if t is None else t.tolist() for t in tangents])
        return tangents[0].clone()

    cls = make(lambda ctx, *args: args[0] * 1, jvp=rule)
    tangent(cls, (ad.ones(1), ad.ones(2), ad.arange(2)), (ad.ones(1), None, None), "text")
    assert seen == [[[1.0], [0.0, 0.0], None, None]]


def test_outputs_without_tangent():
    def forward(ctx, x):
        flag = x * 0
        ctx.mark_non_differentiable(flag)
        return x * 2, flag, "text", x.long()

    fine = make(forward, jvp=lambda ctx, t: (t * 2, None, None, None))
    assert tangent(fine, (ad.ones(1),), (ad.ones(1),)) == [[2.0], None, None, None]
    wrong = make(forward, jvp=lambda ctx, t: (t * 2, t, None, None))
    with pytest.raises(RuntimeError, match="You should return None at that position instead"):
        tangent(wrong, (ad.ones(1),), (ad.ones(1),))


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (None, NotImplementedError, "must implement the jvp function"),
        (
            lambda ctx, t: (t, t),
            RuntimeError,
            r"one tangent per output .*\(1\), but got 2",
        ),
        (lambda ctx, t: 3, TypeError, "Fn.jvp: expected a Tensor or None for output 0, got int"),
        (
            lambda ctx, t: ad.ones(3),
            RuntimeError,
            r"tangent of shape \[3\] for output 0, which",
        ),
    ],
)
def test_refused_rules(rule, error, message):
    more = {} if rule is None else {"jvp": rule}
    returned = (lambda ctx, x: (x * 2,)) if rule and "one" in message else (lambda ctx, x: x * 2)
    with pytest.raises(error, match=message):
        tangent(make(returned, **more), (ad.ones(1),), (ad.ones(1),))


def test_a_changed_input_needs_a_changed_tangent():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    with fw.dual_level():
        x, t = ad.ones(1), ad.ones(1)
        dual = fw.make_dual(x, t)
        out = make(forward, jvp=lambda ctx, t: t.mul_(2)).apply(dual)
        assert out is dual
        assert fw.unpack_dual(out).tangent.tolist() == [2.0]
    message = "not modifying the forward mode gradients inplace.*must modify the corresponding"
    for rule in (lambda ctx, t: t, lambda ctx, t: t * 2):
        with pytest.raises(RuntimeError, match=message):
            tangent(make(forward, jvp=rule), (ad.ones(1),), (ad.ones(1),))


def test_a_returned_view_needs_the_same_view_of_the_tangent():
    fine = make(lambda ctx, x: x[:1], jvp=lambda ctx, t: t[:1])
    assert tangent(fine, (ad.ones(2),), (ad.ones(2),)) == [[1.0]]
    message = r"returning a view \(or an input as-is\) but the jvp is not returning a view"
    for forward, rule in (
        (lambda ctx, x: x[:1], lambda ctx, t: t[:1].clone()),
        (lambda ctx, x: x, lambda ctx, t: t * 2),
    ):
        with pytest.raises(RuntimeError, match=message):
            tangent(make(forward, jvp=rule), (ad.ones(2),), (ad.ones(2),))
    with pytest.raises(RuntimeError, match="not returning a view of the given"):
        rule = make(lambda ctx, x: x[:1], jvp=lambda ctx, t: t.clone()[:1])
        tangent(rule, (ad.ones(2),), (ad.ones(2),))


def test_nested_arguments_and_results():
    cls = make(
        lambda ctx, d: {"y": d["a"] * 2, "z": [d["b"] * 3]},
        jvp=lambda ctx, d: {"y": d["a"] * 2, "z": [d["b"] * 3]},
    )
    with fw.dual_level():
        a = fw.make_dual(leaf(1.0), ad.ones(1))
        out = cls.apply({"a": a, "b": ad.ones(1)})
        assert fw.unpack_dual(out["y"]).tangent.tolist() == [2.0]
        assert fw.unpack_dual(out["z"][0]).tangent.tolist() == [0.0]
        wrong = make(lambda ctx, d: {"y": d["a"] * 2}, jvp=lambda ctx, d: [d["a"]])
        with pytest.raises(RuntimeError, match="the result: expected a dict, got a list"):
            wrong.apply({"a": a})


def test_nested_arguments_that_need_no_gradient():
    cls = make(lambda ctx, d: d["a"] * 2, jvp=lambda ctx, d: d["a"] * 2)
    with fw.dual_level():
        a = fw.make_dual(ad.ones(1), ad.ones(1))
        assert fw.unpack_dual(cls.apply({"a": a})).tangent.tolist() == [2.0]
        with ad.no_grad():
            assert fw.unpack_dual(cls.apply({"a": a})).tangent.tolist() == [2.0]


def test_apply_jvp_by_hand():
    node = Product.apply(leaf(2.0), leaf(3.0), 5).grad_fn
    with pytest.raises(TypeError):
        node.apply_jvp()
