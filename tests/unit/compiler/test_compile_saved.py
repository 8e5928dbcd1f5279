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
from adjoint.compiler import CompileWarning, _exchange, _saved, load
from adjoint.compiler._fingerprints import content_print
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


def test_programs_that_no_other_process_could_find_again_are_refused(tmp_path: Path) -> None:
    weight = ad.ones(3, requires_grad=True)
    optimiser = ad.optim.SGD([weight], lr=0.1)

    def steps(x: Any) -> Any:
        loss = (x * weight).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    among = {ad.nn.Parameter(ad.ones(3)), ad.nn.Parameter(ad.zeros(3))}
    cases = [
        (steps, "it runs an optimiser"),
        (lambda x: sum((x * p).sum() for p in among), "whose order is another in each process"),
    ]
    for function, why in cases:
        compiled = ad.compile(function)
        with pytest.raises(ValueError, match="call it first"):
            compiled.save(tmp_path / "p.safetensors")
        for _ in range(2):
            compiled(ad.ones(3))
        with pytest.raises(ValueError, match=why):
            compiled.save(tmp_path / "p.safetensors")
    assert not (tmp_path / "p.safetensors").exists()


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
        call["forward"]["dict"]["forms"][0][0][0] = 5
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
    file["digest"] = content_print(file["programs"], file["constants"])
    ad.save(file, path)
    with pytest.raises(LoadError, match="a program is damaged"):
        load(path, model.lorenz)


def _instruction(op: str, args: list[Any], reads: list[int], writes: list[int]) -> Any:
    return {"kind": "apply", "op": op, "args": args, "reads": reads, "writes": writes}


def _built(code: list[Any], registers: list[Any], inputs: list[int], outputs: list[int]) -> Any:
    facts: dict[str, Any] = {name: [0] * len(inputs) for name in ("requires_grad", "leaf", "views")}
    facts["default_dtype"] = ad.float32
    tables = _exchange.Tables([])
    forms = [[form, 0, root] for root, form in enumerate(registers)]
    data = {"registers": forms, "code": code, "inputs": inputs, "outputs": outputs, **facts}
    return _exchange.Described(_exchange._encode(data, tables), tables).build()


def test_what_an_op_trusts_is_compared_before_it_runs() -> None:
    vector, index, long = ([3], [1], ad.float64), ([3], [1], ad.int64), ([5], [1], ad.float64)
    scatter = [_instruction("_scatter_along", [None, None, 5, 0], [0, 0, -1, 1, 1, -1], [2])]
    program = _built(scatter, [vector, index, long], [0, 1], [2])
    rows = [ad.ones(3, dtype=ad.float64), ad.tensor([0, 4, 4])]
    assert program.run(rows)[0].tolist() == [1, 0, 0, 0, 2]
    with pytest.raises(IndexError, match="out of bounds"):
        program.run([rows[0], ad.tensor([0, 5, 1])])
    short = ([2], [1], ad.int64)
    with pytest.raises(ValueError, match="do not fit one another"):
        _built(scatter, [vector, short, long], [0, 1], [2])
    living = ad.eye(2).to_sparse()  # a recording gives up ops on sparse tensors, and stops checking
    with pytest.raises(ValueError, match="trusts its operands"):
        _built([_instruction("_coalesce", [None], [0, 0, -1], [1])], [vector, vector], [0], [1])
    del living


def test_damaged_programs_crash_nothing() -> None:
    command = [sys.executable, "-m", "tools.fuzz_programs", "--rounds", "150", "--seed", "3"]
    told = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "refused" in told.stdout and "ran" in told.stdout


def test_operations_on_thousands_of_values_are_loaded(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return ad.cat([row.roll(1) for row in x.unbind(0)])

    fast, x = ad.compile(function), ad.arange(8000.0).reshape(4000, 2)
    expected = fast(x)
    fast.save(tmp_path / "file")
    assert ad.equal(ad.compiler.load(tmp_path / "file", function)(x), expected)
    assert ad.equal(ad.compiler.load(tmp_path / "file", function)(-x), -expected)
