"""Fourier transforms of memory that is not laid out as usual: every element counts once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import adjoint as ad

LAYOUTS = {
    "expanded along the axis": lambda x: x[:, :1].expand(-1, x.shape[1]),
    "expanded along another": lambda x: x[:1].expand(x.shape[0], -1),
    "one number": lambda x: x[:1, :1].expand(x.shape),
    "every other": lambda x: ad.cat([x, x], 1)[:, ::2],
    "turned": lambda x: x.clone().T.contiguous().T,
    "backwards": lambda x: x.flip(1).flip(1),
}
REAL = ("rfft", "ihfft", "fft", "ifft")
COMPLEX = ("fft", "ifft", "irfft", "hfft")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 2, 3, 6, 8, 64, 4098])
def test_layouts_do_not_matter(layout: str, n: int) -> None:
    ad.manual_seed(0)
    for dtype, names in ((ad.float64, REAL), (ad.complex128, COMPLEX)):
        x = LAYOUTS[layout](ad.randn(3, n, dtype=dtype))
        for name in names:
            if n == 1 and name in ("irfft", "hfft"):
                continue
            wanted = getattr(np.fft, name)(x.numpy())
            np.testing.assert_allclose(
                getattr(ad.fft, name)(x).resolve_conj().numpy(), wanted, atol=1e-9
            )


@pytest.mark.parametrize(
    ("name", "dim"),
    list(itertools.product(["irfft", "hfft", "irfft2", "hfft2", "rfft", "fft"], [0, 1])),
)
def test_gradients_of_sums_are_those_of_weighted_sums(name: str, dim: int) -> None:
    # The gradient of a sum is one number, expanded; that of a weighted sum is an array.
    dims = {"dim": (0, 1)} if name.endswith("2") else {"dim": dim}
    found = []
    for weight in (1.0, None):
        x = ad.arange(12.0, dtype=ad.float64).reshape(3, 4).requires_grad_()
        y = getattr(ad.fft, name)(x, **dims)
        y = y.real if y.is_complex() else y
        (y.sum() if weight else (y * ad.ones_like(y)).sum()).backward()
        found.append(x.grad)
    np.testing.assert_allclose(*(g.numpy() for g in found), atol=1e-12)
