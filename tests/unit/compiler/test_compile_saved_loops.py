"""Programs with loops inside, in files: another process gives the same bits, no file a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from adjoint.compiler import CompileWarning, load
from adjoint.compiler._fingerprints import content_print
from adjoint.serialization import LoadError
from tests.children import ENVIRONMENT
from tests.unit.compiler import saved_loops

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def roll_short_programs() -> Iterator[None]:
    before = _core._roll_from(200)
    yield
    _core._roll_from(before)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What this process has computed, and what another one has with the saved programs."""
    folder = tmp_path_factory.mktemp("saved_loops")
    (folder / "states").mkdir()
    saved_loops.FOLDER, before = str(folder / "states"), saved_loops.FOLDER
    here = {}
    rolled = _core._roll_from(200)
    for function in saved_loops.KINDS:
        fast = ad.compile(function, fullgraph=True)
        saved_loops.outcome(fast, saved_loops.INPUTS[0])
        fast.save(folder / f"{function.__name__}.safetensors")
        first = saved_loops.outcome(fast, saved_loops.INPUTS[0])
        here[function.__name__] = [first, *saved_loops.outcomes(fast, function)]
    _core._roll_from(rolled)
    environment = {**ENVIRONMENT, "SAVED_LOOPS_FOLDER": saved_loops.FOLDER}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), ENVIRONMENT.get("PYTHONPATH", "")])
    script = f"from tests.unit.compiler import saved_loops; saved_loops.main({str(folder)!r})"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    saved_loops.FOLDER = before
    assert told.returncode == 0, told.stderr
    assert not [*(folder / "states").iterdir()]
    return here, json.loads(told.stdout)


@pytest.mark.parametrize("name", [function.__name__ for function in saved_loops.KINDS])
def test_another_process_gives_the_same_bits_and_runs_no_python(name: str, elsewhere: Any) -> None:
    here, there = elsewhere
    runs, programs, *found, second = there[name]
    assert (runs, programs) == (0, 1)
    *expected, wanted = json.loads(json.dumps(here[name]))
    assert found == expected
    # Python runs for these, and the order of its sums depends on which other graphs are alive.
    ours, theirs = (ad.tensor(some, dtype=ad.float64) for some in (wanted, second))
    assert ad.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def _saved(function: Any, path: Path, *args: Any) -> Any:
    fast = ad.compile(function, fullgraph=True)
    for _ in range(2):
        saved_loops.outcome(fast, saved_loops.INPUTS[0])
    fast.save(path)
    return fast


def test_a_step_that_is_not_what_it_was_is_recorded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.safetensors"
    _saved(saved_loops.few_states, path)
    other = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    monkeypatch.setattr(saved_loops, "W", other)
    with pytest.warns(CompileWarning, match="is not used, and recorded anew"):
        load(path, saved_loops.few_states)


def test_programs_that_keep_states_in_a_folder_that_is_gone_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "states").mkdir()
    monkeypatch.setattr(saved_loops, "FOLDER", str(tmp_path / "states"))
    path = tmp_path / "p.safetensors"
    _saved(saved_loops.on_disk, path)
    (tmp_path / "states").rmdir()
    with pytest.warns(CompileWarning, match="there is no such folder"):
        again = load(path, saved_loops.on_disk)
    assert not again.programs


def _external(x: Any) -> Any:
    return saved_loops_external(x) * 2


saved_loops_external = ad.external(lambda x: x * 2)


def test_what_is_python_of_a_process_is_refused_with_words_that_say_what_to_do(
    tmp_path: Path,
) -> None:
    folder = str(tmp_path)

    def resumed(x: Any) -> Any:
        return ad.scan(
            lambda c, _: (c.cos(), None), x, length=9, snapshots=2, disk=folder, resume=True
        )[0]

    def checkpointed(x: Any) -> Any:
        return ad.utils.checkpoint.checkpoint(lambda x: x.sin(), x, use_reentrant=False)

    for function, why in (
        (checkpointed, "hooks or custom functions.*fix: leave these outside"),
        (_external, "calls an external.*fix: call the external outside"),
        (resumed, "resume=True.*fix: save it without that"),
    ):
        fast = ad.compile(function)
        for _ in range(2):
            fast(ad.ones(3, dtype=ad.float64, requires_grad=True)).sum().backward()
        with pytest.raises(ValueError, match=why):
            fast.save(tmp_path / "p.safetensors")


