"""Programs in files: another process replays from its first call on, and bad files are errors."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from adjoint.compiler import CompileWarning, _saved, load
from adjoint.serialization import LoadError
from tests.children import ENVIRONMENT

MODEL = """
import adjoint as ad
step = 0.01
def slope(s):
    return ad.stack([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 2.5 * s[2]])
def lorenz(s, n):
    for _ in range(n):
        k = slope(s)
        s = s + 0.5 * step * (k + slope(s + step * k))
    return {"end": s, "steps": n}
def gradient(function):
    s = ad.tensor([1.0, 1.0, 1.0], dtype=ad.float64, requires_grad=True)
    end = function(s, 60)["end"]
    end.square().sum().backward()
    return end.tolist(), s.grad.tolist()
"""


@pytest.fixture(autouse=True)
def roll_short_programs() -> Iterator[None]:
    before = _core._roll_from(200)
    yield
    _core._roll_from(before)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "saved_model.py").write_text(MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    module = importlib.import_module("saved_model")
    return importlib.reload(module)


def saved(model: Any, path: Path) -> Any:
    fast = ad.compile(model.lorenz)
    found = [model.gradient(fast) for _ in range(2)]
    fast.save(path)
    return found[0]


def test_another_process_replays_from_its_first_call_on(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "lorenz.safetensors"
    expected = saved(model, path)
    script = textwrap.dedent(
        f"""
        import sys, warnings
        warnings.simplefilter("error")
        sys.path.insert(0, {str(tmp_path)!r})
        import saved_model, adjoint as ad
        fast = ad.compiler.load({str(path)!r}, saved_model.lorenz)
        runs = 0
        def watch(frame, event, _):
            global runs
            runs += event == "call" and frame.f_code is saved_model.lorenz.__code__
        sys.setprofile(watch)
        found = saved_model.gradient(fast)
        sys.setprofile(None)
        names = [row[0] for row in fast.programs[0].program.code()]
        print([found, runs, any(name.startswith("loop") for name in names)])
        """
    )
    found = subprocess.run(
        [sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(found.replace("True", "true").replace("(", "[").replace(")", "]")) == [
        [*expected],
        0,
        True,
    ]


@pytest.mark.parametrize("change", ["a number", "a function", "the function itself"])
def test_a_function_that_is_not_what_it_was_is_recorded_anew(
    change: str, model: Any, tmp_path: Path
) -> None:
    path = tmp_path / "lorenz.safetensors"
    saved(model, path)
    function: Callable[..., Any] = model.lorenz
    if change == "a number":
        model.step = 0.02
    elif change == "a function":
        model.slope = lambda s: -s
    else:
        namespace: dict[str, Any] = vars(model)
        exec(MODEL.replace("0.5 * step", "step"), namespace)
        function = model.lorenz
    with pytest.warns(CompileWarning, match="is not used, and recorded anew"):
        again = load(path, function)
    assert model.gradient(again) == model.gradient(function)


def test_a_loaded_program_looks_at_what_the_function_reads(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "lorenz.safetensors"
    expected = saved(model, path)
    again = load(path, model.lorenz)
    assert model.gradient(again) == expected
    model.step = 0.02
    assert model.gradient(again) == model.gradient(model.lorenz) != expected


def test_what_is_not_data_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    weight = ad.ones(3, requires_grad=True)
    reads = ad.compile(lambda x: x * weight)
    with pytest.raises(ValueError, match="call it first"):
        reads.save(tmp_path / "p.safetensors")
    reads(ad.ones(3)).sum().backward()
    with pytest.raises(ValueError, match="pass them as arguments"):
        reads.save(tmp_path / "p.safetensors")


@pytest.mark.parametrize("name", ["version", "instruction_set", "python"])
def test_programs_of_other_surroundings_are_refused(
    name: str, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lorenz.safetensors"
    here = _saved._surroundings()
    monkeypatch.setattr(_saved, "_surroundings", lambda: {**here, name: "another"})
    saved(model, path)
    monkeypatch.undo()
    with pytest.raises(LoadError, match="were written with"):
        load(path, model.lorenz)


def test_damaged_files_are_errors(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "lorenz.safetensors"
    saved(model, path)
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 5]) + whole[at + 1 :])
        with pytest.raises(LoadError):
            load(path, model.lorenz)
        path.write_bytes(whole[:at])
        with pytest.raises(LoadError):
            load(path, model.lorenz)


def _break(name: str, call: Any) -> None:
    code = call["forward"]["dict"]["code"]
    loop = next(one["dict"]["loop"]["dict"] for one in code if one["dict"]["kind"] == "loop")
    if name == "an op":
        next(one for one in code if one["dict"]["kind"] == "apply")["dict"]["op"] = "launch"
    elif name == "a register":
        code[0]["dict"]["reads"][0] = 9999
    elif name == "a shape":
        call["forward"]["dict"]["registers"][0][0][0][0] = 5
    elif name == "a count":
        loop["count"] = 2
    elif name == "a row":
        loop["written"][-2] += 8
    elif name == "a result":
        loop["taken"].clear()
    elif name == "an output":
        call["differentiable"] = [7]


@pytest.mark.parametrize(
    "what", ["an op", "a register", "a shape", "a count", "a row", "a result", "an output"]
)
def test_wrong_programs_are_errors(what: str, model: Any, tmp_path: Path) -> None:
    path = tmp_path / "lorenz.safetensors"
    saved(model, path)
    file = ad.load(path)
    data = json.loads(file["programs"])
    _break(what, data["calls"][0])
    file["programs"] = json.dumps(data)
    file["digest"] = _saved._digest(file["programs"], file["constants"])
    ad.save(file, path)
    with pytest.raises(LoadError, match="a program is damaged"):
        load(path, model.lorenz)
