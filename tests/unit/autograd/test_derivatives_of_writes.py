"""Derivatives of ops that write a source into a copy, for inputs in any layout: both directions
against finite differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

Function = Callable[[ad.Tensor], ad.Tensor]


def differences(f: Function, x: ad.Tensor, step: float = 1e-6) -> np.ndarray[tuple[int, int]]:
    columns = []
    for i in range(x.numel()):
        d = ad.zeros(x.numel(), dtype=x.dtype)
        d[i] = step
        change = (f(x + d.view(x.shape)) - f(x - d.view(x.shape))) / (2 * step)
        columns.append(change.reshape(-1).numpy())
    return np.stack(columns, 1)


def check(f: Function, x: ad.Tensor) -> None:
    want = differences(f, x)
    for jacobian in (ad.func.jacrev, ad.func.jacfwd):
        got = jacobian(f)(x).reshape(-1, x.numel()).numpy()
        np.testing.assert_allclose(got, want, atol=1e-6, err_msg=jacobian.__name__)


LAYOUTS: dict[str, Function] = {
    "rows": lambda x: x.view(3, 4),
    "columns": lambda x: x.view(4, 3).t(),
    "part": lambda x: x.view(3, 4)[:, 1:],
    "offset": lambda x: x[2:].view(2, 5),
}
GEOMETRIES = [((2, 2), (1, 2), 0), ((2, 3), (3, 1), 1), ((2, 2), (1, 2), None), ((3,), (4,), 1)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("size", "stride", "offset"), GEOMETRIES)
def test_as_strided_scatter(
    layout: str, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None
) -> None:
    laid_out = LAYOUTS[layout]
    x, src = ad.rand(12, dtype=ad.float64), ad.rand(*size, dtype=ad.float64)
    check(lambda x: laid_out(x.clone()).as_strided_scatter(src, size, stride, offset), x)
    check(lambda src: laid_out(x.clone()).as_strided_scatter(src, size, stride, offset), src)


@pytest.mark.parametrize("op", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros_have_tangents(op: str, include: bool, zeros: int) -> None:
    """Also where several zeros meet: the first derivative is zero there, and known."""
    index = ad.tensor([0, 1, 0, 2, 2, 0])
    x, src = ad.rand(4, dtype=ad.float64), ad.rand(6, dtype=ad.float64)
    src[[0, 2, 5][:zeros]] = 0.0
    check(lambda x: getattr(x, op)(0, index, src, "prod", include_self=include), x)
    check(lambda src: getattr(x, op)(0, index, src, "prod", include_self=include), src)


def test_a_second_derivative_of_a_product_with_two_zeros_is_refused() -> None:
    x, src = ad.rand(2, dtype=ad.float64), ad.zeros(2, dtype=ad.float64)
    index = ad.tensor([0, 0])

    def total(src: ad.Tensor) -> ad.Tensor:
        return x.scatter_reduce(0, index, src, "prod").sum()

    for second in (ad.func.jacfwd(ad.func.jacfwd(total)), ad.func.hessian(total)):
        with pytest.raises(RuntimeError, match="more than one zero of src meets"):
            second(src)


def test_no_differences_are_the_input_alone() -> None:
    x = ad.tensor([1.0, 4.0, 9.0])
    assert ad.diff(x, 0, prepend=ad.zeros(1), append=ad.zeros(2)).tolist() == x.tolist()


def test_kl_div_of_negative_targets_is_nan() -> None:
    loss = F.kl_div(ad.zeros(3), ad.tensor([-0.5, 0.0, 0.5]), reduction="none")
    assert loss[0].isnan() and loss[1] == 0 and loss[2].item() == pytest.approx(-0.3465736)


def test_gradient_takes_no_spacing_for_one() -> None:
    x = ad.tensor([1.0, 4.0, 9.0])
    assert ad.gradient(x, spacing=None)[0].tolist() == ad.gradient(x)[0].tolist()


def test_normalisations_of_no_samples_are_empty() -> None:
    assert F.group_norm(ad.ones(0, 4, 2), 2).shape == (0, 4, 2)
    assert F.batch_norm(ad.ones(0, 3), None, None, training=True).shape == (0, 3)
