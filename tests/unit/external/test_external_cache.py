"""Results kept on disk by content."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import adjoint as ad

pytest.importorskip("joblib")


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


CALLS = []


def measured(x, k=2.0):
    CALLS.append(1)
    return np.sin(k * x)


@pytest.fixture(autouse=True)
def _forget_calls():
    CALLS.clear()


def gradient(f, x):
    x = float64(x, requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


def test_another_run_reads_what_was_evaluated(tmp_path):
    x = [0.3, 0.7]
    first = gradient(ad.external(measured, cache=tmp_path), x)
    made = len(CALLS)
    again = gradient(ad.external(measured, cache=tmp_path), x)
    np.testing.assert_array_equal(first, again)
    assert made > 6 and len(CALLS) == made + 1  # one looks whether it repeats


def test_other_content_is_evaluated(tmp_path):
    f = ad.external(measured, cache=tmp_path)
    assert f(float64(0.5)).item() == np.sin(1.0)
    assert f(float64(0.5)).item() == np.sin(1.0)
    assert len(CALLS) == 1
    assert f(float64(0.5), 3.0).item() == np.sin(1.5)
    assert f(float64(0.6)).item() == np.sin(1.2)
    assert f(ad.tensor(0.5)).dtype == ad.float32
    assert len(CALLS) == 4


def test_what_a_function_closes_over_is_content(tmp_path):
    def made(k):
        return ad.external(lambda x: k * x, cache=tmp_path)

    assert [made(k)(float64(2.0)).item() for k in (3.0, 4.0, 3.0)] == [6.0, 8.0, 6.0]
    with pytest.raises(ValueError, match=r"reads a generator.*\n.*pass it as an argument"):
        made(n for n in ())


def test_composites_workers_and_tensors_are_kept_too(tmp_path):
    f = ad.external(lambda p: {"y": p["a"] * p["b"]}, cache=tmp_path)
    point = {"a": float64(2.0), "b": 3.0}
    assert [f(point)["y"].item() for _ in range(2)] == [6.0, 6.0]
    g = ad.external(lambda t: t.sin(), arrays="tensor", cache=tmp_path)
    assert [g(float64(1.0)).item() for _ in range(2)] == [np.sin(1.0)] * 2
    h = ad.external(measured, cache=tmp_path, workers=1)
    try:
        np.testing.assert_allclose(gradient(h, [0.3, 0.7]), 2 * np.cos([0.6, 1.4]), rtol=1e-8)
    finally:
        h.close()
    before = len(CALLS)
    gradient(ad.external(measured, cache=tmp_path), [0.3, 0.7])
    assert len(CALLS) == before + 1  # what the worker has kept is read here


def test_a_program_is_known_by_its_files(tmp_path):
    script = tmp_path / "model.py"
    log, kept = tmp_path / "log", tmp_path / "kept"
    code = f"import sys; open({str(log)!r}, 'a').write('.')\n"
    code += "print(float(sys.stdin.read()) * {})\n"

    def run(factor):
        script.write_text(code.format(factor))
        program = ad.command([sys.executable, str(script)], format="text")
        return ad.external(program, cache=kept)(float64(2.0)).item()

    assert [run(2), run(2), run(5), run(2)] == [4.0, 4.0, 10.0, 4.0]
    assert log.read_text() == ".."


def test_modules_of_the_user_are_content(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def value(inner, outer):
        (tmp_path / "inner_part.py").write_text(f"def part(x):\n    return {inner} * x\n")
        (tmp_path / "outer_part.py").write_text(
            f"from inner_part import part\ndef whole(x):\n    return part(x) + {outer}\n"
        )
        for name in ("inner_part", "outer_part"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        outer_part = importlib.import_module("outer_part")
        f = ad.external(lambda x: CALLS.append(1) or outer_part.whole(x), cache=tmp_path / "kept")
        return f(float64(1.0)).item()

    assert [value(2, 10), value(2, 10), value(3, 10), value(3, 200)] == [12, 12, 13, 203]
    assert len(CALLS) == 3


SCALE = 2.0


def scaled(x):
    return x * SCALE


def test_what_changes_between_calls_is_content(tmp_path, monkeypatch):
    f = ad.external(scaled, cache=tmp_path)
    assert f(float64(1.0)).item() == 2
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    assert f(float64(1.0)).item() == 5
    monkeypatch.undo()
    assert f(float64(1.0)).item() == 2

    weights = np.array([1.0, 2.0])
    g = ad.external(lambda x: x * weights.sum(), cache=tmp_path)
    assert g(float64(1.0)).item() == 3
    weights[0] = 10
    assert g(float64(1.0)).item() == 12


class Counted:
    def __init__(self):
        self.count, self.factor = 0, 2.0

    def __call__(self, x):
        self.count += 1
        return self.factor * x


def test_what_a_function_changes_itself_is_not(tmp_path):
    counts = {"calls": 0}

    def counted(x):
        counts["calls"] += 1
        return 2 * x

    function = Counted()
    for f in (ad.external(function, cache=tmp_path), ad.external(counted, cache=tmp_path)):
        for value in (1.0, 2.0, 1.0, 2.0):
            assert f(float64(value)).item() == 2 * value
    assert (function.count, counts["calls"]) == (2, 2)
    function.factor = 3.0
    assert ad.external(function, cache=tmp_path)(float64(1.0)).item() == 3
