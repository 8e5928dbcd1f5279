"""``adjoint.explain_grad``: why a gradient is what it is, in words."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(list(values), requires_grad=True)


# --- a gradient arrives --------------------------------------------------------------------------
def test_a_gradient_that_flows_is_shown_with_its_path_and_lines() -> None:
    x = leaf(1.0, 2.0)
    loss = (x.exp() * 2).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "flows"
    text = str(found)
    assert text.startswith(
        "the gradient of loss with respect to x is there: shape [2], largest absolute value 14.77"
    )
    assert "x.grad is None for now" in text
    assert "loss.backward() fills it" in text
    assert "One path leads there:" in text
    assert re.search(r"exp +\[2\] +float32 +8 B +test_explain.py:\d+ ", text)
    assert found.graph is not None
    assert [n.op for n in found.graph] == ["sum", "mul", "exp", "leaf"]
    assert x.grad is None, "explaining leaves .grad alone"
    loss.backward()  # and the graph


def test_paths_are_counted_and_loops_are_folded() -> None:
    x = leaf(1.0)
    h = x
    for _ in range(500):
        h = (h * 0.5).sin()
    text = str(ad.explain_grad(h.sum(), x))
    assert "╔ 500 × 2 nodes" in text
    assert "2 paths lead there" in str(ad.explain_grad(x * x.exp(), x))
    y = x
    for _ in range(40):
        y = y + y
    assert "More than a million paths" in str(ad.explain_grad(y, x))


def test_elements_without_a_gradient_are_counted() -> None:
    x = leaf(-1.0, 2.0)
    assert "1 of 2 elements are 0" in str(ad.explain_grad(x.relu().sum(), x))


def test_a_filled_grad_needs_no_word_about_none() -> None:
    x = leaf(1.0)
    loss = x.exp()
    loss.backward()
    found = ad.explain_grad(loss, x)
    assert found.status == "flows"
    assert "is None" not in found.text


def test_a_result_whose_graph_was_freed_is_explained_without_a_warning() -> None:
    h = leaf(1.0) * 2
    loss = (h * h).sum()
    loss.backward()
    assert "h.grad stays None all the same" in str(ad.explain_grad(loss, h))


def test_a_grad_reset_after_backward_is_told_from_one_never_computed() -> None:
    x = leaf(1.0)
    loss = x.exp()
    loss.backward()
    x.grad = None
    text = str(ad.explain_grad(loss, x))
    assert "x.grad is None although a backward pass ran (test_explain.py:" in text
    assert "loss.backward())" in text


def test_a_result_keeps_no_gradient_unless_asked() -> None:
    x = leaf(1.0)
    h = x * 2
    loss = h.exp()
    text = str(ad.explain_grad(loss, h))
    assert "h.grad stays None all the same: h is not a leaf but a result (test_explain.py:" in text
    assert "h = x * 2" in text
    assert "fix: h.retain_grad() before backward(), or autograd.grad(loss, h)" in text
    h.retain_grad()
    assert "retain_grad()" not in str(ad.explain_grad(loss, h))


# --- it cannot arrive ----------------------------------------------------------------------------
def test_a_tensor_without_requires_grad() -> None:
    x, w = ad.ones(2), leaf(1.0, 2.0)
    found = ad.explain_grad((x * w).sum(), x)
    assert found.status == "no requires_grad"
    assert found.text.startswith("x has no gradient: it does not require grad")
    assert "fix: x.requires_grad_() right after it is made" in found.text


def test_a_tensor_that_lost_its_own_history() -> None:
    w = leaf(1.0, 2.0)
    x = w.exp().detach()
    found = ad.explain_grad((x * w).sum(), x)
    assert found.status == "no requires_grad"
    assert "computed from a tensor that does, but without its history" in found.text
    assert found.breaks[0].reason == "detach"


def test_an_integer_tensor() -> None:
    x = ad.ones(2, dtype=ad.int64)
    found = ad.explain_grad(leaf(1.0), x)
    assert found.status == "integer"
    assert "x is int64: only floating point and complex tensors" in found.text


def detach(x: ad.Tensor) -> ad.Tensor:
    return x.detach() * 2


def data(x: ad.Tensor) -> ad.Tensor:
    return x.data * 2


def no_grad(x: ad.Tensor) -> ad.Tensor:
    with ad.no_grad():
        return x * 2


def cast(x: ad.Tensor) -> ad.Tensor:
    return x.long()


def compare(x: ad.Tensor) -> ad.Tensor:
    return x > 0


def positions(x: ad.Tensor) -> ad.Tensor:
    return x.argmax()


BREAKS = [
    (detach, "detach", "x.detach() * 2", "detach() gave the value without its history"),
    (data, "data", "x.data * 2", ".data gave the value without its history"),
    (no_grad, "no_grad", "return x * 2", "`mul` ran under no_grad()"),
    (cast, "not differentiable", "x.long()", "`to` gave integers or booleans"),
    (compare, "not differentiable", "x > 0", "`gt` gave integers or booleans"),
    (positions, "not differentiable", "x.argmax()", "`argmax` gave integers or booleans"),
]


@pytest.mark.parametrize(
    ("cut", "reason", "line", "says"), BREAKS, ids=[b[0].__name__ for b in BREAKS]
)
def test_a_break_is_named_with_its_line_and_a_fix(
    cut: Any, reason: str, line: str, says: str
) -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    loss = (cut(x) * w).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "broken"
    assert found.text.startswith("loss has no gradient with respect to x: the history was cut off.")
    assert re.search(rf"broken here   test_explain.py:\d+   .*{re.escape(line)}", found.text)
    assert says in found.text
    assert "\n    fix: " in found.text
    assert [b.reason for b in found.breaks] == [reason]


@pytest.mark.parametrize("cut", [b[0] for b in BREAKS[:3]], ids=[b[0].__name__ for b in BREAKS[:3]])
def test_a_loss_without_history_says_where_it_was_lost(cut: Any) -> None:
    x = leaf(1.0, 2.0)
    loss = cut(x).sum()
    assert not loss.requires_grad
    found = ad.explain_grad(loss, x)
    assert found.status == "broken"
    assert "broken here   test_explain.py:" in found.text


def test_a_break_whose_past_is_gone_is_named_as_a_possibility() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * 2).detach()  # the product's node dies here
    loss = (y * w).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "perhaps broken"
    assert "x may have been there" in found.text
    assert "y = (x * 2).detach()" in found.text


def test_several_breaks_come_in_order_from_the_loss() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first = x.detach() * w
    second = first.data
    loss = (second * w).sum()
    found = ad.explain_grad(loss, x)
    assert [b.reason for b in found.breaks] == ["data", "detach"]
    assert "All 2 breaks lie on the way; the first one is nearest to loss" in found.text


def test_a_leaf_made_from_a_detached_result_is_a_break() -> None:
    x = leaf(1.0, 2.0)
    hidden = x.tanh()
    start = hidden.detach().requires_grad_()
    loss = (start * 2).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "broken"
    assert [b.reason for b in found.breaks] == ["detach"]
    assert "start = hidden.detach().requires_grad_()" in found.text
    assert ad.explain_grad(loss, start).status == "flows"


def test_a_way_cut_off_beside_a_whole_one_is_mentioned() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x.detach()).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "flows"
    assert "Another way there was cut off, and adds nothing to the gradient" in found.text
    masked = ad.where(x > 0, x, 0.0).sum()
    assert "cut off" not in str(ad.explain_grad(masked, x)), "a mask is no mistake"


def test_an_unused_tensor_and_what_was_used_instead() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    loss = (w * 2).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "unused"
    assert found.text.startswith("loss has no gradient with respect to x: no path leads there.")
    assert "computed from another leaf of the same shape, [2]: w" in found.text
    assert "loss was computed from: w [2]" in found.text
    assert ".item(), .tolist(), float(), .numpy()" in found.text


def test_a_way_through_numpy_is_named() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = ad.from_numpy(x.detach().numpy() * 2)
    loss = (y * w).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "unused"
    assert "Perhaps through NumPy: x was read as an array here   test_explain.py:" in found.text
    assert "ad.from_numpy(x.detach().numpy() * 2)" in found.text
    assert "wrap the NumPy code with adjoint.external" in found.text


@pytest.mark.parametrize("make", [ad.from_numpy, ad.as_tensor, ad.tensor, ad.asarray])
def test_values_that_come_back_from_numpy_remember_where_they_lost_their_history(make: Any) -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * 2
    array = h.detach().numpy()
    y = make(array[::-1][::-1])  # views of the array, too
    found = ad.explain_grad((y * w).sum(), x)
    assert found.status == "broken"
    assert "array = h.detach().numpy()" in found.text
    plain = make(ad.ones(2).numpy())
    assert ad.explain_grad((plain * w).sum(), x).status == "unused"


def test_what_numpy_computed_from_a_result_is_traced_to_the_tensor_behind_it() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * 2
    y = ad.from_numpy(h.detach().numpy() + 1)
    text = str(ad.explain_grad((y * w).sum(), x))
    assert "Perhaps through NumPy: what was computed from x was read as an array here" in text
    assert "y = ad.from_numpy(h.detach().numpy() + 1)" in text
    other = leaf(5.0, 6.0)
    assert "Perhaps" not in str(ad.explain_grad((y * w).sum(), other))


def test_an_explanation_is_freed_without_the_garbage_collector() -> None:
    x = leaf(1.0, 2.0)
    loss = (x.exp() * x).sum()
    found = ad.explain_grad(loss, x)
    assert found.graph is not None
    gone = [weakref.ref(n) for n in found.graph]
    gc.disable()
    try:
        del found
        assert [r() for r in gone] == [None] * len(gone)
    finally:
        gc.enable()


def test_an_array_that_was_only_logged_is_no_more_than_a_possibility() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    print(x.detach().numpy())
    loss = (w * x.sum().item()).sum()
    text = str(ad.explain_grad(loss, x))
    assert "Perhaps through NumPy" in text
    assert "If loss was computed from that array" in text
    assert "Other likely causes" in text
    assert ".item(), .tolist()" in text


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_copy_made_by_tensor_is_called_that(requires_grad: bool) -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * 2
    y = ad.tensor(h, requires_grad=requires_grad)
    found = ad.explain_grad((y * w).sum(), x)
    assert found.status == "broken"
    assert "y = ad.tensor(h, requires_grad" in found.text
    assert "tensor(...) copied the value without its history" in found.text
    assert "detach" not in found.text
    again = ad.explain_grad((ad.tensor(x.detach()) * w).sum(), x)
    assert "detach() gave the value" in again.text, "the first cause stays"


def test_a_parameter_made_of_a_result_is_a_break() -> None:
    x = leaf(1.0, 2.0)
    h = x * 2
    p = ad.nn.Parameter(h)
    found = ad.explain_grad((p * 3).sum(), x)
    assert found.status == "broken"
    assert "Parameter(...) made a new leaf of the value, without its history" in found.text
    assert "p = ad.nn.Parameter(h)" in found.text


# --- what the tensors are called -----------------------------------------------------------------
held_by_the_module = ad.ones(2, requires_grad=True)


def test_tensors_have_the_names_of_locals_then_globals_then_parameters() -> None:
    x = leaf(1.0)
    net = ad.nn.Linear(1, 2)
    loss = net(x).sum() + held_by_the_module.sum()
    assert "of loss with respect to net.weight is" in str(ad.explain_grad(loss, net.weight))
    assert "with respect to held_by_the_module" in str(ad.explain_grad(loss, held_by_the_module))
    state = {"position": leaf(1.0)}
    found = ad.explain_grad((state["position"] * x).sum(), state["position"])
    assert "with respect to state['position'] is" in str(found)
    hidden = [[leaf(1.0)]]
    text = str(ad.explain_grad((hidden[0][0] * x).sum(), hidden[0][0]))
    assert "with respect to the tensor is" in text
    assert "tensor.grad is None for now" in text
    assert "respect to x" not in text


def test_names_are_of_tensors() -> None:
    x = leaf(1.0)
    with pytest.raises(TypeError, match="names: expected a Tensor for 'q', got int"):
        ad.graph(x * 2, names={"q": 3})  # type: ignore[dict-item]


def test_a_loss_made_of_numbers_has_no_history() -> None:
    x = leaf(1.0, 2.0)
    loss = ad.tensor(sum(x.tolist()))
    found = ad.explain_grad(loss, x)
    assert found.status == "no history"
    assert "loss has no history: nothing that led to it was recorded." in found.text
    assert ".item()" in found.text


def test_a_tensor_changed_in_place_after_it_was_used() -> None:
    w = leaf(1.0, 2.0)
    x = w * 2
    loss = x.sum()
    x.mul_(3)
    found = ad.explain_grad(loss, x)
    assert found.status == "unused"
    assert (
        "x was changed in place (1 times): loss may have been computed from what it was"
        in found.text
    )


def test_a_custom_function_that_returns_none() -> None:
    class Forgetful(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    x = leaf(1.0, 2.0)
    y = Forgetful.apply(x)
    found = ad.explain_grad(y.sum(), x)
    assert found.status == "withheld"
    assert "fills it" not in found.text
    assert "is None: a path leads there, but no gradient came along it" in found.text
    assert "ForgetfulBackward returned None for this input" in found.text
    assert "y = Forgetful.apply(x)" in found.text
    assert [n.name for n in found.nodes] == ["ForgetfulBackward"]


# --- it arrives, but is zero or NaN --------------------------------------------------------------
ZEROS = [
    ("relu", lambda x: (x - 10).relu(), "its input is not positive: here everywhere"),
    (
        "threshold",
        lambda x: ad.nn.functional.threshold(x, 99.0, 0.0),
        "`threshold` passes nothing on where its input is not above it",
    ),
    ("clamp", lambda x: x.clamp(5, 6), "`clamp` passes nothing on outside its bounds"),
    ("where", lambda x: ad.where(x > 9, x, 0.0), "the side that was not chosen: here it never was"),
    ("mul", lambda x: x * ad.zeros(2), "the other factor, which is 0 everywhere"),
    ("round", lambda x: x.round(), "`round` is flat: its derivative is 0 everywhere"),
    ("maximum", lambda x: ad.maximum(x, ad.full((2,), 9.0)), "passes the gradient on to the one"),
    ("cos", lambda x: (x * 0).cos(), "the derivative of `cos` is 0 at these values"),
    ("tiny", lambda x: x * 1e-30 * 1e-30, "the gradient became too small for its dtype"),
]


@pytest.mark.parametrize(("name", "f", "says"), ZEROS, ids=[z[0] for z in ZEROS])
def test_the_node_that_made_the_gradient_zero_is_named(name: str, f: Any, says: str) -> None:
    x = leaf(1.0, 2.0)
    found = ad.explain_grad(f(x).sum(), x)
    assert found.status == "zero"
    assert "is exactly 0." in found.text
    assert says in found.text
    assert found.nodes
    assert re.search(r"\n    test_explain.py:\d+ ", found.text)


def test_paths_that_cancel() -> None:
    x = leaf(1.0, 2.0)
    found = ad.explain_grad((x - x).sum(), x)
    assert found.status == "zero"
    assert "what arrives along several paths cancels" in found.text


def test_the_first_node_of_a_nan_is_named() -> None:
    x = leaf(0.0, 4.0)
    loss = ad.where(x > 0, x.sqrt(), 0.0).sum()
    found = ad.explain_grad(loss, x)
    assert found.status == "nan"
    assert "holds 1 NaN (of 2 elements)" in found.text
    assert "The first node that made it so is SqrtBackward0" in found.text
    assert "strong_zeros" in found.text
    assert [n.op for n in found.nodes] == ["sqrt"]
    inf = ad.explain_grad(x.sqrt().sum(), x)
    assert inf.status == "nan"
    assert "holds 1 Inf" in inf.text


def test_a_nan_made_of_an_infinity_names_both_and_agrees_with_detect_anomaly() -> None:
    x = leaf(1.0, 2.0)
    loss = ((x - x) ** 2).sum().sqrt()
    found = ad.explain_grad(loss, x)
    assert [n.op for n in found.nodes] == ["pow", "sqrt"]
    assert "The first node that made it so is PowBackward0, from a gradient that was inf" in str(
        found
    )
    assert "The first infinity on the way was made by SqrtBackward0" in found.text
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="'PowBackward0' returned"),
        ad.autograd.detect_anomaly(),
    ):
        ((x - x) ** 2).sum().sqrt().backward()


def test_strong_zeros_are_advised_only_where_they_help() -> None:
    x = leaf(0.0, 4.0)
    for loss, helps in (
        (((x - x) ** 2).sum().sqrt(), False),
        (x.sqrt().sum(), False),
        (ad.where(x > 0, x.log(), 0.0).sum(), True),
    ):
        assert ("strong_zeros" in ad.explain_grad(loss, x).text) == helps
        with ad.autograd.strong_zeros():
            (g,) = ad.autograd.grad(loss, x)
        assert bool(g.isfinite().all()) == helps


def test_a_stored_gradient_is_said_to_be_a_sum() -> None:
    a = leaf(3.0, 4.0)
    (a * 1).sum().backward()
    loss = (a**2).sum()
    loss.backward()
    text = ad.explain_grad(loss, a).text
    assert "a.grad is there: shape [2], largest absolute value 9" in text
    assert "a.grad is the sum over all backward passes since it was last zeroed" in text
    assert "the gradient of loss with respect to a is there" not in text


def test_a_list_of_tensors_made_into_one_is_a_break() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0)
    parts = [x[0] * 2, x[1]]
    for loss in (ad.tensor(parts).sum(), ad.tensor([[0.0, *parts]][0]).sum(), ad.tensor([parts])):
        found = ad.explain_grad(loss.sum(), x)
        assert "tensor(...) copied the value" in found.text
        assert "ad.tensor(" in found.text
        assert "fix: use the tensor itself" in found.text and "adjoint.stack([...])" in found.text
    found = ad.explain_grad(ad.tensor([y[0]]).sum() + x.sum() * 0, y)
    assert "tensor(...) copied the value" in found.text
    with ad.no_grad():
        assert not ad.tensor(parts).requires_grad


def test_a_freed_graph_is_still_described() -> None:
    x = leaf(0.0, 4.0)
    loss = ad.where(x > 0, x.sqrt(), 0.0).sum()
    loss.backward()
    found = ad.explain_grad(loss, x)
    assert found.status == "nan"
    assert "The graph was freed, so the node that made it so can't be found" in found.text
    z = leaf(-1.0)
    loss = z.relu().exp() * 2
    loss.backward()
    assert ad.explain_grad(loss, z).status == "zero"


def test_names_can_be_given_and_bad_arguments_are_refused() -> None:
    x = leaf(1.0)
    y = x * 2
    text = str(ad.explain_grad(y, x, names={"energy": y, "state": x}))
    assert "of energy with respect to state" in text
    with pytest.raises(TypeError, match="x must be a Tensor, got float"):
        ad.explain_grad(x, 1.0)  # type: ignore[arg-type]


def test_a_long_graph_is_explained_without_recursion() -> None:
    x, w = leaf(1.0), leaf(1.0)
    h = w
    for _ in range(20_000):
        h = h.sin()
    assert ad.explain_grad(h, x).status == "unused"
    assert ad.explain_grad(h, w).status == "flows"


def test_writing_into_a_part_or_an_out_argument_without_recording_is_found() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    part, whole = ad.zeros(2), ad.zeros(2)
    with ad.no_grad():
        part[0] = x[0] * 2
        ad.mul(x, 2, out=whole)
    for buffer in (part, whole):
        text = str(ad.explain_grad((buffer * w).sum(), x))
        assert "broken here   test_explain.py" in text
        assert "no_grad()" in text


def test_a_function_that_read_the_tensor_in_secret_is_named():
    class Secret(ad.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * h

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("explaining runs nothing here")

    x, w = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    h = x
    found = ad.explain_grad(Secret.apply(w).sum(), x)
    assert found.status == "hidden"
    assert "the gradient of h (a variable of forward, float32 [2]) is lost: Secret.forward" in str(
        found
    )
    h = x * 2
    assert ad.explain_grad(Secret.apply(w).sum(), x).status == "hidden"
    assert ad.explain_grad(Secret.apply(w).sum(), ad.ones(2, requires_grad=True)).status == "unused"
