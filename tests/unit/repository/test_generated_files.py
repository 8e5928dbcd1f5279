"""Files that are generated are what their generators write today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import to_library
from tools.gen_stubs import result_type

ROOT = Path(__file__).resolve().parents[3]


def test_type_stubs_are_what_the_generator_writes() -> None:
    command = [sys.executable, "-m", "tools.gen_stubs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def kind(result: Any) -> str:
    return "tuple" if isinstance(result, tuple) else type(result).__name__


def kind_of_type(written: str) -> str:
    if written.startswith(("tuple", "_")) and written != "_bool":  # a named tuple: _values_indices
        return "tuple"
    return written.removeprefix("_")


NAMES = {name for row in ad._core.op_table() for name in (row["name"], *row["aliases"])}


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if not op.path and n in NAMES])
def test_the_stub_says_whether_a_result_is_a_tensor_or_a_tuple(name: str) -> None:
    op = OPS[name]
    dtype = op.letters("fibc")[0]
    rows = [r for r in ad._core.op_table() if name in (r["name"], *r["aliases"]) and r["function"]]
    stated = {kind_of_type(result_type(row)) for row in rows}
    for sample in op.samples if "Any" not in stated else []:
        call = sample.draw(dtype, name).map(lambda a: to_library(a, ad, dtype))
        assert kind(op.function(ad)(*call.args, **call.kwargs)) in stated, str(sample)
