"""``detect_anomaly``: the first op, forward or backward, that produced a NaN or an infinity."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function, detect_anomaly, set_detect_anomaly

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    yield
    assert not ad.is_anomaly_enabled()


def message_of(function: Any, **options: Any) -> str:
    with pytest.raises(RuntimeError) as caught, detect_anomaly(**options):
        function()
    return str(caught.value)


# --- forward -------------------------------------------------------------------------------------
def test_forward_names_the_op_its_line_and_the_statistics_of_its_inputs() -> None:
    x = ad.tensor([-1.0, 0.0, 2.0])
    text = message_of(lambda: x.log())
    assert text.startswith(
        "Function 'log' produced nan values in the forward pass, from inputs that had none."
    )
    assert "line   test_anomaly.py:" in text
    assert "x.log()" in text
    assert "result   float32 [3]: min -inf, max 0.693147, 1 nan, 1 inf, 0 zero" in text
    assert "input `input`   float32 [3]: min -1, max 2, 0 nan, 0 inf, 1 zero" in text


def test_forward_shows_numbers_and_both_operands() -> None:
    a, b = ad.tensor([0.0, 1.0]), ad.tensor([0.0, 2.0])
    text = message_of(lambda: a / b)
    assert "input `other`   float32 [2]: min 0, max 2" in text
    assert "input `other`   0" in message_of(lambda: a / 0)


def test_forward_reports_the_op_that_made_the_nan_not_one_that_passes_it_on() -> None:
    bad = ad.tensor([1.0, float("nan")])
    with detect_anomaly():
        kept = bad * 2  # the NaN was there before
        filled = kept.masked_fill(ad.tensor([True, False]), float("nan"))
        made = ad.where(ad.tensor([True, False]), 1.0, float("nan"))
    assert filled.isnan().all()
    assert made.isnan().any()


def test_forward_looks_inside_in_place_ops() -> None:
    x = ad.zeros(2)
    text = message_of(lambda: x.div_(0))
    assert "'div' produced nan" in text
    assert "input `input`   overwritten by the result" in text
    assert "input `other`   0" in text
    with detect_anomaly():
        x.mul_(2)  # NaN already


def test_forward_looks_at_results_written_with_out() -> None:
    x, out = ad.tensor([-1.0, 4.0]), ad.zeros(2)
    text = message_of(lambda: ad.sqrt(x, out=out))
    assert "'sqrt' produced nan" in text
    assert "input `input`   float32 [2]: min -1, max 4" in text
    assert "overwritten" in message_of(lambda: ad.sqrt(x, out=x))


def test_forward_looks_under_no_grad_and_at_ops_without_gradient() -> None:
    x = ad.tensor([-1.0])
    with ad.no_grad():
        assert "'sqrt' produced nan" in message_of(lambda: x.sqrt())


def test_forward_can_be_left_out() -> None:
    x = ad.tensor([-1.0])
    with detect_anomaly(forward=False):
        assert x.sqrt().isnan().all()


def test_infinities_are_found_on_request() -> None:
    x = ad.tensor([0.0, 1.0])
    with detect_anomaly():
        x.log()
    text = message_of(lambda: x.log(), inf=True)
    assert text.startswith("Function 'log' produced inf values")
    assert "'sqrt'" in message_of(lambda: (-x - 1).sqrt(), inf=True)
    with detect_anomaly(nan=False):
        (-x - 1).sqrt()


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float64, ad.complex64])
def test_every_floating_dtype_is_looked_at(dtype: Any) -> None:
    x = ad.zeros(3, dtype=dtype)
    assert "produced nan" in message_of(lambda: x / 0)


def test_strided_and_empty_results_are_looked_at() -> None:
    x = ad.tensor([[1.0, -1.0], [2.0, -2.0]])
    with detect_anomaly():
        x.t()[0].sqrt()
        ad.zeros(0).sqrt()
    assert "produced nan" in message_of(lambda: x.t()[1].sqrt())


def test_ops_made_of_ops_are_looked_at_as_one() -> None:
    x = ad.tensor([0.0, 1.0])
    with detect_anomaly():
        ad.xlogy(x, x)
        ad.nan_to_num(ad.tensor([float("nan")]))


def test_forward_of_a_custom_function_is_looked_at_as_a_whole() -> None:
    np = pytest.importorskip("numpy")

    class Outside(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with np.errstate(invalid="ignore"):
                return ad.from_numpy(np.sqrt(x.numpy()))

    x = ad.tensor([-1.0, 4.0])
    text = message_of(lambda: Outside.apply(x))
    assert text.startswith("Function 'Outside' produced nan values in the forward pass")
    assert "input   float32 [2]: min -1, max 4, 0 nan" in text


# --- backward ------------------------------------------------------------------------------------
def test_backward_names_the_node_its_line_and_what_arrived() -> None:
    x = ad.tensor([0.0, 4.0], requires_grad=True)
    y = ad.where(x > 0, x.sqrt(), 0.0).sum()
    with pytest.warns(UserWarning, match="Error detected in SqrtBackward0"):
        text = message_of(y.backward)
    assert text.startswith("Function 'SqrtBackward0' returned nan values in its 0th output.")
    assert "forward line   test_anomaly.py:" in text
    assert "ad.where(x > 0, x.sqrt(), 0.0).sum()" in text
    assert "returned   float32 [2]: min 0.25, max 0.25, 1 nan, 0 inf, 0 zero" in text
    assert "gradient that arrived   float32 [2]: min 0, max 1, 0 nan, 0 inf, 1 zero" in text
    assert "result   float32 [2]: min 0, max 2, 0 nan, 0 inf, 1 zero" in text
    assert x.grad is None


def test_backward_says_when_strong_zeros_would_have_helped() -> None:
    x = ad.tensor([0.0, 4.0], requires_grad=True)
    y = ad.where(x > 0, x.sqrt(), 0.0).sum()
    with pytest.warns(UserWarning):
        text = message_of(lambda: y.backward(retain_graph=True))
    assert "at 1 of these 1 elements the gradient that arrived was 0" in text
    assert "fix: run backward `with autograd.strong_zeros():`" in text
    with detect_anomaly(), ad.autograd.strong_zeros():
        y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.25]
    z = ad.tensor([0.0], requires_grad=True)
    with pytest.warns(UserWarning):
        text = message_of(lambda: (z.sqrt() * 2).sum().backward(), inf=True)
    assert "returned inf values in its 0th output" in text
    assert "strong_zeros" not in text


def test_backward_warns_with_the_stack_of_the_forward_call() -> None:
    x = ad.tensor([0.0], requires_grad=True)

    def user_function() -> ad.Tensor:
        return x.sqrt() * 0

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        message_of(lambda: user_function().sum().backward())
    assert "Anomaly Detection has been enabled" in str(seen[0].message)
    text = str(seen[1].message)
    assert text.startswith(
        "Error detected in SqrtBackward0. Traceback of forward call that caused the error:"
    )
    assert "in user_function" in text
    assert "x.sqrt() * 0" in text
    assert "adjoint/autograd" not in text.replace("\\", "/")
    assert seen[1].filename == __file__


def test_without_detection_in_forward_the_line_is_known_all_the_same() -> None:
    x = ad.tensor([0.0], requires_grad=True)
    y = (x.sqrt() * 0).sum()
    with pytest.warns(UserWarning) as seen:
        message_of(y.backward)
    text = str(seen[-1].message)
    assert "No forward pass information available" in text
    assert "test_anomaly.py:" in text
    assert "y = (x.sqrt() * 0).sum()" in text


def test_an_error_in_backward_is_reported_and_keeps_its_class() -> None:
    x = ad.tensor([1.0], requires_grad=True)

    class Odd(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("mine")

    with (
        pytest.warns(UserWarning, match="Error detected in OddBackward"),
        pytest.raises(KeyError, match="mine"),
        detect_anomaly(),
    ):
        Odd.apply(x).backward()


def test_a_warning_turned_into_an_error_is_printed_instead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = ad.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Error detected")
        text = message_of(lambda: (x.sqrt() * 0).sum().backward())
    assert "SqrtBackward0" in text
    assert "Error detected in SqrtBackward0" in capsys.readouterr().err


def test_a_nan_made_by_a_function_is_reported_by_its_position() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g * float("nan")

    a, b = ad.ones(1, requires_grad=True), ad.ones(1, requires_grad=True)
    with pytest.warns(UserWarning):
        text = message_of(lambda: Pair.apply(a, b).backward())
    assert text.startswith("Function 'PairBackward' returned nan values in its 1th output.")


def test_double_backward_names_the_node_that_induced_it() -> None:
    x = ad.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="returned nan"), detect_anomaly():
            (g,) = ad.autograd.grad((x**1.5).sum(), x, create_graph=True)
            assert g.grad_fn is not None
            assert g.grad_fn.metadata["parent_"].name() == "PowBackward0"
            (g * 0).sum().backward()
    texts = [str(w.message) for w in seen]
    assert "Error detected in PowBackward0" in texts[1]
    assert "Previous calculation was induced by PowBackward0" in texts[2]


def test_what_is_kept_for_reports_is_freed_with_the_graph() -> None:
    class Mark:
        pass

    def make() -> tuple[ad.Tensor, weakref.ref[Mark]]:
        x = ad.randn(2, requires_grad=True)
        t = x.exp()
        with detect_anomaly():
            ad.autograd.grad(t, x, ad.ones_like(t), create_graph=True)
        mark = Mark()
        assert t.grad_fn is not None
        t.grad_fn.metadata[0] = mark
        return t, weakref.ref(mark)

    gc.disable()
    try:
        t, alive = make()
        assert alive() is not None
        del t
        assert alive() is None
    finally:
        gc.enable()


# --- switches ------------------------------------------------------------------------------------
def test_switches_nest_and_come_back() -> None:
    assert not ad.is_anomaly_enabled()
    assert ad.is_anomaly_check_nan_enabled()
    with detect_anomaly(check_nan=False):
        assert ad.is_anomaly_enabled()
        assert not ad.is_anomaly_check_nan_enabled()
        with detect_anomaly(True):
            assert ad.is_anomaly_check_nan_enabled()
        assert not ad.is_anomaly_check_nan_enabled()
    assert not ad.is_anomaly_enabled()


def test_set_detect_anomaly_is_a_function_and_a_context_manager() -> None:
    set_detect_anomaly(True)
    assert ad.is_anomaly_enabled()
    set_detect_anomaly(False)
    assert not ad.is_anomaly_enabled()
    with set_detect_anomaly(True, check_nan=False):
        assert ad.is_anomaly_enabled()
        assert not ad.is_anomaly_check_nan_enabled()
    assert not ad.is_anomaly_enabled()
    ad.set_anomaly_enabled(True, False)
    assert not ad.is_anomaly_check_nan_enabled()
    ad.set_anomaly_enabled(False)


def test_as_a_decorator_it_holds_in_the_function_and_warns_once() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection") as seen:

        @detect_anomaly()
        def root(x: ad.Tensor) -> ad.Tensor:
            assert ad.is_anomaly_enabled()
            return x.sqrt()

        root(ad.ones(1))
        with pytest.raises(RuntimeError, match="'sqrt' produced nan"):
            root(-ad.ones(1))
    assert len(seen) == 1
    assert not ad.is_anomaly_enabled()


def test_detection_belongs_to_the_thread() -> None:
    inside: list[bool] = []
    with detect_anomaly():
        thread = threading.Thread(target=lambda: inside.append(ad.is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert inside == [False]


# --- under vmap -----------------------------------------------------------------------------------
def test_good_values_pass_under_vmap() -> None:
    with detect_anomaly():
        got = ad.func.hessian(lambda x: (x**3).sum())(ad.ones(2))
    assert got.tolist() == [[6.0, 0.0], [0.0, 6.0]]


def test_a_bad_sample_is_found_under_vmap() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, -1.0]])
    text = message_of(lambda: ad.func.vmap(lambda row: row.log())(x))
    assert text.startswith("Function 'log' produced nan values in the forward pass")
    assert "float32 [2, 2]: min -1, max 3" in text


def test_a_bad_gradient_of_a_sample_is_found_under_vmap() -> None:
    x = ad.tensor([3.0, 0.0], requires_grad=True)
    y = x.sqrt()
    pull = ad.func.vmap(lambda g: ad.autograd.grad(y, x, g, retain_graph=True)[0])
    text = message_of(lambda: pull(ad.tensor([[1.0, 1.0], [1.0, 0.0]])))
    assert "returned nan values in its 0th output" in text
    assert "gradient that arrived   float32 [2, 2] (all samples): min 0, max 1" in text
    assert "strong_zeros" in text
