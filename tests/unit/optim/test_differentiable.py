"""optim with differentiable=True: gradients through steps, by the formulas of the native loops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import adjoint as ad
from adjoint import optim


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Counters and rates in the state are float64 then, too."""
    ad.set_default_dtype(ad.float64)
    yield
    ad.set_default_dtype(ad.float32)


CASES = [
    "SGD(w, lr)",
    "SGD(w, lr, momentum=0.9, weight_decay=0.1)",
    "SGD(w, lr, momentum=0.9, nesterov=True, maximize=True)",
    "Adam(w, lr, weight_decay=0.1)",
    "Adam(w, lr, amsgrad=True)",
    "AdamW(w, lr)",
    "Adadelta(w, lr, weight_decay=0.1)",
    "Adagrad(w, lr, lr_decay=0.1, initial_accumulator_value=0.1)",
    "Adamax(w, lr, weight_decay=0.1)",
    "ASGD(w, lr, t0=0, lambd=0.1, weight_decay=0.1)",
    "NAdam(w, lr, weight_decay=0.1)",
    "NAdam(w, lr, weight_decay=0.1, decoupled_weight_decay=True)",
    "RAdam(w, lr, betas=(0.9, 0.9), weight_decay=0.1)",
    "RMSprop(w, lr, weight_decay=0.1)",
    "RMSprop(w, lr, momentum=0.5, centered=True)",
    "Rprop(w, lr)",
]


def _trained(code: str, start: ad.Tensor, rate: ad.Tensor, steps: int) -> ad.Tensor:
    """Parameters after some steps on a loss of their own, as a function of where they began."""
    with ad.enable_grad():
        w = start.clone()
        code = f"o.{code[:-1]}, differentiable=True)"
        optimizer = eval(code, {"o": optim, "w": [w], "lr": rate})
        for _ in range(steps):
            x = w.clone()  # the step writes over w, which the graph of the loss may still need
            (w.grad,) = ad.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
            optimizer.step()
    return w


@pytest.mark.parametrize("code", CASES)
def test_gradients_go_through_steps(code: str) -> None:
    start = ad.tensor([0.5, -1.5, 2.0], requires_grad=True)
    rate = ad.tensor(0.1, requires_grad=True)
    assert ad.autograd.gradcheck(lambda s, r: _trained(code, s, r, 3), (start, rate))


@pytest.mark.parametrize("code", CASES)
def test_a_recorded_step_is_the_native_one(code: str) -> None:
    start = ad.tensor([0.5, -1.5, 2.0, 0.25])
    recorded = _trained(code, start.clone().requires_grad_(), ad.tensor(0.1), 4)
    w = start.clone().requires_grad_()
    optimizer = eval("o." + code, {"o": optim, "w": [w], "lr": 0.1})
    for _ in range(4):
        (w.grad,) = ad.autograd.grad((w.sin() * w).sum(), w)
        optimizer.step()
    ad.testing.assert_close(recorded.detach(), w.detach(), rtol=1e-12, atol=1e-12)


def test_betas_can_be_learned() -> None:
    start = ad.tensor([0.5, -1.5])

    def after(beta1: ad.Tensor, beta2: ad.Tensor) -> ad.Tensor:
        w = start.clone().requires_grad_().clone()
        optimizer = optim.Adam([w], 0.1, (beta1, beta2), differentiable=True)
        for _ in range(3):
            x = w.clone()
            (w.grad,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
            optimizer.step()
        return w

    betas = [ad.tensor(b, requires_grad=True) for b in (0.5, 0.7)]
    assert ad.autograd.gradcheck(after, betas)


def test_a_learning_rate_is_learned() -> None:
    """Descent on the rate of another descent."""
    rate = ad.tensor(0.01, requires_grad=True)
    losses = []
    for _ in range(20):
        w = ad.ones(3, requires_grad=True).clone()
        optimizer = optim.SGD([w], rate, momentum=0.5, differentiable=True)
        for _ in range(5):
            x = w.clone()
            (w.grad,) = ad.autograd.grad((x**2).sum(), x, create_graph=True)
            optimizer.step()
        loss = (w**2).sum()
        losses.append(loss.item())
        (slope,) = ad.autograd.grad(loss, rate)
        with ad.no_grad():
            rate -= 0.005 * slope
    assert losses[-1] < 0.1 * losses[0]


def test_a_leaf_refuses_a_recorded_step() -> None:
    w = ad.ones(2, requires_grad=True)
    w.grad = ad.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        optim.Adam([w], differentiable=True).step()


def test_counters_do_not_require_grad() -> None:
    w = ad.ones(2, requires_grad=True).clone()
    w.grad = ad.ones(2)
    optimizer = optim.Adam([w], differentiable=True)
    optimizer.state[w] = {
        "step": ad.zeros((), requires_grad=True),
        "exp_avg": ad.zeros(2),
        "exp_avg_sq": ad.zeros(2),
    }
    with pytest.raises(RuntimeError, match="`requires_grad` is not supported for `step`"):
        optimizer.step()
