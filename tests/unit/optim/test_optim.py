"""optim: the same losses as PyTorch's optimizers, step by step."""

from __future__ import annotations

import copy
import math

import pytest

import adjoint as ad
from adjoint import optim

OPTIMIZERS = [
    "SGD(w, 0.1)",
    "SGD(w, 0.05, momentum=0.9)",
    "SGD(w, 0.05, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "SGD(w, 0.01, momentum=0.5, dampening=0.2, weight_decay=0.1)",
    "SGD(w, 1e-5, maximize=True)",
    "Adam(w, 0.1)",
    "Adam(w, 0.01, betas=(0.3, 0.5))",
    "Adam(w, 0.1, weight_decay=0.1, amsgrad=True)",
    "AdamW(w, 0.1, amsgrad=True)",
    "AdamW(w, 0.01, maximize=True)",
    "AdamW([{'params': w[:1], 'lr': 0.3}, {'params': w[1:]}], betas=(0.5, 0.9))",
]

# Sizes below and above the vector widths, and one that is not contiguous.
START = [[0.5, -1.5, 2.0], [0.1 * i - 1.7 for i in range(37)]]


def _train(lib, code: str, steps: int = 50, schedule: str | None = None):
    w = [
        lib.tensor(START[0], requires_grad=True),
        lib.tensor(START[1], dtype=lib.float64, requires_grad=True),
        lib.tensor([START[0], START[0]]).t().requires_grad_(),
    ]
    optimizer = eval("o." + code, {"o": lib.optim, "w": w})
    scheduler = schedule and eval("s." + schedule, {"s": lib.optim.lr_scheduler, "o": optimizer})
    losses, rates = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (w[0].sin() * w[0]).sum() + (w[1] ** 2).sum().float() + (w[2] * w[2].exp()).sum()
        loss.backward()
        optimizer.step()
        if scheduler and "Plateau" in schedule:
            scheduler.step(loss.item())
        elif scheduler:
            scheduler.step()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
    return losses, rates, optimizer


@pytest.mark.parametrize("code", OPTIMIZERS)
def test_fifty_steps_give_pytorchs_losses_and_state(code: str) -> None:
    torch = pytest.importorskip("torch")
    ours, _, mine = _train(ad, code)
    theirs, _, other = _train(torch, code)
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert repr(mine) == repr(other)
    a, b = mine.state_dict(), other.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert {k: list(v) for k, v in a["state"].items()} == {
        k: list(v) for k, v in b["state"].items()
    }


