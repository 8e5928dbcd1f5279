"""The steps that externals choose by themselves are nearly the best there are; as the docs say."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from tools import external_errors as errors


@pytest.mark.parametrize("case", errors.CASES, ids=lambda c: c.name)
def test_the_chosen_step_is_within_ten_times_of_the_best(case: errors.Case) -> None:
    row = errors.measure(case)
    assert 0 < row.chosen <= errors.FACTOR * row.best, row


def test_the_table_stands_in_the_docs() -> None:
    page = errors.PAGE.read_text(encoding="utf-8")
    shown = page.partition(errors.START)[2].partition(errors.END)[0]
    assert len(errors.CASES) == 10
    for case in errors.CASES:
        assert f"| {case.name} |" in shown


@pytest.mark.parametrize("seed", range(5))
def test_a_fast_wave_is_not_taken_for_noise(seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0.3, 1.9, 4)
    found = ad.external(lambda x: np.sin(1e6 * x)).jacobian(ad.tensor(x)).numpy()
    np.testing.assert_allclose(np.diag(found), 1e6 * np.cos(1e6 * x), atol=10)
