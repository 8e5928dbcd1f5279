"""`adjoint scan`: the names of torch that files use, found without running them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.cli._torch_names import names_in
from adjoint.cli.scan import is_there, scan

SOURCE = """
import torch, torch.nn as nn
import torch.nn.functional as F
import numpy as np
from torch.optim import Adam as A, Lion
try:
    from torch.foo import bar
except ImportError:
    bar = None
def f(x: torch.Tensor, nn2, w: "torch.Tensor"):
    y = x.sin().symeig()
    np.linalg.eig(3)
    return F.relux(x), nn2.foo, w.q_scale
z = torch.randn(3).frobnicate()
if hasattr(torch, "xyz"):
    torch_like = getattr(torch, "abc", None)
G = torch.nn.functional
G.nothing(1)
def g(F):
    return F.not_ours
class Net(nn.Module):
    def forward(self, x):
        return self.layers.weight, torch.relu(x)
for nn in range(3):
    nn.real
"""


def found(source: str = SOURCE) -> dict[str, bool]:
    return {use.name: use.expected for use in names_in(source, "file.py")}


def test_imports_aliases_chains_and_methods_are_found() -> None:
    names = found()
    expected = {
        "torch",
        "torch.nn",
        "torch.nn.functional",
        "torch.optim.Adam",
        "torch.optim.Lion",
        "torch.foo.bar",
        "torch.Tensor",
        "torch.Tensor.sin",
        "torch.Tensor.symeig",
        "torch.Tensor.q_scale",
        "torch.Tensor.frobnicate",
        "torch.nn.functional.relux",
        "torch.nn.functional.nothing",
        "torch.randn",
        "torch.xyz",
        "torch.abc",
        "torch.nn.Module",
        "torch.relu",
    }
    assert set(names) == expected


def test_what_a_program_can_do_without_is_not_needed() -> None:
    names = found()
    assert names["torch.foo.bar"] and names["torch.xyz"] and names["torch.abc"]
    assert not names["torch.optim.Lion"] and not names["torch.nn.functional.relux"]


def test_lines_are_those_of_the_file() -> None:
    lines = {use.name: use.line for use in names_in(SOURCE, "file.py")}
    assert SOURCE.splitlines()[lines["torch.nn.functional.relux"] - 1].strip().startswith("return")


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("torch", True),
        ("torch.__version__", True),
        ("torch.nn.functional.relu", True),
        ("torch.nn.Module.forward", True),
        ("torch.float32.itemsize", True),
        ("torch.Tensor.symeig", False),
        ("torch.Tensor.sin", True),
        ("torch.nn.functional.relux", False),
        ("torch.nothing.at.all", False),
        ("torch.backends.cudnn.benchmark", True),
        ("torch.utils.data.DataLoader", True),
        ("functorch.vmap", True),
        ("torch.pi.anything.behind.a.value", True),
    ],
)
def test_what_is_there(name: str, there: bool) -> None:
    assert is_there(name) == there


def test_the_report_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "code"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "a.py").write_text(SOURCE)
    (folder / ".hidden" / "b.py").write_text("import torch.nowhere")
    (folder / "notes.txt").write_text("import torch.nowhere")
    assert main(["scan", str(folder)]) == 1
    out = capsys.readouterr().out
    assert f"{folder / 'a.py'}:5" in out and "torch.optim.Lion" in out and "nowhere" not in out
    assert "torch.Tensor.symeig  (fix: use linalg.eigh(x))" in out
    assert out.splitlines()[-1].startswith("1 files, 18 names of torch: ")
    assert main(["scan", "--missing", str(folder)]) == 1
    assert "torch.randn" not in capsys.readouterr().out
    (folder / "a.py").write_text("import torch\nx = torch.ones(3).sin()\n")
    assert main(["scan", str(folder)]) == 0


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("import torch\ntorch.sinn(torch.ones(2))\n")
    assert main(["scan", "--json", str(tmp_path)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["files"], report["missing"]) == (1, 1)
    row = next(row for row in report["names"] if row["name"] == "torch.sinn")
    assert row["places"] == [f"{tmp_path / 'a.py'}:2"] and "torch.sin" in row["hint"]


def test_what_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("def (\n")
    assert main(["scan", str(tmp_path), str(tmp_path / "nowhere")]) == 2
    errors = capsys.readouterr().err
    assert "cannot read" in errors and "no such file or folder" in errors


def test_the_programs_of_this_repository_find_their_names() -> None:
    scripts = Path(__file__).parents[2] / "programs" / "scripts"
    report = scan([str(scripts)])
    absent = {name.name for name in report.names if name.needed}
    assert report.files > 40 and len(report.names) > 200
    assert not absent
