"""gradient: finite differences on grids, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

GRID = np.random.default_rng(0).normal(size=(4, 5, 3))
AT = [np.array([0.0, 0.5, 2.0, 2.5]), np.array([1.0, 2.0, 4.0, 5.0, 9.0])]


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize(
    ("spacing", "steps"), [(1, [1]), (0.5, [0.5]), ([2.0, 3.0], [2, 3]), (AT, AT)]
)
def test_derivatives_are_numpys(spacing: Any, steps: list[Any], edge_order: int) -> None:
    given = [ad.tensor(x) for x in spacing] if spacing is AT else spacing
    found = ad.gradient(ad.tensor(GRID), spacing=given, dim=(0, 1), edge_order=edge_order)
    wanted = np.gradient(GRID, *steps, axis=(0, 1), edge_order=edge_order)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)


def test_all_axes_by_default_and_integers_are_divided() -> None:
    found = ad.gradient(ad.arange(12).view(3, 4))
    assert [x.tolist() for x in found] == [[[4.0] * 4] * 3, [[1.0] * 4] * 3]


def test_the_derivative_is_differentiable() -> None:
    x = ad.tensor(GRID, requires_grad=True)
    assert ad.autograd.gradcheck(lambda x: ad.gradient(x, dim=1, edge_order=2), (x[:2, :, 0],))


def test_what_does_not_fit_is_refused() -> None:
    x = ad.rand(3, 3)
    with pytest.raises(RuntimeError, match="expected spacing to be unspecified, a scalar, or a"):
        ad.gradient(x, spacing=[1.0])
    with pytest.raises(RuntimeError, match="the 3 coordinates along dimension 1"):
        ad.gradient(x, spacing=[ad.rand(3), ad.rand(2)])
    with pytest.raises(RuntimeError, match="at least edge_order"):
        ad.gradient(ad.rand(2), edge_order=2)
    with pytest.raises(RuntimeError, match="only supports edge_order=1 and edge_order=2"):
        ad.gradient(x, edge_order=3)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        ad.gradient(x, dim=(0, -2))
    with pytest.raises(IndexError, match="Dimension out of range"):
        ad.gradient(x, dim=2)
