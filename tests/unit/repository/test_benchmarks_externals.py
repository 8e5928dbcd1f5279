"""The benchmark of externals: the libraries do the same work, and the marks are judged rightly."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from benchmarks import externals


@pytest.mark.parametrize("library", ["adjoint", "torch"])
@pytest.mark.parametrize("case", [c for c in externals.CASES if c.startswith(externals.SMALL)])
def test_libraries_do_the_same_work(library: str, case: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    expected = externals.numpy_work(case)
    work = getattr(externals, f"{library}_work")(case)
    assert expected is not None
    for a, b in zip(_tuple(work()), _tuple(expected()), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-15)


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_what_is_judged() -> None:
    large, small = externals.CASES[2], externals.CASES[0]
    found = {
        large: {"numpy": 1.0, "adjoint": 1.04},
        small: {"numpy": 1e-6, "adjoint": 12e-6, "torch": 1e-5},
        externals.MODEL: {"adjoint": 3.4},
    }
    judged = {row[0]: row[1:] for row in externals.rows(found)}
    assert judged[large] == ("1 s", "1.04 s", "–", "–", "+4.0 %", "≤ 5 %", "yes")
    assert judged[small] == ("1 us", "12 us", "10 us", "–", "11 us", "< 10 us", "NO")
    assert judged[externals.MODEL][-1] == "yes"
