"""adjoint.check never evaluates outside bounds, and does not call wrong what it cannot see.

Read next: test_check.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad

F64 = {"dtype": ad.float64}


def within(low, high, function):
    """The function, which must not be called outside."""
    calls = []

    def f(x):
        values = x.detach()
        calls.append(bool(((values >= low) & (values <= high)).all()))
        return function(x)

    f.calls = calls
    return f


class Square(ad.autograd.Function):
    """x², with a wrong derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        return g * (2.1 * ctx.saved_tensors[0] + 0.05)


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
@pytest.mark.parametrize(
    "values", [[0.0, 1.0, 0.5, 1e-9], np.linspace(0, 1, 200).tolist()], ids=["few", "many"]
)
def test_no_evaluation_outside_of_the_bounds(dtype, values):
    x = ad.tensor(values, dtype=dtype)
    right = within(0.0, 1.0, lambda x: x.exp() * x.sin())
    assert ad.check(right, x, bounds=(0, 1)).verdict == "right"
    wrong = within(0.0, 1.0, Square.apply)
    assert ad.check(wrong, x, bounds=(0, 1), order=1).verdict == "wrong"
    assert all(right.calls) and all(wrong.calls) and len(right.calls) > 20


def test_bounds_by_argument_and_by_path():
    def f(state, k):
        seen.append((state["a"].min().item(), k.item()))
        return state["a"].exp() * state["b"] * k

    seen: list[tuple[float, float]] = []
    state = {"a": ad.tensor([0.0, 2.0], **F64), "b": ad.tensor([-1.0, 1.0], **F64)}
    k = ad.tensor(3.0, **F64)
    report = ad.check(f, state, k, bounds={"state['a']": (0, None), "k": (None, 3)})
    assert report.verdict == "right"
    assert min(a for a, _ in seen) == 0 and max(k for _, k in seen) == 3


def test_the_bounds_of_an_external_hold():
    def f(x):
        assert (x >= 0).all() and (x <= 1).all()
        return np.exp(x)

    x = ad.tensor([0.0, 1.0, 0.25], **F64)
    assert ad.check(ad.external(f, bounds=(0, 1)), x, order=1).verdict == "right"


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((2, 3), r"input\[0\] = 0.5 is outside its bounds \[2, 3\]"),
        ({"z": (0, 1)}, "names 'z', but the inputs are 'input'"),
        (3, r"takes \(low, high\)(.|\n)*got 3"),
        (([0, 0], None), r"have shape \[2\], the input \[3\]"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        ad.check(ad.sin, ad.tensor([0.5, 0.6, 0.7], **F64), bounds=bounds)


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
@pytest.mark.parametrize("seed", range(4))
def test_a_wave_that_steps_cannot_follow_is_not_called_wrong(dtype, seed):
    ad.manual_seed(seed)
    report = ad.check(lambda x: (x * 1e8).sin(), ad.randn(3, dtype=dtype), order=1)
    assert report.verdict in (("undecided",) if dtype == ad.float32 else ("undecided", "right"))
    if report.verdict == "undecided":
        assert any("faster than differences can follow" in note for note in report.notes)


@pytest.mark.parametrize("shape", [(), (1,), (1, 3)])
def test_a_jvp_of_a_wrong_shape_is_wrong(shape):
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

        @staticmethod
        def jvp(ctx, t):
            return (2 * t[:1]).reshape(shape) if shape != (1, 3) else 2 * t[None]

    x = ad.ones(3, **F64)
    given = ad.external(lambda x: 2 * x, vjp=lambda g, x: 2 * g, jvp=lambda t, x: np.zeros(shape))
    for f in (Double.apply, given):
        report = ad.check(f, x, order=1)
        assert report.verdict == "wrong" and report.first.dot.status == "wrong"
        assert "the jvp fails" in str(report) and f"shape {list(shape)}" in str(report)


def test_a_function_without_a_jvp_is_not_wrong():
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    assert ad.check(Double.apply, ad.ones(3, **F64), order=1).verdict == "right"
