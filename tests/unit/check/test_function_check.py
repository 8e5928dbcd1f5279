"""Function.check and check mode."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.autograd.function import once_differentiable
from tests.unit.autograd.test_function import Square, leaf, make


@pytest.fixture
def check_mode():
    ad.autograd.set_check_mode(True)
    yield
    ad.autograd.set_check_mode(False)


Wrong = make(lambda ctx, x, y: x * y, lambda ctx, g: (g, g * 0), "Wrong")


def test_a_right_function():
    report = Square.check(ad.tensor([1.0, 2.0]))
    assert report
    assert str(report) == (
        "Square: all right\n"
        "  backward         ok: 1 input in torch.float64\n"
        "  double backward  ok\n"
        "  jvp              not checked: there is none"
    )


def test_a_wrong_backward_shows_the_numbers_and_names_the_inputs():
    report = Wrong.check(ad.tensor([2.0]), ad.tensor([3.0]))
    assert not report
    text = repr(report)
    assert text.startswith("Wrong: backward wrong\n  backward         WRONG: Jacobian mismatch")
    assert "numerical 3, analytical 1" in text
    assert "(input 0 is 'x', input 1 is 'y')" in text
    assert "double backward  not checked: backward itself is wrong" in text


def test_only_inputs_that_require_grad_are_checked_if_some_do():
    half = make(lambda ctx, x, y: x * y, lambda ctx, g: (g * 3, None))
    assert half.check(leaf(2.0), ad.tensor([3.0]))
    assert not half.check(ad.tensor([2.0]), ad.tensor([3.0]))


def test_a_wrong_second_derivative():
    def forward(ctx, x):
        ctx.e = x.exp()
        return ctx.e * 2

    rule = lambda ctx, g: 2 * g * ctx.e  # noqa: E731
    report = make(forward, rule, "Exp").check(leaf(1.0))
    assert not report
    assert "double backward  WRONG: RuntimeError: a second derivative of Exp passes" in str(report)
    assert "mark backward @once_differentiable: asking for one then raises" in str(report)
    assert make(forward, rule).check(leaf(1.0), second=False)
    once = make(forward, once_differentiable(rule)).check(leaf(1.0))
    assert once
    assert "not checked: backward is marked @once_differentiable" in str(once)


def test_jvp_is_checked():
    forward = lambda ctx, x: x * 2  # noqa: E731
    assert make(forward, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 2).check(leaf(1.0))
    report = make(forward, lambda ctx, g: g * 2, "Bad", jvp=lambda ctx, t: t * 3).check(leaf(1.0))
    assert str(report).startswith("Bad: jvp wrong")


def test_errors_of_the_rules_are_in_the_report():
    report = make(lambda ctx, x: x * 2, lambda ctx, g: (g, g)).check(leaf(1.0))
    assert "backward         WRONG: RuntimeError: function FnBackward returned" in str(report)
    report = make(lambda ctx, x: 1 / 0).check(leaf(1.0))
    assert "forward          WRONG: ZeroDivisionError" in str(report)


@pytest.mark.parametrize("inputs", [(), (ad.arange(3),), (2.0, None)])
def test_checking_nothing_is_refused(inputs):
    cls = make(lambda ctx, *args: ad.ones(1), lambda ctx, g: None, "Nothing")
    with pytest.raises(ValueError, match=r"Nothing\.check: there is nothing to check: no argument"):
        cls.check(*inputs)


def test_nested_and_changed_arguments():
    nested = make(
        lambda ctx, d: {"y": d["a"] * 2, "n": 3}, lambda ctx, g: {"a": g["y"] * 2, "k": None}
    )
    assert nested.check({"a": ad.tensor([1.0]), "k": 2})
    wrong = make(lambda ctx, d: d["a"] * 2, lambda ctx, g: {"a": g, "k": None})
    assert "(input 0 is \"d['a']\")" in str(wrong.check({"a": ad.tensor([1.0]), "k": 2}))

    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    assert make(forward, lambda ctx, g: g * 2).check(leaf(1.0))


def test_a_function_of_single_precision_alone():
    def forward(ctx, x):
        if x.dtype != ad.float32:
            raise TypeError("float32 only")
        return x * 2

    report = make(forward, lambda ctx, g: g * 2).check(leaf(1.0))
    assert report
    assert "in torch.float32" in str(report)
    assert not make(forward, lambda ctx, g: g * 3).check(leaf(1.0))


def test_tolerances_are_gradchecks():
    sloppy = make(lambda ctx, x: x * 2, lambda ctx, g: g * 2.01)
    assert not sloppy.check(leaf(1.0))
    assert sloppy.check(leaf(1.0), rtol=0.1)


def test_checks_work_under_no_grad():
    with ad.no_grad():
        assert Square.check(leaf(1.0))
        assert not Wrong.check(leaf(1.0), leaf(2.0))


@pytest.mark.usefixtures("check_mode")
def test_check_mode_raises_with_the_report():
    with pytest.raises(RuntimeError, match="Wrong: backward wrong") as caught:
        Wrong.apply(leaf(2.0), leaf(3.0))
    assert "numerical 3, analytical 1" in str(caught.value)


@pytest.mark.usefixtures("check_mode")
def test_check_mode_looks_once_per_shapes_and_dtypes():
    calls = []

    def forward(ctx, x):
        calls.append(tuple(x.shape))
        return x * 2

    cls = make(forward, lambda ctx, g: g * 2)
    cls.apply(leaf(1.0))
    assert len(calls) > 2
    for again, x in ((1, leaf(5.0)), (None, leaf(1.0, 2.0)), (1, leaf(3.0, 4.0)), (1, ad.ones(3))):
        calls.clear()
        cls.apply(x)
        assert len(calls) == 1 if again else len(calls) > 2
    calls.clear()
    with ad.no_grad():
        cls.apply(leaf(1.0, 2.0, 3.0))
    assert len(calls) == 1


def test_check_mode_ends():
    ad.autograd.set_check_mode(True)
    ad.autograd.set_check_mode(False)
    Wrong.apply(leaf(2.0), leaf(3.0))
