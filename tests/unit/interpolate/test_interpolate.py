"""Interpolation beside SciPy's, and its derivatives by values, nodes and places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import interpolate
from adjoint.interpolate import CubicSpline, PchipInterpolator, RegularGridInterpolator, interp1d

scipy = pytest.importorskip("scipy.interpolate")
DOUBLE = {"dtype": ad.float64}


def samples(n: int, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(n)
    x = np.sort(rng.random(n)) + 0.1 * np.arange(n)
    places = [rng.uniform(x[0] - 0.1, x[-1] + 0.1, 8), x[:1], x[-1:]]
    return x, rng.random(shape), np.concatenate(places)


@pytest.mark.parametrize("n", [2, 3, 4, 9, 200])
@pytest.mark.parametrize("ends", ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.2))])
def test_cubic_splines(n: int, ends: Any) -> None:
    for shape, axis in (((n,), 0), ((n, 3), 0), ((2, n), 1)):
        x, y, at = samples(n, shape)
        theirs = ends
        if not isinstance(ends, str):
            rest = np.delete(shape, axis)
            theirs = tuple((order, np.full(rest, value)) for order, value in ends)
        wanted, got = scipy.CubicSpline(x, y, axis, theirs), CubicSpline(x, y, axis, ends)
        for nu in range(4):
            np.testing.assert_allclose(got(at, nu).numpy(), wanted(at, nu), rtol=1e-7, atol=1e-7)
        inner = x[0] + 0.01, x[-1] - 0.01
        np.testing.assert_allclose(
            got.integrate(*inner).numpy(), wanted.integrate(*inner), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("n", [4, 9, 50])
def test_periodic_splines(n: int) -> None:
    x, y, at = samples(n, (n, 2))
    y[-1] = y[0]
    at = at.clip(x[0], x[-1])
    wanted = scipy.CubicSpline(x, y, 0, "periodic")(at)
    np.testing.assert_allclose(CubicSpline(x, y, 0, "periodic")(at).numpy(), wanted, rtol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_monotone_cubics_and_lines(n: int) -> None:
    for shape, axis in (((n,), 0), ((2, n), 1)):
        x, y, at = samples(n, shape)
        got = PchipInterpolator(x, y, axis)(at).numpy()
        np.testing.assert_allclose(got, scipy.PchipInterpolator(x, y, axis)(at), rtol=1e-9)
        for kind in ("linear", "nearest", "previous", "next"):
            got = interp1d(x, y, kind, axis, fill_value=7.0)(at).numpy()
            outside = {"bounds_error": False, "fill_value": 7.0}
            wanted = scipy.interp1d(x, y, kind, axis, **outside)(at)
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
    table = at.reshape(2, 5)
    got = interp1d(x, y, fill_value="extrapolate")(table).numpy()
    np.testing.assert_allclose(got, scipy.interp1d(x, y, fill_value="extrapolate")(table))
    np.testing.assert_allclose(interpolate.interp(at, x, y[0]).numpy(), np.interp(at, x, y[0]))


@pytest.mark.parametrize("sizes", [(4,), (4, 5), (4, 5, 6)])
@pytest.mark.parametrize("method", ["linear", "slinear", "nearest", "pchip", "cubic"])
def test_grids(sizes: tuple[int, ...], method: str) -> None:
    rng = np.random.default_rng(len(sizes))
    points = [np.sort(rng.random(k)) + np.arange(k) for k in sizes]
    at = np.stack([rng.uniform(p[0], p[-1], 7) for p in points], -1)
    for more in ((), (2,)):
        values = rng.random((*sizes, *more))
        got = RegularGridInterpolator(points, values, method)(at).numpy()
        wanted = scipy.RegularGridInterpolator(points, values, method)(at)
        # SciPy's cubics are found by iteration.
        np.testing.assert_allclose(got, wanted, rtol=1e-4 if method == "cubic" else 1e-9)
        fill = RegularGridInterpolator(points, values, bounds_error=False, fill_value=3.0)
        assert (fill(at + 20) == 3).all()
        with pytest.raises(ValueError, match="lies outside of the grid"):
            RegularGridInterpolator(points, values)(at + 20)


def test_derivatives_on_grids() -> None:
    x, y = np.linspace(0, 2, 7), np.linspace(0, 1, 6)
    grid = RegularGridInterpolator((x, y), np.sin(x)[:, None] * np.exp(y), "cubic")
    at = ad.tensor([[0.3, 0.7], [1.4, 0.2]], **DOUBLE)
    for k, nu in enumerate(((1, 0), (0, 1))):
        wanted = ad.func.vmap(ad.func.jacrev(lambda place: grid(place)[0]))(at)[:, k]
        ad.testing.assert_close(grid(at, nu=nu), wanted)
    with pytest.raises(ValueError, match="nu is for 'cubic' and 'pchip', not 'slinear'"):
        grid(at, "slinear", nu=(1, 0))
    with pytest.raises(ValueError, match="an order for each of 2 axes"):
        grid(at, nu=(1,))
    with pytest.raises(ValueError, match="method is one of"):
        grid(at, "quintic")


@pytest.mark.parametrize("n", [5, 140])
def test_derivatives(n: int) -> None:
    ad.manual_seed(0)
    x = (ad.arange(n, **DOUBLE) + 0.5 * ad.rand(n, **DOUBLE)).requires_grad_()
    y = ad.rand(n, **DOUBLE).requires_grad_()
    at = ad.tensor([0.7, 1.9, 3.2], **DOUBLE, requires_grad=True)
    for made in (
        lambda x, y, at: CubicSpline(x, y)(at),
        lambda x, y, at: CubicSpline(x, y).integrate(at[0], at[1]),
        lambda x, y, at: PchipInterpolator(x, y)(at),
        lambda x, y, at: interp1d(x, y)(at),
        lambda x, y, at: RegularGridInterpolator(
            (x, [0.0, 1.0]), ad.stack([y, 2 * y], -1), bounds_error=False, fill_value=None
        )(ad.stack([at, at * 0.3], -1)),
    ):
        assert ad.autograd.gradcheck(made, (x, y, at), fast_mode=n > 10)
        if n < 10:
            assert ad.autograd.gradgradcheck(made, (x, y, at))


def test_samples_of_vmap() -> None:
    x, heights = ad.linspace(0, 3, 5, **DOUBLE), ad.rand(4, 5, **DOUBLE)
    at = 3 * ad.rand(4, 2, **DOUBLE)

    def value(y: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        return CubicSpline(x, y)(at) + interp1d(x, y)(at)

    wanted = ad.stack([value(y, p) for y, p in zip(heights, at, strict=True)])
    ad.testing.assert_close(ad.func.vmap(value)(heights, at), wanted)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"must increase, but x\[2\] = 1 follows x\[1\] = 2"):
        CubicSpline([0.0, 2.0, 1.0], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="as many as there are nodes"):
        PchipInterpolator([0.0, 1.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="outside of the nodes"):
        interp1d([0.0, 1.0], [1.0, 2.0])(3.0)
    with pytest.raises(ValueError, match="no kind 'quintic'"):
        interp1d([0.0, 1.0], [1.0, 2.0], "quintic")
    with pytest.raises(ValueError, match="places have 3 coordinates, the grid 2 axes"):
        RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0]), ad.zeros(2, 2))(ad.zeros(1, 3))


def test_compiled_splines_look_at_their_nodes_in_each_run() -> None:
    run = ad.compile(lambda x, y, at: CubicSpline(x, y)(at).sum(), fullgraph=True)
    x = ad.linspace(0, 1, 5, **DOUBLE)
    y = (x**2).requires_grad_()
    at = ad.tensor([0.3, 0.7], **DOUBLE)
    for _ in range(3):
        value = run(x, y, at)
        eager = CubicSpline(x, y)(at).sum()
        assert ad.equal(value, eager)
        assert ad.equal(ad.autograd.grad(value, y)[0], ad.autograd.grad(eager, y)[0])
    with pytest.raises(ValueError, match=r"must increase, but x\[1\] = 0.75 follows x\[0\] = 1"):
        run(x.flip(0), y, at)
    assert ad.equal(run(x, y, at), eager) and len(run.programs) == 1


def _grid(x: ad.Tensor, y: ad.Tensor, at: ad.Tensor, **options: Any) -> ad.Tensor:
    both = ad.stack([at, at]).reshape(1, 2)
    return RegularGridInterpolator((x, x), y[:, None] * y, **options)(both)


@pytest.mark.parametrize(
    "curve",
    [
        lambda x, y, at: CubicSpline(x, y)(at),
        lambda x, y, at: CubicSpline(x, y).integrate(0.1, at),
        lambda x, y, at: PchipInterpolator(x, y)(at),
        lambda x, y, at: interp1d(x, y)(at),
        lambda x, y, at: interp1d(x, y, kind="nearest")(at),
        lambda x, y, at: interpolate.interp(at, x, y),
        _grid,
        lambda x, y, at: _grid(x, y, at, method="cubic"),
    ],
)
def test_a_single_place_is_a_part_of_a_program(curve: Any) -> None:
    x = ad.linspace(0, 2, 6, dtype=ad.float64)
    y, at = ad.cos(x), ad.tensor(0.77, dtype=ad.float64)
    run = ad.compile(lambda y, at: curve(x, y, at).sum(), fullgraph=True)
    for place in (at, at + 0.4):
        assert run(y, place) == curve(x, y, place).sum()
    rows = ad.stack([at, at + 0.4])
    each = ad.stack([curve(x, y, place).sum() for place in rows])
    many = ad.compile(ad.vmap(lambda at: curve(x, y, at).sum()), fullgraph=True)
    ad.testing.assert_close(many(rows), each)
    total, _ = ad.scan(lambda sum, at: (sum + curve(x, y, at).sum(), None), 0 * at, rows)
    ad.testing.assert_close(total, each.sum())


def test_a_program_refuses_places_outside_of_the_nodes() -> None:
    x = ad.linspace(0, 2, 6, dtype=ad.float64)
    for curve in (lambda at: interp1d(x, x)(at), lambda at: _grid(x, x, at)):
        run = ad.compile(curve, fullgraph=True)
        run(ad.tensor(0.5, dtype=ad.float64))
        with pytest.raises(ValueError, match="outside of the"):
            run(ad.tensor(2.5, dtype=ad.float64))


def test_coefficients_are_scipys() -> None:
    x = np.linspace(0, 3, 7)
    ours = CubicSpline(x, np.sin(x)).c.numpy()
    np.testing.assert_allclose(ours, scipy.CubicSpline(x, np.sin(x)).c, atol=1e-12)
