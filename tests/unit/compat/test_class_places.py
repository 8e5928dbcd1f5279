"""Under the name `torch`, classes say where PyTorch has them, and are found there."""

from __future__ import annotations

import subprocess
import sys

import adjoint as ad
from tests.children import ENVIRONMENT

PROGRAM = """
import importlib, io, pickle, sys
import torch, torch.distributions as D, torch.utils.data
from torch import nn
from adjoint._homes import _moved, home

model = nn.Sequential(nn.Linear(2, 2), nn.MultiheadAttention(4, 2), nn.InstanceNorm1d(3))
optimizer = torch.optim.Adam(model.parameters())
step = torch.optim.lr_scheduler.StepLR(optimizer, 2)
data = torch.utils.data.TensorDataset(torch.ones(2))
things = [*model, optimizer, step, data, D.Normal(0.0, 1.0), torch.device("cpu")]
things.append(torch.max(torch.ones(2), 0))
for thing in [*things, torch.ones(1)]:
    print(type(thing))
for cls in list(_moved):
    found = importlib.import_module(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part)
    assert found is cls, cls
assert home(nn.Linear) == "adjoint.nn.modules.linear"
for thing in [model, step, D.Normal(0.0, 1.0), torch.max(torch.ones(2), 0)]:
    assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
assert type(torch.load(file, weights_only=False)[1]) is nn.MultiheadAttention
compiled = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), fullgraph=True)
assert torch.equal(compiled(torch.ones(1, 2)), compiled(torch.ones(1, 2)))
class Mine(D.Normal):
    pass
assert type(Mine(0.0, 1.0).expand((2,))) is Mine
"""
PRINTED = """\
<class 'torch.nn.modules.linear.Linear'>
<class 'torch.nn.modules.activation.MultiheadAttention'>
<class 'torch.nn.modules.instancenorm.InstanceNorm1d'>
<class 'torch.optim.adam.Adam'>
<class 'torch.optim.lr_scheduler.StepLR'>
<class 'torch.utils.data.dataset.TensorDataset'>
<class 'torch.distributions.normal.Normal'>
<class 'torch.device'>
<class 'torch.return_types.max'>
<class 'torch.Tensor'>
"""


def test_classes_say_where_pytorch_has_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED


def test_without_the_name_they_are_adjoints() -> None:
    assert ad.nn.Linear.__module__ == "adjoint.nn.modules.linear"
