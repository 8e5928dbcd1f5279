"""lr_scheduler: PyTorch's rates, momenta, states and warnings, step by step."""

from __future__ import annotations

import copy
import warnings

import pytest

import adjoint as ad
from adjoint import optim
from adjoint.optim import lr_scheduler

SCHEDULES = [
    "StepLR(o, 5, 0.5)",
    "MultiStepLR(o, [3, 8, 8])",
    "ExponentialLR(o, 0.9)",
    "CosineAnnealingLR(o, 7, 0.01)",
    "CosineAnnealingWarmRestarts(o, 4, 2, 0.01)",
    "CosineAnnealingWarmRestarts(o, 5)",
    "LambdaLR(o, lambda e: 1 / (1 + e))",
    "LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: 0.5**e])",
    "MultiplicativeLR(o, lambda e: 0.9)",
    "ConstantLR(o)",
    "ConstantLR(o, 0.5, 9)",
    "LinearLR(o, 0.1, 0.8, 12)",
    "PolynomialLR(o, 11, 2.0)",
    "CyclicLR(o, 0.01, 0.1, 4)",
    "CyclicLR(o, [0.01, 0.02], 0.1, 3, 5, mode='triangular2')",
    "CyclicLR(o, 0.01, 0.1, 4, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, scale_mode='cycle')",
    "OneCycleLR(o, 0.1, 30)",
    "OneCycleLR(o, [0.1, 0.2], epochs=3, steps_per_epoch=10, three_phase=True)",
    "OneCycleLR(o, 0.1, 31, pct_start=0.5, anneal_strategy='linear', cycle_momentum=False)",
    "ReduceLROnPlateau(o, patience=2, threshold=0.05)",
    "ReduceLROnPlateau(o, 'max', patience=1, threshold_mode='abs', cooldown=2, min_lr=[1e-3, 0])",
    "ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)])",
    "SequentialLR(o, [s.LinearLR(o, 0.1), s.CosineAnnealingLR(o, 9)], [6])",
    "SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 8])",
]


def _make(lib, schedule: str, rate: float = 0.05):
    w = [lib.zeros(2, requires_grad=True), lib.zeros(3, requires_grad=True)]
    groups = [{"params": w[:1]}, {"params": w[1:], "lr": 0.3}]
    optimizer = lib.optim.SGD(groups, rate, momentum=0.9)
    s = lib.optim.lr_scheduler
    return optimizer, eval("s." + schedule, {"s": s, "o": optimizer})


def _run(optimizer, scheduler, steps: int) -> list[object]:
    seen = []
    for k in range(steps):
        optimizer.step()
        if "Plateau" in type(scheduler).__name__:
            scheduler.step(1 / (1 + k) if k < 5 else 0.2)
        else:
            scheduler.step()
        seen.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
    return seen


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_give_pytorchs_rates_and_states(schedule: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _make(ad, schedule), _make(torch, schedule)
    assert _run(*ours, 29) == _run(*theirs, 29)
    assert ours[1].state_dict() == theirs[1].state_dict()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_goes_on_from_its_saved_state(schedule: str) -> None:
    optimizer, scheduler = _make(ad, schedule)
    _run(optimizer, scheduler, 7)
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    expected = _run(optimizer, scheduler, 12)
    optimizer, scheduler = _make(ad, schedule)
    scheduler.load_state_dict(saved[1])
    optimizer.load_state_dict(saved[0])
    if "Plateau" not in schedule:  # its quantity begins anew
        assert _run(optimizer, scheduler, 12) == expected


@pytest.mark.parametrize(
    "schedule", [s for s in SCHEDULES if s[:3] in ("Ste", "Mul", "Exp", "Lin")]
)
def test_a_given_epoch_uses_the_closed_form(schedule: str) -> None:
    torch = pytest.importorskip("torch")
    rates = []
    for lib in (ad, torch):
        optimizer, scheduler = _make(lib, schedule)
        optimizer.step()
        with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
            scheduler.step(9)
        rates.append(scheduler.get_last_lr())
    assert rates[0] == rates[1]


def test_rates_that_are_tensors_stay_the_same_tensors() -> None:
    rate = ad.tensor(0.5)
    optimizer = optim.SGD([ad.zeros(1, requires_grad=True)], rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25
    assert scheduler.get_last_lr()[0] is not rate
    assert scheduler.base_lrs == [0.5]


def test_steps_in_the_wrong_order_are_told() -> None:
    optimizer, scheduler = _make(ad, "StepLR(o, 2)")
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    optimizer, scheduler = _make(ad, "StepLR(o, 2)")
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()
    optimizer, scheduler = _make(ad, "StepLR(o, 2)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
        scheduler.step()
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()


def test_a_warning_names_the_users_line() -> None:
    _, scheduler = _make(ad, "StepLR(o, 2)")
    with pytest.warns(UserWarning) as caught:
        scheduler.step(3)
    assert {warning.filename for warning in caught} == {__file__}


class Halving:
    """A callable with state."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, epoch: int) -> float:
        return self.share**epoch


@pytest.mark.parametrize("cls", [lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR])
def test_callable_objects_are_saved_by_their_attributes(cls) -> None:
    optimizer = optim.SGD([ad.zeros(1, requires_grad=True)], 1.0)
    saved = cls(optimizer, Halving(0.5)).state_dict()
    assert saved["lr_lambdas"] == [{"share": 0.5}]
    other = cls(optimizer, Halving(0.25))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].share == 0.5
    cyclic = lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, scale_fn=Halving(0.5), cycle_momentum=False)
    assert cyclic.state_dict()["_scale_fn_custom"] == {"share": 0.5}


def test_a_group_added_later_gets_the_least_rate() -> None:
    optimizer = optim.SGD([ad.zeros(1, requires_grad=True)], 1.0)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.01)
    optimizer.add_param_group({"params": [ad.zeros(1, requires_grad=True)]})
    for _ in range(4):
        plateau.step(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.01])


def test_a_schedule_does_not_keep_its_optimizer_in_a_cycle() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        optimizer = optim.SGD([ad.zeros(1, requires_grad=True)], 1.0)
        lr_scheduler.StepLR(optimizer, 1)
        reference = weakref.ref(optimizer)
        del optimizer
        assert reference() is None
    finally:
        gc.enable()
