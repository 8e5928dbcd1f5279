"""`ad.compile(f, verify=True)`: eager execution beside every replay."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler import VerifyError, _verify
from adjoint.compiler._guards import Guards, Kind


def stale(f: Any) -> None:
    """Let programs run whatever has changed of variables and attributes."""
    for one in f.programs:
        kept = [row for row in one.guards._rows if row.kind is not Kind.NAMES]
        one.guards = Guards(kept, None, one.guards.tensors(), None, one.guards.steps)
        one.hold = lambda *_: True


class State:
    """What the functions below read, and guards would notice."""

    def __init__(self) -> None:
        self.scale = 2.0
        self.on = False
        self.buffer = ad.zeros(2)
        self.other = ad.zeros(2)


def twice(f: Any, *args: Any) -> None:
    f(*args)
    f(*args)


def test_what_is_right_passes_and_is_eager_execution() -> None:
    f = ad.compile(lambda x: (x.sin() * 2, x.sum()), verify=True)
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        y, _ = f(x)
        assert y.grad_fn is not None and y.grad_fn.name() == "MulBackward0"
        assert ad.equal(ad.autograd.grad(y.sum(), x)[0], 2 * x.cos())
    assert len(f.programs) == 1


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_training_step_happens_once(optimizer: Any) -> None:
    def train(verify: bool, compile: bool = True) -> list[Any]:
        ad.manual_seed(3)
        net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 1))
        steps = optimizer(net.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.StepLR(steps, 2, 0.5)

        def step(x: Any) -> Any:
            steps.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            steps.step()
            schedule.step()
            return loss.detach()

        f = ad.compile(step, verify=verify, fullgraph=True) if compile else step
        losses = [f(ad.randn(8, 2)) for _ in range(6)]
        if compile:
            assert len(f.programs) == 2
        return [*losses, *net.state_dict().values(), ad.get_rng_state(), *schedule.get_last_lr()]

    expected = train(False, compile=False)
    for found in (train(True), train(False)):
        for a, b in zip(found, expected, strict=True):
            assert a == b if isinstance(a, float) else ad.equal(a, b)


def test_a_stale_result_is_told_with_place_and_size() -> None:
    state = State()

    def f(x: Any) -> Any:
        return x * state.scale

    g = ad.compile(f, verify=True)
    twice(g, ad.ones(2))
    state.scale = 2.5
    stale(g)
    with pytest.raises(
        VerifyError,
        match=r"(?s)f was compiled to.*test_compile_verify.py:\d+   def f.*result 0: 2 of 2 "
        r"elements differ; the first, at \[0\], is 2.5 eagerly, 2.0 in the program; the largest "
        r"difference is 0.5.*fix:",
    ):
        g(ad.ones(2))


def test_a_stale_gradient_is_told() -> None:
    state = State()

    def f(x: Any) -> Any:
        return x + (x * state.scale - x.detach() * state.scale)

    g = ad.compile(f, verify=True)
    x = ad.zeros(2, requires_grad=True)
    twice(g, x)
    state.scale = 3.0
    stale(g)
    with pytest.raises(VerifyError, match=r"gradient 0: 2 of 2 elements differ") as told:
        g(x)
    assert "result 0:" not in str(told.value)


def test_a_stale_gradient_of_one_of_two_results_is_told() -> None:
    state = State()

    def f(x: Any) -> Any:
        return x * 2, x * state.scale - x.detach() * state.scale

    g = ad.compile(f, verify=True)
    x = ad.zeros(2, requires_grad=True)
    twice(g, x)
    state.scale = 3.0
    stale(g)
    with pytest.raises(VerifyError, match=r"gradient 0 of results \[1\]: 2 of 2 elements differ"):
        g(x)


def test_written_tensors_are_compared_and_left_as_the_function_leaves_them() -> None:
    state = State()

    def f(x: Any) -> Any:
        with ad.no_grad():
            state.buffer.add_(x * state.scale)
            x.mul_(state.scale)
        return x.sum() * 0

    g = ad.compile(f, verify=True)
    x = ad.ones(2)
    twice(g, x)
    assert ad.equal(x, ad.full((2,), 4.0)) and ad.equal(state.buffer, ad.full((2,), 6.0))
    state.scale = 3.0
    stale(g)
    with pytest.raises(
        VerifyError, match=r"(?s)argument 0: 2 of 2.*the tensor `\S*buffer`"
    ) as told:
        g(x)
    assert "result 0:" not in str(told.value)
    assert ad.equal(x, ad.full((2,), 12.0)) and ad.equal(state.buffer, ad.full((2,), 18.0))


def test_gradients_that_are_accumulated_are_compared() -> None:
    state, weight = State(), ad.ones(2, requires_grad=True)

    def f(x: Any) -> Any:
        (weight * x * state.scale).sum().backward()
        return x * 2

    g = ad.compile(f, verify=True)
    for _ in range(3):
        g(ad.ones(2))
    assert weight.grad is not None and ad.equal(weight.grad, ad.full((2,), 6.0))
    state.scale = 3.0
    stale(g)
    with pytest.raises(VerifyError, match=r"the gradient of the tensor `weight`.*2 of 2 elements"):
        g(ad.ones(2))
    assert ad.equal(weight.grad, ad.full((2,), 9.0))


def test_tensors_that_only_the_function_changes_are_told() -> None:
    state = State()

    def f(x: Any) -> Any:
        if state.on:
            state.other.add_(1)
        return x * 2

    g = ad.compile(f, verify=True)
    twice(g, ad.ones(2))
    state.on, state.other = True, ad.zeros(3)
    stale(g)
    with pytest.raises(VerifyError, match=r"a tensor \[3\] is changed by the function alone"):
        g(ad.ones(2))
    assert ad.equal(state.other, ad.ones(3))


def test_gradients_that_only_the_function_writes_are_told() -> None:
    state, extra = State(), [ad.ones(2, requires_grad=True)]

    def f(x: Any) -> Any:
        if state.on:
            (extra[-1] * x).sum().backward()
        return x * 2

    g = ad.compile(f, verify=True)
    twice(g, ad.ones(2))
    state.on = True
    extra.append(ad.ones(2, requires_grad=True))
    stale(g)
    with pytest.raises(VerifyError, match=r"a tensor \[2\] is changed by the function alone"):
        g(ad.ones(2))


def test_random_numbers_are_drawn_once_and_compared() -> None:
    state, own = State(), ad.Generator().manual_seed(4)

    def f(x: Any) -> Any:
        ad.rand(3 if state.on else 2)
        return x + ad.randn(2) + ad.randn(2, generator=own)

    g = ad.compile(f, verify=True)
    ad.manual_seed(0)
    found = [g(ad.zeros(2)) for _ in range(3)]
    ad.manual_seed(0)
    own.manual_seed(4)
    assert all(ad.equal(one, f(ad.zeros(2))) for one in found)
    state.on = True
    stale(g)
    with pytest.raises(VerifyError, match="generator 0: "):
        g(ad.zeros(2))


def test_random_numbers_that_only_the_function_draws_are_told() -> None:
    state = State()

    def f(x: Any) -> Any:
        return x + 0 * ad.rand(2) if state.on else x + 0

    g = ad.compile(f, verify=True)
    twice(g, ad.ones(2))
    state.on = True
    stale(g)
    with pytest.raises(VerifyError, match="random numbers are drawn by the function alone"):
        g(ad.ones(2))


def test_python_state_that_the_function_changes_is_told() -> None:
    state, log = State(), [0]

    def f(x: Any) -> Any:
        if state.on:
            log[0] += 1
        return x * 2

    g = ad.compile(f, verify=True)
    twice(g, ad.ones(2))
    state.on = True
    stale(g)
    with pytest.raises(VerifyError, match=r"the function changes what it reads: .*`log`"):
        g(ad.ones(2))
    assert log == [1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: x.double() * 2, "result 0: dtype: torch.float64 eagerly, torch.float32"),
        (lambda x: x[0] * 2, r"result 0: strides: \(\) eagerly, \(1,\)"),
        (lambda x: [x * 2], "the result is .* eagerly, .* in the program"),
        (lambda x: x, "tensors of the result are"),
        (lambda x: (x * 2).requires_grad_(), "requires_grad: True eagerly, False"),
        (lambda x: 2.0, "result 0: 2.0 eagerly, a tensor"),
        (lambda x: x.missing, "the function raises AttributeError"),
    ],
)
def test_other_kinds_of_results_are_told(change: Any, text: str) -> None:
    state: Any = State()
    state.change = lambda x: x * 2
    g = ad.compile(lambda x: state.change(x), verify=True)
    twice(g, ad.ones(2))
    state.change = change
    stale(g)
    with pytest.raises(VerifyError, match=text):
        g(ad.ones(2))


def test_an_error_of_both_is_the_functions() -> None:
    f = ad.compile(lambda x, i: x[i], verify=True)
    twice(f, ad.ones(3), ad.tensor([1]))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        f(ad.ones(3), ad.tensor([7]))


def test_compiled_functions_inside_are_compared_with_plain_ones() -> None:
    state = State()
    inner = ad.compile(lambda x: x * state.scale)
    outer = ad.compile(lambda x: inner(x) + 1, verify=True)
    twice(inner, ad.ones(2))
    twice(outer, ad.ones(2))
    state.scale = 3.0
    stale(inner)
    stale(outer)
    with pytest.raises(VerifyError, match=r"is 4.0 eagerly, 3.0 in the program"):
        outer(ad.ones(2))


def test_modules_methods_and_copies_are_verified() -> None:
    net = ad.compile(nn.Linear(2, 2), verify=True)
    assert net._compiled.verify
    assert net(ad.ones(2)).shape == net(ad.ones(2)).shape == (2,)

    class Body:
        @ad.compile(verify=True)
        def push(self, x: Any) -> Any:
            return x * 2

    body = Body()
    twice(body.push, ad.ones(2))
    assert Body.push.verify and Body.push.__reduce__()[1][2] is True


def test_the_environment_verifies_whole_programs() -> None:
    code = (
        "import adjoint as ad\n"
        "f = ad.compile(lambda x: x * 2)\n"
        "print(f.verify, ad.compile(abs, verify=False).verify)\n"
    )
    for value, expected in (("1", "True False"), ("0", "False False"), ("", "False False")):
        environment = {**os.environ, "ADJOINT_VERIFY": value}
        run = [sys.executable, "-c", code]
        out = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        assert out.stdout.strip() == expected


def test_which_nan_it_is_is_no_difference() -> None:
    nan = ad.tensor([1.0, float("nan")])
    other = ad.tensor([1.0, float("-nan")])
    assert nan.view(ad.int32)[1] != other.view(ad.int32)[1]
    assert not _verify._difference_of(nan, other)
    assert "nan eagerly, 1.0 in" in _verify._difference_of(ad.ones(2), nan)
    assert "-0.0 eagerly, 0.0 in" in _verify._difference_of(ad.zeros(2), -ad.zeros(2))
