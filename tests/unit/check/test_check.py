"""adjoint.check: wrong derivatives are found and named, right ones pass, the rest is told apart.

Read next: test_check_command.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd.function import once_differentiable
from tests.unit.cli.test_cli import decode_png

F64 = {"dtype": ad.float64}
POINT = [0.7, -1.3, 2.1, 0.4]


def point(dtype=ad.float64):
    return ad.tensor(POINT, dtype=dtype)


def cube(factor=None, jvp_factor=None, second=None):
    """x³ as a custom function whose derivatives can be spoiled by functions of x."""

    class Cube(ad.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            slope = 3 * x**2
            if second is not None:
                slope = second(x)
            return g * slope * (1.0 if factor is None else factor(x))

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * 3 * x**2 * (1.0 if jvp_factor is None else jvp_factor(x))

    return Cube.apply


def one_off(index, by):
    def factor(x):
        scale = ad.ones_like(x)
        scale.reshape(-1)[index] = 1 + by
        return scale

    return factor


# --- right derivatives ----------------------------------------------------------------------------

RIGHT = {
    "smooth": lambda x: x.sin() * x.exp(),
    "linear": lambda x: 3 * x,
    "quadratic": lambda x: (x * x).sum(),
    "constant": lambda x: x * 0 + 1,
    "steep": lambda x: x**20,
    "oscillating": lambda x: (1e6 * x).sin(),
    "offset": lambda x: 100 + x.sin(),
    "outputs of all sizes": lambda x: ad.stack([x[0] * 1e10, x[1].sin() * 1e-10]),
    "rounded inside": lambda x: ((x + 1e8) - 1e8) ** 2,
    "several": lambda x: {"a": x.sin(), "b": (x.sum(), x[0] * x[1])},
    "kinks near by": lambda x: (x - 0.7001).abs(),
    "steps": lambda x: x.round(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_passes(name):
    report = ad.check(RIGHT[name], point())
    assert report and report.ok and report.verdict == "right", str(report)
    assert report.raise_if_wrong() is report and not report.worst


@pytest.mark.parametrize("name", ["smooth", "linear", "quadratic", "constant", "offset", "several"])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float16], ids=str)
def test_rounding_of_coarse_dtypes_is_no_error(name, dtype):
    if name == "offset" and dtype == ad.float16:
        pytest.skip("100 + sin(x) has no digits left")
    report = ad.check(RIGHT[name], point(dtype))
    assert report.verdict == "right", str(report)


def test_rates_are_one_two_three():
    taylor = ad.check(RIGHT["smooth"], point()).taylor
    assert taylor.rates == pytest.approx([1, 2, 3], abs=0.1) and all(taylor.right)


def test_remainders_that_are_rounding_are_exact():
    linear = ad.check(RIGHT["linear"], point())
    assert linear.taylor.rates[1:] == [None, None]
    assert "order 1: exact, order 2: exact" in str(linear)
    assert ad.check(RIGHT["quadratic"], point()).taylor.rates[2] is None


def test_the_sweep_is_a_v_with_its_bottom_marked():
    sweep = ad.check(RIGHT["smooth"], point(), order=1).sweep
    assert 1e-7 < sweep.step < 1e-3 and sweep.error < 1e-8
    assert sweep.errors[0] > 1e-3 and sweep.errors[-1] > 1e-5
    assert sweep.steps[:2] == [0.25, 0.125]


def test_inputs_of_all_sizes():
    def f(x):
        return (x[0] * 1e-8).sin() + (x[1] * 1e8).exp()

    for dtype in (ad.float64, ad.float32):
        assert ad.check(f, ad.tensor([1e8, 1e-8], dtype=dtype)).verdict == "right"
    assert ad.check(ad.log, ad.tensor([1e-12, 1.0, 1e10], **F64)).verdict == "right"


def test_the_ends_of_the_range():
    for scale in (1e300, 1e-300):
        assert ad.check(lambda x, s=scale: x.sin() * s, point()).verdict == "right"
        assert ad.check(ad.log, point().abs() * scale, order=1).verdict == "right"


def test_many_elements_with_kinks_and_small_ones():
    ad.manual_seed(0)
    x = ad.randn(3000, **F64)
    assert ad.check(ad.relu, x).verdict == "right"
    assert ad.check(lambda x: (x - 1).abs().sum(), x).verdict == "right"
    assert ad.check(lambda x: x.sort()[0], x).verdict == "right"


def test_complex_inputs_and_outputs():
    z = ad.tensor([1 + 2j, -0.5 + 0.3j], dtype=ad.complex128)
    assert ad.check(lambda z: z * z.conj() + z.exp(), z)
    report = ad.check(cube(lambda z: ad.ones_like(z) * 1j), z)
    assert report.verdict == "wrong" and report.worst[0].place.startswith("x[")
    assert report.worst[0].place.endswith((".real", ".imag"))


# --- wrong ones -----------------------------------------------------------------------------------


def test_a_wrong_backward_is_named_element_by_element():
    report = ad.check(cube(one_off(2, 1e-4)), point())
    assert report.verdict == "wrong" and not report and not report.ok
    (element,) = report.worst
    assert (element.place, element.output) == ("x[2]", "output[2]")
    assert element.derivative == pytest.approx(3 * 2.1**2 * (1 + 1e-4))
    assert element.differences == pytest.approx(3 * 2.1**2, rel=1e-8)
    assert element.relative == pytest.approx(1e-4, rel=1e-2)
    assert report.inputs[0].status == "wrong" and report.inputs[0].wrong == 1
    assert report.taylor.right == [True, False, False]
    assert "differences agree with the jvp: backward is wrong" in str(report)
    with pytest.raises(ad.check.CheckError, match=r"WRONG first derivative(.|\n)*x\[2\]") as caught:
        report.raise_if_wrong()
    assert caught.value.report is report and isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(("count", "reduce"), [(3_000, False), (100_000, True)])
def test_one_wrong_element_of_many_is_found(count, reduce):
    ad.manual_seed(1)
    x = ad.randn(count, **F64)
    f = cube(one_off(count // 3, 1e-4), one_off(count // 3, 1e-4))
    report = ad.check((lambda x: f(x).sum()) if reduce else f, x, order=1)
    assert report.verdict == "wrong"
    assert [e.place for e in report.worst] == [f"x[{count // 3}]"]
    assert report.worst[0].relative == pytest.approx(1e-4, rel=1e-2)


def test_a_factor_everywhere_has_a_likely_cause():
    report = ad.check(lambda x: x * x.detach(), point())
    assert report.inputs[0].wrong == 4
    assert "0.5 times the numerical one" in report.inputs[0].cause
    assert "likely cause" in str(report)


def test_a_tiny_output_is_not_hidden_by_a_huge_one():
    def f(x):
        return ad.stack([x[0] * 1e10, x[1].detach() * x[0] * 1e-10])

    report = ad.check(f, point())
    assert [e.place for e in report.worst] == ["x[1]"] and report.worst[0].derivative == 0


def test_a_wrong_jvp_is_told_from_a_wrong_backward():
    report = ad.check(cube(jvp_factor=one_off(1, 1e-4)), point())
    assert report.verdict == "wrong" and report.dot.status == "wrong"
    assert report.inputs[0].status == "right"
    assert [e.place for e in report.dot.worst] == ["x[1]"]
    assert "the jvp is wrong" in report.dot.note


def test_a_wrong_second_derivative_is_found_alone():
    # Right in value, wrong in its own derivative: x.detach() hides one path.
    report = ad.check(cube(second=lambda x: 3 * x * x.detach()), point())
    assert report.first.verdict == "right" and report.second.verdict == "wrong"
    assert report.verdict == "wrong" and "WRONG second derivative" in str(report)
    assert report.taylor.rates[2] == pytest.approx(2, abs=0.2)


def test_a_hessian_that_differs_from_its_transpose():
    class Product(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y.detach(), g * x

    report = ad.check(Product.apply, ad.tensor(2.0, **F64), ad.tensor(3.0, **F64))
    assert report.first.verdict == "right" and report.second.verdict == "wrong"
    assert report.second.dot.status == "wrong" and "transpose" in report.second.dot.note


def test_nan_from_backward_is_wrong():
    report = ad.check(lambda x: ad.where(x > 1, x, (x - x).sqrt() * 0 + x), point())
    assert report.verdict == "wrong" and "NaN" in report.inputs[0].cause


def test_float32_still_finds_a_wrong_factor():
    report = ad.check(cube(one_off(2, 0.01)), point(ad.float32))
    assert [e.place for e in report.worst] == ["x[2]"]
    closer = ad.check(cube(one_off(2, 1e-4)), point(ad.float32), dtype=ad.float64)
    assert closer.dtype == ad.float64 and [e.place for e in closer.worst] == ["x[2]"]


def test_tolerance_is_the_error_that_counts():
    f = cube(one_off(2, 1e-4), one_off(2, 1e-4))
    assert ad.check(f, point(), tolerance=1e-3, order=1).verdict == "right"
    assert ad.check(f, point(), tolerance=1e-6, order=1).verdict == "wrong"


# --- what is neither ------------------------------------------------------------------------------


def test_a_kink_at_the_point_is_no_error():
    report = ad.check(ad.relu, ad.tensor([0.0, 1.0, -1.0], **F64))
    assert report.verdict == "right"
    assert any("input[0] lies on a kink of output[0]" in note for note in report.notes)
    assert any("0 to the left and 1 to the right" in note for note in report.notes)


def test_a_derivative_outside_of_a_kink_is_wrong():
    class Relu(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.relu()

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    report = ad.check(Relu.apply, ad.tensor([0.0], **F64), order=1)
    assert report.verdict == "wrong"


def test_thousands_of_kinks_are_left_out():
    ad.manual_seed(0)
    x = ad.randn(500, **F64)
    x[::5] = 0
    report = ad.check(ad.relu, x)
    assert report.verdict == "right" and any("exactly 0" in note for note in report.notes)
    with_error = ad.cat([x, ad.ones(1, **F64)])
    assert ad.check(lambda x: ad.cat([x[:-1].relu(), x[-1:].detach() * x[-1:]]), with_error).worst


def test_a_jump_at_the_point_is_undecided():
    report = ad.check(lambda x: x.floor() + x, ad.tensor([2.0, 1.5], **F64))
    assert report.verdict == "undecided" and not report.ok
    assert any("jumps" in note for note in report.notes)
    report.raise_if_wrong()


def test_a_step_function_is_told():
    notes = ad.check(ad.round, point()).notes
    assert any("step function" in note for note in notes)


def test_a_random_function_is_undecided():
    report = ad.check(lambda x: x * ad.rand(4, **F64), point())
    assert report.verdict == "undecided" and "random" in report.notes[0]
    assert report.taylor is None and "manual_seed" in str(report)


def test_noise_hides_small_errors_but_not_large_ones():
    def model(x):
        return np.round(np.sin(x) + x**2, 5)

    def with_slope(factor):
        return ad.external(model, vjp=lambda g, x: g * (np.cos(x) + factor * x))

    right = ad.check(with_slope(2.0), point(), order=1)
    assert right.verdict == "right" and any("noisy" in note for note in right.notes)
    assert ad.check(with_slope(2.1), point(), order=1).verdict == "wrong"
    # Constant near by, like a step function, but with a trend that a zero misses.
    assert ad.check(ad.external(model, vjp=lambda g, x: 0 * g), point(), order=1).worst


def test_what_rounding_swallows_is_undecided():
    report = ad.check(lambda x: 1e7 + x.sin(), point(ad.float32))
    assert report.verdict == "undecided"


def test_values_that_are_not_finite_are_told():
    report = ad.check(ad.log, ad.tensor([-1.0, 2.0], **F64))
    assert report.verdict == "undecided" and "output[0] is nan" in report.notes[0]


def test_the_edge_of_the_domain_is_looked_at_from_inside():
    report = ad.check(lambda x: x**1.5 + x, ad.tensor([0.0, 1.0], **F64), order=1)
    assert report.verdict == "right"
    assert (
        ad.check(ad.sqrt, ad.tensor([0.0, 1.0], **F64))
        .first.notes[0]
        .startswith("the derivative by")
    )


def test_a_function_that_raises_outside_of_its_domain():
    def f(x):
        if (x > 2.1).any():
            raise ValueError("too hot")
        return x.sin()

    report = ad.check(f, point())
    assert any("ValueError: too hot" in note for note in report.notes)
    assert report.verdict in ("right", "undecided")


# --- inputs and functions of all kinds ------------------------------------------------------------


@dataclass
class State:
    position: ad.Tensor
    layers: dict[str, list[ad.Tensor]]
    label: str = "state"


def state():
    return State(point(), {"w": [ad.tensor([[1.0, 2.0], [3.0, 4.0]], **F64)]})


def test_composites_are_named_by_path():
    def f(state, scale):
        (w,) = state.layers["w"]
        return State(state.position * scale, {"w": [w * w.detach()]})

    report = ad.check(f, state(), ad.tensor(2.0, **F64))
    assert [(item.name, item.status) for item in report.inputs] == [
        ("state.position", "right"),
        ("state.layers['w'][0]", "wrong"),
        ("scale", "right"),
    ]
    assert report.worst[0].place == "state.layers['w'][0][1, 1]"
    assert report.worst[0].output == "state.layers['w'][0][1, 1]"


def test_an_input_without_influence_is_told():
    report = ad.check(lambda a, b: a * 2, point(), point())
    assert [item.status for item in report.inputs] == ["right", "unused"] and report.ok
    assert "gets no gradient (None)" in str(report)


def test_an_input_without_gradient_but_with_influence_is_wrong():
    report = ad.check(lambda a, b: a * b.detach(), point(), point())
    assert [item.status for item in report.inputs] == ["right", "wrong"]
    assert "no path leads" in report.inputs[1].cause


def test_an_output_without_history_is_told():
    report = ad.check(lambda x: (x.sin(), x.detach()), point())
    assert report.ok and any("output[1]" in note for note in report.notes)
    assert ad.check(lambda x: x.detach() * 2, point()).verdict == "wrong"
    assert ad.check(lambda x: ad.ones(2), point()).ok


def test_only_inputs_that_require_grad_are_checked_if_some_do():
    a, b = point().requires_grad_(), point()
    before = a.tolist()
    report = ad.check(lambda a, b: a * b, a, b)
    assert [item.name for item in report.inputs] == ["a"]
    assert a.tolist() == before and a.grad is None and not b.requires_grad


def test_the_random_stream_and_the_inputs_are_left_alone():
    ad.manual_seed(3)
    x, state = point(), ad.get_rng_state()
    ad.check(ad.sin, x)
    assert ad.equal(ad.get_rng_state(), state) and x.tolist() == pytest.approx(POINT)


def test_floats_and_arrays_become_inputs_if_there_are_no_tensors():
    report = ad.check(lambda a, b: (a * b).sin().sum(), np.array([1.0, 2.0]), 0.5)
    assert report.ok and [item.name for item in report.inputs] == ["a", "b"]


def test_one_tensor_in_two_places_is_one_input():
    x = point()
    report = ad.check(lambda a, b: a * b, x, x)
    assert report.ok and len(report.inputs) == 1


def test_modules_are_checked_by_their_parameters():
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(4, 2), ad.nn.Tanh()).double()
    report = ad.check(net, point())
    assert report.ok and [i.name for i in report.inputs] == [
        "input",
        "Sequential.0.weight",
        "Sequential.0.bias",
    ]
    assert "another way than its arguments" in report.first.dot_note


@pytest.mark.parametrize("derivative", ["central", "forward", "richardson", "complex-step"])
def test_externals_by_differences_pass(derivative):
    f = ad.external(lambda x: np.sin(x) * np.exp(x), derivative=derivative)
    assert ad.check(f, point()).verdict == "right"


def test_an_external_with_a_wrong_jacobian():
    f = ad.external(lambda x: x**2, jacobian=lambda x: np.diag(2 * x) + np.eye(4, k=1))
    report = ad.check(f, point(), order=1)
    assert report.verdict == "wrong"
    assert {e.place for e in report.worst} == {"x[1]", "x[2]", "x[3]"}


def test_a_function_without_jvp_or_second_derivative_says_so():
    class Once(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    report = ad.check(Once.apply, point())
    assert report.ok and report.name == "Once" and report.inputs[0].name == "x"
    assert report.dot is None and "forward mode is not available" in str(report)
    assert report.second is None and "not available (RuntimeError" in report.second_note


# --- the report -----------------------------------------------------------------------------------


def test_the_report_reads_well():
    lines = str(ad.check(RIGHT["smooth"], point(), name="model")).splitlines()
    assert lines[0] == "model: all right"
    assert lines[1].startswith("  float64, relative tolerance 1e-05, ")
    titles = [line.split("  ")[0].strip() or line.strip().split("  ")[0] for line in lines[2:]]
    for title in ("first derivative", "second derivative", "x [4]", "dot-product test"):
        assert title in titles
    assert repr(ad.check(ad.sin, point())).startswith("sin: all right")


def test_plots_in_the_terminal_and_as_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "check.png"
    report = ad.check(RIGHT["smooth"], point(), plot=file)
    assert decode_png(file.read_bytes()) == (1200, 980)
    text = report.text_plot(40)
    assert "Taylor test of the first derivative" in text and "┊ the best step" in text
    assert max(map(len, text.splitlines())) < 100
    undecided = ad.check(lambda x: x * ad.rand(4, **F64), point(), plot=file)
    assert decode_png(file.read_bytes()) == (1200, 510) and undecided.text_plot() == ""


def test_without_matplotlib_a_check_warns_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.warns(
        UserWarning, match=r"no picture .*check.png: .*\s.*pip install 'adjoint\[plot"
    ):
        report = ad.check(RIGHT["smooth"], point(), plot=tmp_path / "check.png")
    assert report.verdict == "right" and not list(tmp_path.iterdir())


def test_nothing_to_check_is_an_error():
    with pytest.raises(ValueError, match="no argument is a floating-point tensor"):
        ad.check(lambda x: x, ad.tensor([1, 2]))
    with pytest.raises(ValueError, match="the function returned None"):
        ad.check(lambda x: None, point())
    with pytest.raises(ValueError, match="order= is 1 or 2, got 3"):
        ad.check(ad.sin, point(), order=3)
    with pytest.raises(ValueError, match="relative error"):
        ad.check(ad.sin, point(), tolerance=2.0)
    with pytest.raises(ZeroDivisionError):
        ad.check(lambda x: 1 / 0, point())


# --- rules that are compared with themselves ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vjp": lambda g, x: 1.5 * g * np.cos(x)}, "the jvp is derived from the vjp (wave)"),
        ({"jvp": lambda t, x: 1.5 * t * np.cos(x)}, "the vjp is derived from the jvp (wave)"),
        ({"jacobian": lambda x: 1.5 * np.diag(np.cos(x))}, "derived from the jacobian (wave)"),
        ({"elementwise": True}, "derived from the same differences (wave)"),
    ],
)
def test_a_rule_that_is_derived_from_the_other_is_not_compared_with_it(options, said):
    wave = ad.external(lambda x: np.sin(x), name="wave", **options)
    for f in (wave, lambda x: (2 * wave(x)).sum()):
        first = ad.check(f, point(), order=1).first
        assert first.dot is None and first.dot_note.startswith("not made: ")
        assert said in first.dot_note


def test_two_rules_of_an_external_are_compared():
    both = ad.external(np.sin, vjp=lambda g, x: g * np.cos(x), jvp=lambda t, x: t * np.cos(x))
    assert ad.check(both, point(), order=1).first.dot.status == "right"
    assert ad.check(ad.external(np.sin), point(), order=1).first.dot.status == "approximate"


def test_a_wrong_jvp_is_found_beside_one_that_is_derived():
    wave = ad.external(np.sin, vjp=lambda g, x: g * np.cos(x))
    wrong = cube(jvp_factor=lambda x: 1.5)
    report = ad.check(lambda x: wrong(wave(x)), point(), order=1)
    assert report.first.dot.status == "wrong" and "the jvp is wrong" in report.first.dot.note


def test_a_noisy_gradient_is_told_readably_with_what_to_do():
    rough = ad.external(np.sin, vjp=lambda g, x: g * (np.cos(x) + 1e-6 * np.sin(1e9 * x)))
    with pytest.warns(UserWarning, match="its second derivative may be wrong"):
        report = ad.check(rough, point())
    note = report.second.notes[0]
    assert note.startswith("the gradient is noisy: its values scatter by ")
    assert "of their size" in note and "order=1 checks the first derivative alone" in note
    assert ad.check(rough, point(), order=1).verdict == "right"


@pytest.mark.parametrize("bounds", [None, {"k": (0, None)}])
@pytest.mark.parametrize("method", ["central", "forward"])
def test_second_derivatives_by_differences_are_judged_by_what_differences_can_do(bounds, method):
    """No derivative by k twice, an element on a bound: small steps see nothing but noise."""

    def diffuse(u, k):
        out = u.copy()
        out[1:-1] += 0.1 * k[1:-1, None] * (u[2:] - 2 * u[1:-1] + u[:-2])
        return out

    f = ad.external(diffuse, bounds=bounds, derivative=method)
    k = ad.tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=ad.float64)
    for seed in range(3):
        u = ad.rand(5, 2, dtype=ad.float64, generator=ad.Generator().manual_seed(seed))
        report = ad.check(f, u, k)
        assert report.verdict == "right", report


def test_a_wrong_second_derivative_beside_differences_is_found():
    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()

    calls = []
    sine = ad.external(lambda x: [calls.append(x), np.sin(x)][1])
    x = ad.tensor([0.3, 0.7, -0.4], dtype=ad.float64)
    report = ad.check(lambda x: Square.apply(sine(x)), x)
    assert report.first.verdict == "right" and report.second.verdict == "wrong"
    # Gradients take evaluations too, and are counted.
    assert report.evaluations < report.external_evaluations <= len(calls)
    assert report.external_evaluations > 0.9 * len(calls)
    assert f"{report.external_evaluations} of externals" in str(report)


def test_both_modes_by_differences_in_float32_need_not_agree_to_more_than_these():
    def swing(p):  # an oscillator in single precision
        x, v = np.float32(1), np.float32(0.3)
        found = []
        for _ in range(150):
            v = v - np.float32(0.05) * (p[0] * x + p[1] * v + p[2] * x**3)
            x = x + np.float32(0.05) * v
            found.append(x)
        return np.stack(found)

    f = ad.external(swing)
    for seed in range(4):
        p = 0.2 + ad.rand(3, generator=ad.Generator().manual_seed(seed))
        report = ad.check(f, p, order=1)
        assert report.verdict == "right", report
