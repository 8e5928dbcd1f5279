"""Batch, instance and group normalisation beside PyTorch: results, gradients, statistics."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

CASES = {
    "BatchNorm1d": ((5,), (4, 5)),
    "BatchNorm1d of sequences": ((5,), (4, 5, 3)),
    "BatchNorm2d": ((3,), (4, 3, 2, 2)),
    "BatchNorm3d": ((3,), (2, 3, 2, 2, 2)),
    "InstanceNorm1d": ((5,), (4, 5, 3)),
    "InstanceNorm2d": ((3,), (4, 3, 2, 2)),
    "InstanceNorm3d": ((3,), (2, 3, 2, 2, 2)),
    "GroupNorm": ((2, 4), (3, 4, 5)),
}
AFFINE = ({}, {"affine": True}, {"affine": False})
TRACKING = ({"track_running_stats": True}, {"track_running_stats": False})


def options_of(name):
    return AFFINE if name == "GroupNorm" else AFFINE + TRACKING


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_norms_agree(name, training):
    arguments, shape = CASES[name]
    cls = name.split(" ", 1)[0]
    data = np.random.default_rng(0).normal(size=shape)
    for options in options_of(name):
        ours = getattr(ad.nn, cls)(*arguments, dtype=ad.float64, **options).train(training)
        theirs = getattr(torch.nn, cls)(*arguments, dtype=torch.float64, **options).train(training)
        assert repr(ours) == repr(theirs)
        x = ad.tensor(data, requires_grad=True)
        y = torch.tensor(data, requires_grad=True)
        for _ in range(2):
            a, b = ours(x), theirs(y)
        a.pow(2).cumsum(0).sum().backward()
        b.pow(2).cumsum(0).sum().backward()
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-8, atol=1e-10)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-10)


def test_a_batch_of_one_is_refused_in_training():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        ad.nn.BatchNorm1d(3)(ad.ones(1, 3))
    with pytest.raises(ValueError, match="expected 4D input"):
        ad.nn.BatchNorm2d(3)(ad.ones(1, 3))
