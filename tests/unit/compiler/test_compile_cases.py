"""Compiled functions and the state around them: the tables of compile_cases, case by case."""

from __future__ import annotations

import pytest

from tests.unit.compiler.cases import (
    absence,
    again,
    arguments,
    c_code,
    capture,
    classes,
    effects,
    externals,
    gradients,
    identity,
    modules,
    outside,
    reaching,
    recorded,
    reflection,
    results,
    scopes,
    unnamed,
    values,
    which_tensor,
    writes,
)
from tests.unit.compiler.cases.harness import Case, check

MODULES = (
    *(which_tensor, again, capture, absence, c_code, outside, effects, externals, recorded),
    *(arguments, reflection, classes, scopes, modules, values, writes, results, identity),
    *(reaching, gradients, unnamed),
)
CASES = [
    pytest.param(case, id=f"{module.table.kind}: {case.name}".replace("_", " "))
    for module in MODULES
    for case in module.table.cases
]


@pytest.mark.parametrize("case", CASES)
def test_compiled_is_eager_or_refused_with_the_line(case: Case) -> None:
    check(case)


def test_there_are_cases_of_every_kind() -> None:
    assert len(CASES) >= 300
    assert all(len(module.table.cases) >= 20 for module in MODULES)
    names = [case.id for case in CASES]
    assert len(set(names)) == len(names)
