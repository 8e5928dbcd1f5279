"""`GradScaler`: factors, steps that are skipped, states."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.amp import GradScaler
from adjoint.amp.grad_scaler import OptState


def problem(value: float = 1.0, **options: Any) -> tuple[ad.Tensor, Any, GradScaler]:
    x = ad.tensor([value, 2.0], requires_grad=True)
    optimizer = ad.optim.SGD([x], lr=0.5, **options)
    return x, optimizer, GradScaler("cpu", init_scale=8.0, growth_interval=2)


def step(x: ad.Tensor, optimizer: Any, scaler: GradScaler, factor: float = 1.0) -> None:
    optimizer.zero_grad()
    scaler.scale((x * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}])
def test_steps_are_those_without_a_factor(options: dict[str, Any]) -> None:
    x, optimizer, scaler = problem(**options)
    step(x, optimizer, scaler)
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, 1.5])
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])


@pytest.mark.parametrize("options", [{}, {"fused": True}])
def test_infinite_gradients_skip_the_step_and_lower_the_factor(options: dict[str, Any]) -> None:
    x, optimizer, scaler = problem(**options)
    step(x, optimizer, scaler, float("inf"))
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])
    assert scaler.get_scale() == 4.0
    step(x, optimizer, scaler, float("nan"))
    assert scaler.get_scale() == 2.0
    step(x, optimizer, scaler)
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, 1.5])


def test_the_factor_grows_after_as_many_steps_as_asked_for() -> None:
    x, optimizer, scaler = problem()
    scales = []
    for _ in range(5):
        step(x, optimizer, scaler)
        scales.append(scaler.get_scale())
    assert scales == [8.0, 16.0, 16.0, 32.0, 32.0]
    assert scaler._get_growth_tracker() == 1


def test_the_factor_does_not_grow_to_infinity() -> None:
    x, optimizer, _ = problem()
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    optimizer.zero_grad()
    scaler.scale((x * 1e-30).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_unscale_is_for_clipping_and_happens_once() -> None:
    x, optimizer, scaler = problem()
    scaler.scale((x * 3).sum()).backward()
    scaler.unscale_(optimizer)
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 3.0])
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    ad.nn.utils.clip_grad_value_([x], 1.0)
    scaler.step(optimizer)
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, 1.5])
    with pytest.raises(RuntimeError, match="being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(optimizer)
    scaler.update()


def test_each_optimizer_has_a_state_of_its_own() -> None:
    a, first, scaler = problem()
    b, second, _ = problem(5.0)
    scaler.scale(a.sum() + (b * float("inf")).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    assert scaler._per_optimizer_states[id(first)]["stage"] is OptState.STEPPED
    scaler.update()
    np.testing.assert_array_equal(a.detach().numpy(), [0.5, 1.5])
    np.testing.assert_array_equal(b.detach().numpy(), [5.0, 2.0])
    assert scaler.get_scale() == 4.0


def test_what_is_refused() -> None:
    x, optimizer, scaler = problem()
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.update()
    scaler.scale(x.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="prior to update"):
        GradScaler.update(_started())
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 1.0)
    half = ad.ones(1, dtype=ad.float16).requires_grad_()
    half.sum().backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(ad.optim.SGD([half], lr=0.1))
    with pytest.raises(AssertionError, match="new_scale should be a float"):
        scaler.update(ad.ones(2))
    with pytest.raises(ValueError, match="must be a Tensor or an iterable"):
        scaler.scale("text")
    with pytest.raises(AssertionError, match="backoff factor"):
        GradScaler("cpu", backoff_factor=1.0)
    with pytest.raises(AssertionError, match="only be pickled at the beginning"):
        pickle.dumps(scaler)


def _started() -> GradScaler:
    scaler = GradScaler("cpu")
    scaler.scale(ad.ones(1))
    return scaler


def test_optimisers_that_take_the_scaler_are_warned_about() -> None:
    x, _, scaler = problem()

    class Taking(ad.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure: Any = None, *, grad_scaler: Any = None) -> None:  # type: ignore[override]
            assert grad_scaler is scaler

    scaler.scale(x.sum()).backward()
    with pytest.warns(FutureWarning, match="stop passing itself"):
        scaler.step(Taking([x], lr=0.1))


def test_a_scaler_that_is_off_does_nothing() -> None:
    x, optimizer, _ = problem()
    scaler = GradScaler("cpu", enabled=False)
    assert scaler.scale(x) is x
    x.sum().backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert scaler.state_dict() == {} and scaler.get_scale() == 1.0
    assert not scaler.is_enabled() and scaler._get_growth_tracker() == 0
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, 1.5])


def test_states_travel() -> None:
    x, optimizer, scaler = problem()
    step(x, optimizer, scaler)
    other = GradScaler("cpu")
    other.scale(ad.ones(1))
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})


def test_settings_and_structures() -> None:
    scaler = GradScaler("cpu", init_scale=2.0)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    assert scaler.get_growth_factor() == 3.0
    assert scaler.get_backoff_factor() == 0.25
    assert scaler.get_growth_interval() == 7
    a, (b, c) = scaler.scale([ad.ones(1), (ad.ones(2), ad.ones(3))])
    assert [float(t[0]) for t in (a, b, c)] == [2.0] * 3
    scaler.update(5.0)
    assert scaler.get_scale() == 5.0
    scaler.update(ad.tensor(6.0))
    assert scaler.get_scale() == 6.0


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_older_names(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"torch.{name}.amp.GradScaler"):
        if name == "cuda":
            with pytest.warns(UserWarning, match="CUDA is not available"):
                assert not ad.cuda.amp.GradScaler().is_enabled()
        else:
            assert ad.cpu.amp.GradScaler().is_enabled()
    with pytest.warns(FutureWarning, match=f"torch.{name}.amp.autocast"):
        getattr(ad, name).amp.autocast(enabled=False)


def test_float16_training_with_a_scaler_follows_float32() -> None:
    """Gradients of 1e-7 would be zero in float16."""
    losses = []
    for mixed in (False, True):
        ad.manual_seed(0)
        net = ad.nn.Linear(4, 1)
        optimizer = ad.optim.SGD(net.parameters(), lr=2e4)
        scaler = GradScaler("cpu", init_scale=2.0**14, enabled=mixed)
        x = ad.randn(32, 4)
        target = x.sum(1, keepdim=True)
        for _ in range(40):
            optimizer.zero_grad()
            with ad.autocast("cpu", dtype=ad.float16, enabled=mixed):
                loss = ad.nn.functional.mse_loss(net(x), target) * 1e-6
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(float(loss) * 1e6)
    assert losses[0] < 0.7
    assert abs(losses[1] - losses[0]) < 0.02 * losses[0] + 1e-3