SCHEDULES = [
    "StepLR(o, 5, 0.5)",
    "MultiStepLR(o, [3, 8])",
    "ExponentialLR(o, 0.9)",
    "CosineAnnealingLR(o, 7, 0.01)",
    "LambdaLR(o, lambda e: 1 / (1 + e))",
    "ReduceLROnPlateau(o, patience=2, threshold=0.05)",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_give_pytorchs_learning_rates(schedule: str) -> None:
    torch = pytest.importorskip("torch")
    _, ours, _ = _train(ad, "SGD(w, 0.05)", 30, schedule)
    _, theirs, _ = _train(torch, "SGD(w, 0.05)", 30, schedule)
    assert ours == pytest.approx(theirs, rel=1e-12)


MESSAGES = [
    "SGD([w], -1)",
    "SGD([w], 0.1, momentum=-1)",
    "SGD([w], 0.1, weight_decay=-1)",
    "SGD([w], 0.1, nesterov=True)",
    "SGD(w)",
    "SGD([])",
    "SGD([3])",
    "SGD([w * 2])",
    "SGD([{'params': [w]}, {'params': [w]}])",
    "SGD([{'params': {w}}])",
    "SGD([('a', w), w])",
    "Adam([w], -1)",
    "Adam([w], eps=-1)",
    "Adam([w], betas=(2, 0))",
    "Adam([w], weight_decay=-1)",
    "SGD([w]).load_state_dict({'state': {}, 'param_groups': []})",
    "SGD([w]).load_state_dict({'state': {}, 'param_groups': [{'params': [0, 1]}]})",
    "SGD([w]).add_param_group(3)",
    "lr_scheduler.StepLR(3, 1)",
    "lr_scheduler.LambdaLR(o.SGD([w]), [])",
]


@pytest.mark.parametrize("code", MESSAGES)
def test_bad_options_raise_pytorchs_class_and_text(code: str) -> None:
    torch = pytest.importorskip("torch")
    raised = []
    for lib in (ad, torch):
        with pytest.raises((ValueError, TypeError)) as caught:
            eval("o." + code, {"o": lib.optim, "w": lib.zeros(2, requires_grad=True)})
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("code", ["SGD([w], 0.1, momentum=0.9)", "Adam([w], 0.1, amsgrad=True)"])
def test_training_resumes_from_saved_state(code: str) -> None:
    def make(values: list[float]):
        w = ad.tensor(values, requires_grad=True)
        return w, eval("o." + code, {"o": optim, "w": w})

    def step(w, optimizer) -> None:
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()

    w, optimizer = make([1.0, -2.0, 3.0])
    for _ in range(5):
        step(w, optimizer)
    again, other = make(w.tolist())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(5):
        step(w, optimizer)
        step(again, other)
    assert w.tolist() == again.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("code", ["SGD([w], 0.1, momentum=0.9)", "Adam([w], 0.1)"])
def test_sixteen_bit_parameters_are_optimised_too(code: str, dtype: str) -> None:
    w = ad.tensor([1.0, -2.0], dtype=getattr(ad, dtype), requires_grad=True)
    optimizer = eval("o." + code, {"o": optim, "w": w})
    for _ in range(30):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert w.abs().max().item() < 1.0


ONE_FORMULA = [
    "SGD([w], 0.1)",
    "SGD([w], 0.1, momentum=0.9, dampening=0.1, weight_decay=0.1, maximize=True)",
    "SGD([w], 0.1, momentum=0.9, nesterov=True)",
    "Adam([w], 0.1)",
    "Adam([w], 0.1, weight_decay=0.1, amsgrad=True, maximize=True)",
    "AdamW([w], 0.1, weight_decay=0.1)",
]


@pytest.mark.parametrize("code", ONE_FORMULA)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_and_ops_compute_the_same(code: str, dtype: str) -> None:
    """Strided parameters have no native loop; ops may round a product and a sum at once."""
    found = []
    for strided in (False, True):
        ad.manual_seed(0)
        values = ad.randn(5, 7, dtype=getattr(ad, dtype))
        w = values.t().contiguous().t() if strided else values
        w.requires_grad_()
        assert w.is_contiguous() is not strided
        optimizer = eval("o." + code, {"o": optim, "w": w})
        for _ in range(4):
            w.grad = ad.randn(5, 7, dtype=getattr(ad, dtype))
            version = w._version
            optimizer.step()
            assert w._version > version
        found.append([w.detach(), *optimizer.state[w].values()])
    few_ulps = 8 * ad.finfo(getattr(ad, dtype)).eps
    for a, b in zip(*found, strict=True):
        ad.testing.assert_close(a, b, rtol=few_ulps, atol=few_ulps)


def test_complex_parameters_keep_infinities_apart() -> None:
    w = ad.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    optimizer = optim.SGD([w], 1.0, maximize=True)
    w.grad = ad.tensor([complex(math.inf, 1), 1j])
    optimizer.step()
    assert w.real.tolist() == [math.inf, 2.0]
    w = ad.tensor([1 + 1j], requires_grad=True)
    w.grad = ad.tensor([1j])
    with pytest.raises(NotImplementedError, match="optimise the real and imaginary parts"):
        optim.Adam([w]).step()


def test_tangents_go_through_a_step() -> None:
    with ad.autograd.forward_ad.dual_level():
        w = ad.zeros(2, requires_grad=True)
        w.grad = ad.autograd.forward_ad.make_dual(ad.ones(2), ad.tensor([1.0, 2.0]))
        optim.SGD([w], 0.5).step()
        assert w.tolist() == [-0.5, -0.5]
        assert ad.autograd.forward_ad.unpack_dual(w).tangent.tolist() == [-0.5, -1.0]


def test_a_step_count_is_one_number() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.Adam([w])
    w.grad = ad.ones(1)
    optimizer.step()
    optimizer.state[w]["step"] = ad.zeros(0)
    with pytest.raises(ValueError, match="`step` must be one number, not a tensor of 0 elements"):
        optimizer.step()


def test_a_closure_is_evaluated_with_gradients_and_its_value_returned() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert w.item() == pytest.approx(0.8)


def test_hooks_run_around_a_step() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)
    seen: list[str] = []
    before = optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.step()
    before.remove()
    optimizer.step()
    assert seen == ["before", "after", "after"]


def test_a_step_is_seen_by_the_graph_as_an_in_place_change() -> None:
    """A value saved for backward and then stepped over must not be used silently."""
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)
    loss = (w * w).sum()
    w.grad = ad.ones(2)
    optimizer.step()
    with pytest.raises(RuntimeError):
        loss.backward()


def test_parameters_without_a_gradient_are_left_alone() -> None:
    w, idle = ad.tensor([1.0], requires_grad=True), ad.tensor([5.0], requires_grad=True)
    optimizer = optim.Adam([w, idle])
    (w**2).sum().backward()
    optimizer.step()
    assert idle.item() == 5.0 and idle not in optimizer.state


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    def train(threads: int) -> list[float]:
        ad.set_num_threads(threads)
        ad.manual_seed(0)
        w = ad.randn(100_003, requires_grad=True)
        optimizer = optim.Adam([w], 0.1)
        for _ in range(3):
            w.grad = w.detach().sin()
            optimizer.step()
        return w.tolist()

    before = ad.get_num_threads()
    try:
        assert train(1) == train(2)
    finally:
        ad.set_num_threads(before)
