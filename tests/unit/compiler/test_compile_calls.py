"""Calls of compiled functions: how often they are recorded, copies of them, programs as text.

Read next: test_compile.py, what programs compute.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import CompileError, CompileWarning
from adjoint.compiler._call_kinds import LIMIT, OBJECTS
from adjoint.compiler._listing import _registers, listing


def scaled(x: Any, factor: Any) -> Any:
    return x * factor


def reads(x: Any, factor: Any) -> Any:
    return x * x.sum().item() * factor


def test_numbers_that_keep_changing_end_in_eager_execution() -> None:
    f = ad.compile(scaled)
    x = ad.ones(2)
    for k in range(LIMIT):
        f(x, 0.5 * k)
    reason = r"with 7\.5, and is now called with 8\.0; fix: .*tensor"
    with pytest.warns(CompileWarning, match=reason):
        assert ad.equal(f(x, 8.0), 8 * x)
    assert ad.equal(f(x, 9.0), 9 * x)  # told once
    assert ad.equal(f(ad.ones(3), 0.5), ad.full((3,), 0.5))  # known numbers are recorded still
    assert len(f.programs) == LIMIT + 1
    f(x, 3)  # an int is something else
    assert len(f.programs) == LIMIT + 2


def test_equal_values_are_one_recording() -> None:
    f = ad.compile(scaled, fullgraph=True)
    x = ad.ones(2)
    for _ in range(3):
        for number in (2.0, 0.0, -0.0, float("nan"), 1j, np.float64(2.0), np.float32(2.0), 2):
            assert ad.equal(f(x, number).nan_to_num(), scaled(x, number).nan_to_num())
    assert len(f.programs) == 8
    assert f(x, -0.0).signbit().all() and not f(x, 0.0).signbit().any()
    parts = ad.compile(lambda x, where, steps: x[where] * len(steps), fullgraph=True)
    for _ in range(3):
        parts(x, slice(0, 1), range(3))
        parts(x, slice(0, 2), range(4))
    assert len(parts.programs) == 2


def test_objects_that_keep_changing_end_in_eager_execution() -> None:
    f = ad.compile(lambda x, g: g(x))
    x = ad.ones(2)
    for _ in range(OBJECTS):
        f(x, lambda x: 2 * x)
    with pytest.warns(CompileWarning, match=f"{OBJECTS} objects .* a function"):
        f(x, lambda x: 2 * x)
    assert ad.equal(f(x, lambda x: 3 * x), 3 * x)
    assert len(f.programs) == OBJECTS


def test_as_tensors_changing_numbers_are_one_recording() -> None:
    f = ad.compile(scaled, fullgraph=True)
    for k in range(2 * LIMIT):
        assert ad.equal(f(ad.ones(2), ad.tensor(0.5 * k)), ad.full((2,), 0.5 * k))
    assert len(f.programs) == 1


def test_a_reason_is_told_once_whatever_the_numbers() -> None:
    f = ad.compile(reads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(LIMIT + 3):
            f(ad.ones(2), k)
    assert [str(one.message).split(";")[0] for one in caught] == [
        "reads runs eagerly: item() reads a value"
    ]
    assert caught[0].filename == __file__


def test_a_warning_about_a_module_stands_at_the_users_line() -> None:
    class Reads(ad.nn.Module):
        def forward(self, x: Any) -> Any:
            return reads(x, 1)

    with pytest.warns(CompileWarning) as caught:
        ad.compile(Reads())(ad.ones(2))
    assert caught[0].filename == __file__


def test_fullgraph_raises_each_time() -> None:
    f = ad.compile(reads, fullgraph=True)
    for _ in range(2):
        with pytest.raises(CompileError, match="item"):
            f(ad.ones(2), 1)
    g = ad.compile(scaled, fullgraph=True)
    for k in range(LIMIT):
        g(ad.ones(2), k)
    for _ in range(2):
        with pytest.raises(CompileError, match="values of its arguments"):
            g(ad.ones(2), LIMIT)


def test_copies_record_anew() -> None:
    f = ad.compile(scaled)
    x = ad.ones(2)
    f(x, 2)
    again = pickle.loads(pickle.dumps(f))
    assert not again.programs
    assert ad.equal(again(x, 2), f(x, 2))
    net = ad.compile(ad.nn.Linear(2, 2))
    net(x).sum().backward()
    other = copy.deepcopy(net)
    with ad.no_grad():
        other.weight.zero_()
        other.bias.zero_()
    y = other(x)
    assert ad.equal(y, ad.zeros(2))
    assert not ad.equal(net(x), ad.zeros(2))
    assert len(net.programs) == len(other.programs) == 1


class Code:
    """Stands for a program: what the passes leave of one is not the business of these tests."""

    def __init__(self, count: int) -> None:
        rows = [("add", k == 0, [k, 0], [k + 1], f"model.py:{k}   x + y") for k in range(count)]
        self.rows = [*rows, ("set grad", False, [1], [], "")]

    def code(self) -> list[Any]:
        return self.rows


def test_programs_as_text() -> None:
    assert listing(Code(1), None).splitlines() == [
        "forward: 2 instructions",
        "  %1 = add(%0, %0) in place   model.py:0  x + y",
        "  set grad(%1)",
    ]
    lines = listing(Code(40), Code(2)).splitlines()
    assert lines[0] == "forward: 41 instructions"
    assert lines[21] == "  ... 17 more"
    assert lines[22].startswith("  %38 = add(%37, %0)")
    assert lines[26] == "backward: 3 instructions"
    f = ad.compile(lambda x: (x @ x).sum())
    y = f(ad.ones(2, 2, requires_grad=True))
    text = str(f.programs[0])
    assert y.item() == 8
    assert text.startswith("forward: ") and "\nbackward: " in text
    assert "test_compile_calls.py" in text


def test_many_registers_are_cut_short() -> None:
    assert _registers([]) == ""
    assert _registers([0, 1]) == "%0, %1"
    assert _registers(list(range(10))) == "%0, %1, %2, ... 6 more ..., %9"


def test_a_cancelled_asynchronous_exception_does_not_hold_a_recording_up() -> None:
    import ctypes
    import gc
    import threading

    def callback(phase: str, info: Any) -> None:
        pass

    # CPython 3.11 goes on to look for it.
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
    gc.callbacks.append(callback)
    try:
        g = ad.compile(lambda x: (x * 2).sum(), fullgraph=True)
        assert [g(ad.ones(3)).item() for _ in range(2)] == [6.0, 6.0]
    finally:
        gc.callbacks.remove(callback)


def test_a_replay_that_raises_where_the_function_does_not_is_told() -> None:
    def f(x: Any, at: Any) -> Any:
        try:
            return x[at] * 2
        except IndexError:
            return x * 0

    g = ad.compile(f)
    x = ad.arange(3.0)
    for _ in range(2):
        assert g(x, ad.tensor([1])).item() == 2.0
    with pytest.warns(CompileWarning, match="a replay raised IndexError"):
        assert ad.equal(g(x, ad.tensor([7])), ad.zeros(3))
    assert g(x, ad.tensor([2])).item() == 4.0
