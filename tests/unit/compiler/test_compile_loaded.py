"""Programs of files that read tensors by themselves: another process has others in their places."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import CompileWarning, load
from tests.children import ENVIRONMENT

LAYERS = """
import dataclasses, functools
import adjoint as ad
from adjoint import nn
ad.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.norm, self.scale = nn.LayerNorm(8), 1.5
        self.shifts = [ad.ones(3), ad.full((3,), 2.0)]
    def forward(self, x):
        return self.last(self.norm(ad.relu(self.first(x)))) * self.scale - self.shifts[1]
@dataclasses.dataclass
class Point:
    x: object
    y: object
net, data = Net(), ad.linspace(-1, 1, 8).reshape(2, 4)
twins = [ad.tensor([2.0, 3.0]).requires_grad_(), ad.tensor([5.0, 7.0]).requires_grad_()]
def loss(x, target):
    return nn.functional.cross_entropy(net(x), target)
def nested(batch, *, weight=1.0):
    return {"loss": nn.functional.mse_loss(net(batch["x"]), batch["y"][0]) * weight}
def given(model, x):
    return model(x).sum()
def product(point):
    return (point.x * point.y).sum()
def closure():
    a, b = twins
    return lambda x: (a * x - b).square().sum()
calls = {
    "loss": (loss, lambda: ((data, ad.tensor([0, 2])), {})),
    "nested": (nested, lambda: (({"x": data, "y": [ad.ones(2, 3)]},), {"weight": 0.5})),
    "given": (given, lambda: ((net, data), {})),
    "product": (product, lambda: ((Point(data, data.clone().requires_grad_()),), {})),
    "module": (net, lambda: ((data,), {})),
    "partial": (
        functools.partial(nested, weight=0.25), lambda: (({"x": data, "y": [data[:, 1:]]},), {})
    ),
    "closure": (closure(), lambda: ((ad.tensor([1.0, 2.0]),), {})),
    "twice": (lambda a, b: (a * b).sum(), lambda: ((data, data), {})),
    "factors": (
        lambda a: ad.linalg.solve(ad.linalg.cholesky(a), a).sum(), lambda: ((ad.eye(3) * 2,), {})
    ),
}
def run(function, name):
    leaves = [*net.parameters(), *twins]
    for p in leaves:
        p.grad = None
    args, kwargs = calls[name][1]()
    found = function(*args, **kwargs)
    found = found["loss"] if isinstance(found, dict) else found
    if found.requires_grad:
        found.sum().backward()
    return found.tolist(), [p.grad.tolist() for p in leaves if p.grad is not None]
"""

SECOND = """
import json, sys, warnings
warnings.simplefilter("error")
import saved_layers, adjoint as ad
from adjoint.compiler._compile import Compiled
recorded = []
record = Compiled._record
def watched(self, *args):
    recorded.append(self)
    return record(self, *args)
Compiled._record = watched
found = {}
for name, (function, _) in saved_layers.calls.items():
    fast = ad.compiler.load(f"{name}.safetensors", function)
    found[name] = saved_layers.run(fast, name)
print(json.dumps([found, len(recorded)]))
"""


def test_closures_modules_and_nested_arguments_are_found_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saved_layers.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("saved_layers")
    copy.copy(module.net.first)  # for which Python leaves a note in its class
    expected = {}
    for name, (function, _) in module.calls.items():
        compiled = ad.compiler.Compiled(function)
        expected[name] = module.run(compiled, name)
        assert module.run(compiled, name) == expected[name]
        compiled.save(tmp_path / f"{name}.safetensors")
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": "7"}
    environment["PYTHONPATH"] = f"{tmp_path}:{environment.get('PYTHONPATH', '')}"
    told = subprocess.run(
        [sys.executable, "-c", SECOND],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == [json.loads(json.dumps(expected)), 0]


def test_parameters_of_another_shape_and_other_modules_are_recorded_anew(tmp_path: Path) -> None:
    def using(layer: Any) -> Any:
        return lambda x: layer(x).sum()

    path = tmp_path / "layer.safetensors"
    fast = ad.compile(using(ad.nn.Linear(2, 3)))
    fast(ad.ones(1, 2)).backward()
    fast.save(path)
    other = ad.nn.Linear(2, 3)
    assert len(load(path, using(other)).programs) == 1
    for layer in (ad.nn.Linear(2, 4), ad.nn.Linear(2, 3, bias=False), ad.nn.Identity()):
        with pytest.warns(CompileWarning, match="is not used, and recorded anew"):
            again = load(path, using(layer))
        assert again(ad.ones(1, 2)).item() == layer(ad.ones(1, 2)).sum().item()


def test_programs_are_for_the_default_dtype_and_the_autocast_of_their_recording(
    tmp_path: Path,
) -> None:
    path, x = tmp_path / "modes.safetensors", ad.linspace(-1, 1, 9).reshape(3, 3)

    def product(x: Any) -> Any:
        return x @ x + ad.ones(3)

    fast = ad.compile(product)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        low = fast(x)
    whole = fast(x)
    fast.save(path)
    before = ad.get_default_dtype()
    try:
        ad.set_default_dtype(ad.float64)
        again = load(path, product)
        assert again(x).dtype is product(x).dtype is ad.float64
    finally:
        ad.set_default_dtype(before)
    again = load(path, product)
    again._record = None  # type: ignore[assignment,method-assign]
    with ad.autocast("cpu", dtype=ad.bfloat16):
        assert ad.equal(again(x), low)
    assert ad.equal(again(x), whole)
    assert again(x).dtype is ad.float32
