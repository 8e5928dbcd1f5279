"""Second derivatives of custom functions: right, or an error, never silently wrong."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.autograd.function import once_differentiable
from tests.unit.autograd.test_function import Square, leaf, make


def second_derivative(cls, x, *more):
    (first,) = ad.autograd.grad(cls.apply(x, *more).sum(), x, create_graph=True)
    return ad.autograd.grad(first.sum(), x)[0]


def test_second_and_third_derivatives():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    cube = make(forward, lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g)
    x = leaf(2.0)
    (first,) = ad.autograd.grad(cube.apply(x), x, create_graph=True)
    (second,) = ad.autograd.grad(first, x, create_graph=True)
    (third,) = ad.autograd.grad(second, x)
    assert (first.item(), second.item(), third.item()) == (12.0, 12.0, 6.0)
    assert second_derivative(Square, leaf(3.0)).tolist() == [2.0]


def exp_saved(ctx, x):
    e = x.exp()
    ctx.save_for_backward(x, e)
    return 2 * e


def exp_attribute(ctx, x):
    ctx.e = x.exp()
    return 2 * ctx.e


def exp_in_list(ctx, x):
    ctx.cache = [None, {"e": x.exp()}]
    return 2 * ctx.cache[1]["e"]


@pytest.mark.parametrize(
    ("forward", "read", "name"),
    [
        (exp_saved, lambda ctx: ctx.saved_tensors[1], "saved tensor 1"),
        (exp_attribute, lambda ctx: ctx.e, r"ctx\.e"),
        (exp_in_list, lambda ctx: ctx.cache[1]["e"], r"ctx\.cache\[1\]\['e'\]"),
    ],
)
def test_an_intermediate_is_named_when_a_second_derivative_passes_it(forward, read, name):
    cls = make(forward, lambda ctx, g: 2 * g * read(ctx), "Exp")
    x = leaf(1.0)
    cls.apply(x).backward()  # first derivatives are right
    assert x.grad.item() == pytest.approx(2 * 2.718281828)
    (first,) = ad.autograd.grad(cls.apply(x), x, create_graph=True)
    assert first.item() == pytest.approx(2 * 2.718281828)
    message = (
        f"a second derivative of Exp passes through {name} \\(float32 \\[1\\]\\), which forward"
    )
    with pytest.raises(RuntimeError, match=message) as caught:
        ad.autograd.grad(first, x)
    text = str(caught.value)
    assert "x.exp()" in text  # where it was made
    assert "cls.apply(x), x, create_graph=True" in text
    assert "once_differentiable" in text


def test_an_intermediate_kept_in_a_closure_is_found():
    cache = {}

    def forward(ctx, x):
        cache["e"] = x.exp()
        return 2 * cache["e"]

    alone = make(forward, lambda ctx, g: 2 * cache["e"])
    with pytest.raises(RuntimeError, match="passes through the gradient of argument 'x'"):
        second_derivative(alone, leaf(1.0))

    def mixed_forward(ctx, x):
        ctx.save_for_backward(x)
        cache["e"] = x.exp()
        return x * cache["e"]

    def mixed_backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x * cache["e"] + cache["e"])

    with pytest.raises(RuntimeError, match="its backward used by a closure or a global") as caught:
        second_derivative(make(mixed_forward, mixed_backward), leaf(1.0))
    assert 'cache["e"] = x.exp()' in str(caught.value)


def test_intermediates_may_be_differentiated_with_respect_to_the_incoming_gradient():
    cls = make(exp_attribute, lambda ctx, g: 2 * g * ctx.e)
    x, g = leaf(0.0), leaf(1.0)
    (first,) = ad.autograd.grad(cls.apply(x), x, g, create_graph=True)
    assert ad.autograd.grad(first, g)[0].tolist() == [2.0]


def test_constants_made_in_forward_are_no_intermediates():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.mask = (ad.rand(x.shape) > -1).float()
        ctx.scale = ad.tensor(3.0)
        return x * x * ctx.mask * ctx.scale

    cls = make(forward, lambda ctx, g: 2 * ctx.saved_tensors[0] * g * ctx.mask * ctx.scale)
    assert second_derivative(cls, leaf(1.0)).tolist() == [6.0]


def test_what_was_cut_off_before_the_call_is_a_constant():
    def forward(ctx, x, c):
        ctx.save_for_backward(x)
        ctx.c = c * 2
        return x * x * ctx.c

    cls = make(forward, lambda ctx, g: (2 * ctx.saved_tensors[0] * g * ctx.c, None))
    x = leaf(3.0)
    assert second_derivative(cls, x, x.detach()).tolist() == [12.0]


def test_a_detach_in_backward_is_deliberate():
    cls = make(exp_attribute, lambda ctx, g: 2 * g * ctx.e.detach())
    x = leaf(0.0)
    (first,) = ad.autograd.grad(cls.apply(x) + x * x, x, create_graph=True)
    assert ad.autograd.grad(first, x)[0].tolist() == [2.0]
    by_no_grad = make(
        lambda ctx, x: (ctx.save_for_backward(x), x * x)[1],
        lambda ctx, g: 2 * ad.no_grad()(lambda: ctx.saved_tensors[0] * 1)() * g,
    )
    (first,) = ad.autograd.grad(by_no_grad.apply(x) + x * x, x, create_graph=True)
    assert ad.autograd.grad(first, x)[0].tolist() == [2.0]


def test_outputs_are_no_intermediates():
    def forward(ctx, x):
        e = x.exp()
        ctx.save_for_backward(x, e)
        return x * e, e

    def backward(ctx, g, ge):
        x, e = ctx.saved_tensors
        return g * (x * e + e) + ge * e

    x = leaf(1.0)
    (first,) = ad.autograd.grad(make(forward, backward).apply(x)[0], x, create_graph=True)
    (second,) = ad.autograd.grad(first, x)
    assert second.item() == pytest.approx(3 * 2.718281828)


def test_once_differentiable_runs_without_recording_and_refuses_the_second():
    modes = []

    @once_differentiable
    def backward(ctx, g):
        modes.append(ad.is_grad_enabled())
        return g * 2

    cls = make(lambda ctx, x: x * 2, backward, "Once")
    x = leaf(1.0)
    cls.apply(x).backward()
    assert x.grad.tolist() == [2.0]
    message = "differentiate twice a function that was marked with @once_differentiable: Once"
    with pytest.raises(RuntimeError, match=message):
        second_derivative(cls, x)
    with pytest.raises(RuntimeError, match=message):  # through the incoming gradient
        g = leaf(1.0)
        (first,) = ad.autograd.grad(cls.apply(x), x, g, create_graph=True)
        ad.autograd.grad(first, g, allow_unused=True)
    assert modes == [False, False, False]


def test_once_differentiable_with_several_gradients():
    cls = make(lambda ctx, x, k, y: x * y, once_differentiable(lambda ctx, g: (g, None, g)))
    x, y = leaf(1.0), leaf(1.0)
    gx, gy = ad.autograd.grad(cls.apply(x, 2, y), (x, y), create_graph=True)
    assert gx.requires_grad
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (gx + gy).backward()


def test_a_function_inside_the_backward_of_another():
    inner = make(
        lambda ctx, x: (ctx.save_for_backward(x), x**2)[1],
        lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
    )

    def backward(ctx, g):
        return 3 * inner.apply(ctx.saved_tensors[0]) * g

    outer = make(lambda ctx, x: (ctx.save_for_backward(x), x**3)[1], backward)
    assert second_derivative(outer, leaf(2.0)).tolist() == [12.0]


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: (x > 0).float(),
        lambda x: (x.sin() > 0).to(x.dtype),
        lambda x: x.sign(),
        lambda x: x.ceil() / x.ceil(),
        lambda x: x > 0,
        lambda x: ad.where(x > 0, 1.0, 0.1),
        lambda x: ad.ones_like(x).masked_fill(x < 0, 0.0),
        lambda x: ad.nn.functional.one_hot((x > 0).long(), 2)[1].to(x.dtype),
    ],
)
def test_masks_and_steps_are_constants_to_second_derivatives(mask):
    class Masked(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mask = mask(x)
            ctx.save_for_backward(x)
            return x * x * ctx.mask

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.mask * ctx.saved_tensors[0]

    x = ad.tensor(0.5, requires_grad=True)
    (first,) = ad.autograd.grad(Masked.apply(x), x, create_graph=True)
    assert ad.autograd.grad(first, x)[0].item() == 2


def test_a_mask_times_an_intermediate_is_one():
    class Cut(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.slope = (x > 0).float() * x.cos()
            return x.sin() * (x > 0)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.slope

    x = ad.tensor(0.5, requires_grad=True)
    (first,) = ad.autograd.grad(Cut.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"passes through ctx\.slope"):
        first.backward()


def test_a_gradient_that_is_only_a_mask_has_a_second_derivative():
    cls = make(
        lambda ctx, x: (setattr(ctx, "mask", x > 0), x.relu())[1], lambda ctx, g: g * ctx.mask
    )
    x = leaf(0.5, -1.0)
    (first,) = ad.autograd.grad(cls.apply(x**3).sum(), x, create_graph=True)
    assert ad.autograd.grad((first**2).sum(), x)[0].tolist() == [4.5, 0.0]


def test_a_backward_may_call_a_function_that_differentiates_inside():
    """What the inner forward computed before is a constant of its own derivative, and no more."""

    def slope(ctx, x):  # of exp(x) * z at z = x, which is exp(x)
        ctx.save_for_backward(x)
        factor = x.exp()
        with ad.enable_grad():
            z = x.detach().requires_grad_()
            (g,) = ad.autograd.grad((z * factor).sum(), z)
        return g

    inner = make(slope, lambda ctx, g: g * ctx.saved_tensors[0].exp())

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    outer = make(forward, lambda ctx, g: g * inner.apply(ctx.saved_tensors[0]))
    x = leaf(1.0)
    (first,) = ad.autograd.grad(outer.apply(x), x, create_graph=True)
    (second,) = ad.autograd.grad(first, x, create_graph=True)
    (third,) = ad.autograd.grad(second, x)
    for derivative in (first, second, third):
        assert derivative.item() == pytest.approx(2.718281828)


def test_a_value_that_an_inner_forward_leaves_behind_is_still_an_intermediate():
    kept = []

    def leave(ctx, x):
        kept[:] = [x.exp()]
        return x * 1

    inner = make(leave, lambda ctx, g: g)

    def backward(ctx, g):
        one = inner.apply(ctx.saved_tensors[0]) * 0 + 1
        return g * one * kept[0]

    outer = make(lambda ctx, x: (ctx.save_for_backward(x), x.exp())[1], backward)
    with pytest.raises(RuntimeError, match="its backward used by a closure or a global"):
        second_derivative(outer, leaf(1.0))
