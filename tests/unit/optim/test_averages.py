"""swa_utils: models of means, their schedule and their statistics."""

from __future__ import annotations

import copy

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.optim import swa_utils


def _models(count: int, seed: int = 0) -> list[nn.Module]:
    ad.manual_seed(seed)
    return [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(count)]


@pytest.mark.parametrize("kind", ["default", "fn", "multi"])
def test_equal_means(kind: str) -> None:
    models = _models(4)
    options = {
        "default": {},
        "fn": {"avg_fn": swa_utils.get_swa_avg_fn()},
        "multi": {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
    }[kind]
    averaged = swa_utils.AveragedModel(models[0], **options)
    for model in models:
        averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 4
    for mean, *each in zip(
        averaged.module.parameters(), *(m.parameters() for m in models), strict=True
    ):
        ad.testing.assert_close(mean, sum(each) / 4)


@pytest.mark.parametrize("kind", ["avg_fn", "multi_avg_fn"])
def test_fading_means(kind: str) -> None:
    models = _models(3)
    make = {"avg_fn": swa_utils.get_ema_avg_fn, "multi_avg_fn": swa_utils.get_ema_multi_avg_fn}
    averaged = swa_utils.AveragedModel(models[0], **{kind: make[kind](0.9)})
    expected = [p.detach().clone() for p in models[0].parameters()]
    for number, model in enumerate(models):
        averaged.update_parameters(model)
        if number:
            expected = [
                0.9 * e + 0.1 * p.detach()
                for e, p in zip(expected, model.parameters(), strict=True)
            ]
    for mean, wanted in zip(averaged.module.parameters(), expected, strict=True):
        ad.testing.assert_close(mean.detach(), wanted)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_averaged_or_taken_over(use_buffers: bool) -> None:
    models = _models(3)
    for number, model in enumerate(models):
        model[1].running_mean.fill_(float(number))
        model[1].num_batches_tracked.fill_(2 * number)
    averaged = swa_utils.AveragedModel(models[0], use_buffers=use_buffers)
    for model in models:
        averaged.update_parameters(model)
    norm = averaged.module[1]
    assert norm.running_mean.tolist() == pytest.approx([1.0 if use_buffers else 2.0] * 4)
    assert norm.num_batches_tracked.item() == (2 if use_buffers else 4)


def test_a_copy_goes_on_from_its_state() -> None:
    models = _models(3)
    averaged = swa_utils.AveragedModel(models[0])
    averaged.update_parameters(models[0])
    other = swa_utils.AveragedModel(models[2])
    other.load_state_dict(copy.deepcopy(averaged.state_dict()))
    for one in (averaged, other):
        one.update_parameters(models[1])
    for a, b in zip(averaged.parameters(), other.parameters(), strict=True):
        assert ad.equal(a, b)
    x = ad.randn(5, 3)
    assert ad.equal(averaged(x), averaged.module(x))


def test_statistics_are_those_of_all_batches() -> None:
    (model,) = _models(1)
    model[1].momentum = 0.3
    data = ad.randn(6, 8, 3)
    model.eval()
    swa_utils.update_bn([(batch, 0) for batch in data], model)
    assert not model.training and model[1].momentum == 0.3
    means = ad.stack([model[0](batch).mean(0) for batch in data])
    ad.testing.assert_close(model[1].running_mean, means.mean(0).detach())
    swa_utils.update_bn(data, nn.Linear(3, 3))  # nothing to do


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 7])
def test_the_schedule_is_pytorchs(strategy: str, epochs: int) -> None:
    torch = pytest.importorskip("torch")
    rates = []
    for lib in (ad, torch):
        groups = [{"params": [lib.ones(1)], "lr": 0.1}, {"params": [lib.ones(1)], "lr": 0.3}]
        optimizer = lib.optim.SGD(groups)
        scheduler = lib.optim.swa_utils.SWALR(optimizer, [0.01, 0.5], epochs, strategy)
        seen = []
        for _ in range(10):
            optimizer.step()
            scheduler.step()
            seen.append(scheduler.get_last_lr())
        rates.append((seen, scheduler.state_dict()))
    assert rates[0] == rates[1]


def test_what_is_refused() -> None:
    optimizer = optim.SGD([ad.ones(1)])
    with pytest.raises(ValueError, match=r"Invalid decay value 2 provided"):
        swa_utils.get_ema_avg_fn(2)
    with pytest.raises(ValueError, match=r"Invalid decay value -1 provided"):
        swa_utils.get_ema_multi_avg_fn(-1)
    with pytest.raises(ValueError, match="one of 'cos' or 'linear', instead got x"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="x")
    with pytest.raises(ValueError, match="equal or greater than 0, got -1"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
