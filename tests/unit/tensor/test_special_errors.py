"""The table of errors of the special functions in docs/reference/accuracy.md is true."""

from __future__ import annotations

import re

import pytest

import adjoint as ad
from tools.special_errors import PAGE, cases, measure

ROW = re.compile(r"^\| `([\w(, )]+)` \| [^|]* \| ([\d.]+) \| ([\d.]+) \|", re.M)
STATED = {name: (float(a), float(b)) for name, a, b in ROW.findall(PAGE.read_text())}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_errors_are_not_above_those_of_the_table(case: object) -> None:
    single, double = STATED[case.name]  # type: ignore[attr-defined]
    for dtype, stated in ((ad.float32, single), (ad.float64, double)):
        found, at = measure(case, dtype, 10, seed=1)  # type: ignore[arg-type]
        # Other points than the table's, which may be a little worse.
        assert found <= 1.5 * stated + 0.5, f"{found} ulp at {at}"
