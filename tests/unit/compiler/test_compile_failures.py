"""Calls whose results nobody wants still raise what they raise for some values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

nan = float("nan")
GOOD = ad.tensor([[2.0, 0.5], [0.5, 1.0]])
SINGULAR = ad.zeros(2, 2)
HOLED = ad.tensor([[nan, 0.0], [0.0, 1.0]])

CALLS: dict[str, tuple[Callable[[Any], Any], ad.Tensor]] = {
    "cholesky": (ad.linalg.cholesky, -GOOD),
    "old cholesky": (ad.cholesky, -GOOD),
    "cholesky_ex": (lambda x: ad.linalg.cholesky_ex(x, check_errors=True), -GOOD),
    "inv": (ad.linalg.inv, SINGULAR),
    "inverse": (ad.inverse, SINGULAR),
    "inv_ex": (lambda x: ad.linalg.inv_ex(x, check_errors=True), SINGULAR),
    "solve": (lambda x: ad.linalg.solve(x, GOOD), SINGULAR),
    "ldl_factor": (ad.linalg.ldl_factor, SINGULAR),
    "eigh": (ad.linalg.eigh, HOLED),
    "eigvalsh": (ad.linalg.eigvalsh, HOLED),
    "svd": (ad.linalg.svd, HOLED),
    "svdvals": (ad.linalg.svdvals, HOLED),
    "eig": (ad.linalg.eig, HOLED),
    "eigvals": (ad.linalg.eigvals, HOLED),
    "pinv": (ad.linalg.pinv, HOLED),
    "lstsq": (lambda x: ad.linalg.lstsq(x, GOOD, driver="gelsd"), HOLED),
    "histc": (lambda x: ad.histc(x), HOLED),
    "binary_cross_entropy": (
        lambda x: ad.nn.functional.binary_cross_entropy(x * 0.1, ad.ones(2, 2)),
        GOOD * 100,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_unused_result_raises_all_the_same(name: str) -> None:
    call, bad = CALLS[name]

    def f(x: ad.Tensor) -> ad.Tensor:
        call(x)
        return x + 1

    with pytest.raises(RuntimeError) as eager:
        f(bad)
    g = ad.compile(f)
    g(GOOD), g(GOOD)
    assert len(g.programs) == 1
    with pytest.raises(type(eager.value)):
        g(bad)