def test_a_backward_pass_that_was_never_run_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    fast = ad.compile(saved_loops.nested)
    x = ad.tensor([0.3, 0.2, -0.1], dtype=ad.float64, requires_grad=True)
    alive = fast(x)  # which has not been differentiated
    fast.save(path)
    again = load(path, saved_loops.nested)
    assert again.programs[0].backward is not None
    ours = saved_loops.outcome(again, saved_loops.INPUTS[1])
    assert ours == saved_loops.outcome(saved_loops.nested, saved_loops.INPUTS[1])
    del alive


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    _saved(saved_loops.nested, path)
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 5]) + whole[at + 1 :])
        with pytest.raises(LoadError):
            load(path, saved_loops.nested)
        path.write_bytes(whole[:at])
        with pytest.raises(LoadError):
            load(path, saved_loops.nested)


def _hosts(data: Any) -> Iterator[Any]:
    """What programs of a file call, wherever they stand."""
    if isinstance(data, dict):
        if "loop" in data and "body" in data["loop"]:
            yield data["loop"]
        for part in data.values():
            yield from _hosts(part)
    elif isinstance(data, list):
        for part in data:
            yield from _hosts(part)


def _break(what: str, call: Any) -> None:
    step, program = call["loops"][0], call["loops"][0]["programs"][0]
    backward = next(one for one in _hosts(call["backward"]) if "arriving" in one)
    loop = backward["body"]["scan"]
    if what == "a later step":
        inner = next(_hosts(call["loops"][0])) if [*_hosts(call["loops"][0])] else None
        (inner["body"]["scan"] if inner else loop)["step"] = len(call["loops"])
    elif what == "a missing program":
        call["loops"][loop["step"]]["programs"].clear()
    elif what == "a source":
        step["sources"][0] = 99
    elif what == "a kept value":
        program["kept"] = [0 for _ in program["kept"]] + [0]
    elif what == "a held tensor":
        step["held"].append(7)
    elif what == "the kept ones":
        step["kept"] += 1
    elif what == "the carry":
        step["carries"] += 1
    elif what == "a number of steps":
        loop["count"] = 10**6
    elif what == "no steps":
        loop["count"] = 0
    elif what == "a length":
        loop["count"] = None
    elif what == "a memory":
        loop["memory"][0] = 0
    elif what == "a gradient":
        backward["arriving"][0] = not backward["arriving"][0]
    elif what == "what is given":
        backward["gives"][0] = 99
    elif what == "another kind":
        backward["body"]["until"] = backward["body"].pop("scan")


@pytest.mark.parametrize(
    "what",
    [
        "a later step",
        "a missing program",
        "a source",
        "a kept value",
        "a held tensor",
        "the kept ones",
        "the carry",
        "a number of steps",
        "no steps",
        "a length",
        "a memory",
        "a gradient",
        "what is given",
        "another kind",
    ],
)
def test_wrong_loops_are_errors(what: str, tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    _saved(saved_loops.scanned, path)
    file = ad.load(path)
    data = json.loads(file["programs"])
    _break(what, data["calls"][0])
    file["programs"] = json.dumps(data)
    file["digest"] = content_print(file["programs"], file["constants"])
    ad.save(file, path)
    with pytest.raises(LoadError, match="a program is damaged"):
        load(path, saved_loops.scanned)


def test_loops_as_deep_as_one_likes_are_saved(tmp_path: Path) -> None:
    def deep(c: Any, depth: int) -> Any:
        if depth == 0:
            return (c * saved_loops.W).sin()
        return ad.scan(lambda c, _: (deep(c, depth - 1), None), c, length=4, snapshots=2)[0]

    def function(x: Any) -> Any:
        return deep(x, 5)

    path = tmp_path / "p.safetensors"
    fast = _saved(function, path)
    start, again = saved_loops.INPUTS[1], load(path, function)
    ours, theirs = (saved_loops.outcome(f, start) for f in (again, fast))
    assert ours == theirs


def test_structures_and_modules_as_arguments_find_their_loops(tmp_path: Path) -> None:
    def function(model: Any, batch: Any) -> Any:
        return ad.scan(lambda c, row: (model(c) + row, c.sum()), batch["x"], batch["rows"])

    def slopes(f: Any, model: Any) -> list[Any]:
        last, ys = f(model, {"x": ad.ones(3), "rows": ad.linspace(0, 1, 6)})
        return ad.autograd.grad(last.sum() + ys.sum(), [*model.parameters()])

    path = tmp_path / "p.safetensors"
    fast, model = ad.compile(function, fullgraph=True), ad.nn.Linear(3, 3)
    slopes(fast, model)
    fast.save(path)
    again = load(path, function)
    for one in (model, ad.nn.Linear(3, 3)):
        assert all(map(ad.equal, slopes(again, one), slopes(function, one)))
