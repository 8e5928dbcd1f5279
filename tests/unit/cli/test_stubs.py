"""`adjoint stubs --as-torch`: type checkers find adjoint's types under torch's names."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.cli._torch_names import names_in

SCRIPTS = Path(__file__).parents[2] / "programs" / "scripts"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typings")
    assert main(["stubs", "--as-torch", "--out", str(folder)]) == 0
    return folder


@functools.cache
def names_of(stub: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def stub_of(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    for candidate in (path / "__init__.pyi", path.with_suffix(".pyi")):
        if candidate.exists():
            return candidate
    return None


def test_every_name_of_the_programs_is_in_a_stub(stubs: Path) -> None:
    for script in sorted(SCRIPTS.glob("*.py")):
        for use in names_in(script.read_text(), str(script)):
            if use.name.startswith("torch.Tensor."):
                continue
            module, rest = "torch", use.name.split(".")[1:]
            while rest and stub_of(stubs, f"{module}.{rest[0]}"):
                module, rest = f"{module}.{rest[0]}", rest[1:]
            found = stub_of(stubs, module)
            assert found is not None
            assert not rest or rest[0] in names_of(found), (script.name, use.name)


def test_types_lead_to_adjoint(stubs: Path) -> None:
    top = (stubs / "torch" / "__init__.pyi").read_text()
    assert "from adjoint import Tensor as Tensor\n" in top
    assert "from torch import nn as nn\n" in top
    assert "from adjoint import sin as sin\n" in top
    layers = (stubs / "torch" / "nn" / "__init__.pyi").read_text()
    assert "from adjoint.nn import Linear as Linear\n" in layers


@pytest.mark.slow
def test_mypy_finds_every_attribute(stubs: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    package = Path(sys.modules["adjoint"].__file__ or "").parents[1]
    scripts = [str(SCRIPTS / f"{name}.py") for name in ("mlp_adam", "vae", "char_gpt", "lstm_sine")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--follow-imports=silent",
            "--cache-dir",
            str(tmp_path),
            *scripts,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": f"{stubs}{os.pathsep}{package}"},
        cwd=tmp_path,
    )
    assert "attr-defined" not in done.stdout and "import" not in done.stdout, done.stdout
