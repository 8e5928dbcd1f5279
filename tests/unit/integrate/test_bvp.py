"""``solve_bvp``: values and derivatives against analytical answers, samples, failures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, jacfwd, vmap
from adjoint.integrate import solve_bvp
from adjoint.optimize import ConvergenceError

pytest.importorskip("scipy")
DOUBLE = {"dtype": ad.float64}
NODES = ad.linspace(0, 1, 9, **DOUBLE)


def middle(k: ad.Tensor) -> ad.Tensor:
    """Y(1/2) of y'' = k² y, y(0) = 1, y(1) = 0."""
    found = solve_bvp(
        lambda x, y: ad.stack([y[1], k * k * y[0]]),
        lambda a, b: ad.stack([a[0] - 1, b[0]]),
        NODES,
        ad.zeros(2, 9, **DOUBLE),
        tol=1e-7,
    )
    return found.sol(0.5)[0]


def exact_middle(k: ad.Tensor) -> ad.Tensor:
    return ad.sinh(k / 2) / ad.sinh(k)


def test_derivatives_to_second_order_and_of_samples() -> None:
    k = ad.tensor(2.0, **DOUBLE)
    of, exact = middle, exact_middle
    for _ in range(3):
        assert math.isclose(float(of(k)), float(exact(k)), rel_tol=1e-5)
        of, exact = grad(of), grad(exact)
    assert math.isclose(float(jacfwd(middle)(k)), float(grad(exact_middle)(k)), rel_tol=1e-6)
    samples = ad.tensor([1.0, 3.0], **DOUBLE)
    ad.testing.assert_close(vmap(middle)(samples), exact_middle(samples), rtol=1e-6, atol=0)
    ad.testing.assert_close(
        vmap(grad(middle))(samples), vmap(grad(exact_middle))(samples), rtol=1e-5, atol=0
    )


def test_unknown_parameters_and_structures() -> None:
    """The first eigenvalue of a string of length L, with its derivatives: p = pi / L."""

    def eigenvalue(length: ad.Tensor) -> ad.Tensor:
        def slope(x: ad.Tensor, y: dict[str, ad.Tensor], p: ad.Tensor) -> dict[str, ad.Tensor]:
            return {"u": length * y["v"], "v": -length * p[0] ** 2 * y["u"]}

        def ends(a: dict[str, ad.Tensor], b: dict[str, ad.Tensor], p: ad.Tensor) -> list[ad.Tensor]:
            return [a["u"], b["u"], a["v"] - p[0]]

        guess = {"u": ad.sin(3 * NODES), "v": ad.cos(3 * NODES)}
        found = solve_bvp(slope, ends, NODES, guess, p=[3.0], tol=1e-7)
        assert found.y["u"].shape == found.x.shape and found.success
        return found.p[0]

    at = ad.tensor(1.0, **DOUBLE)
    assert math.isclose(float(eigenvalue(at)), math.pi, rel_tol=1e-7)
    assert math.isclose(float(grad(eigenvalue)(at)), -math.pi, rel_tol=1e-7)
    assert math.isclose(float(grad(grad(eigenvalue))(at)), 2 * math.pi, rel_tol=1e-7)


def test_failures() -> None:
    def solve(slope: Any, ends: Any, **options: Any) -> Any:
        return solve_bvp(slope, ends, NODES, ad.zeros(2, 9, **DOUBLE), **options)

    def oscillator(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return ad.stack([y[1], -(math.pi**2) * y[0]])

    def both(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        return ad.stack([a[0], b[0] - 1])

    with pytest.raises(ConvergenceError, match=r"singular|not solved|no room"):
        solve(lambda x, y: ad.stack([y[1], 0 * y[0]]), lambda a, b: ad.stack([a[1], b[1] - 1]))
    with pytest.raises(ConvergenceError, match="no room for more nodes"):
        solve(lambda x, y: ad.stack([y[1], 1e6 * y[0]]), both, tol=1e-9, max_nodes=20)
    with pytest.raises(ConvergenceError, match="NaN or infinite for the guess"):
        solve(lambda x, y: ad.stack([y[1], y[0] / 0]), both)
    with pytest.raises(ValueError, match="bc gives 1 conditions where y has 2"):
        solve(oscillator, lambda a, b: a[:1])
    with pytest.raises(ValueError, match="must be a row of increasing numbers"):
        solve_bvp(oscillator, both, NODES.flip(0), ad.zeros(2, 9, **DOUBLE))
    with pytest.raises(ValueError, match="8 nodes in its last axis where x has 9"):
        solve_bvp(oscillator, both, NODES, ad.zeros(2, 8, **DOUBLE))
    with pytest.raises(NotImplementedError, match="no singular term"):
        solve(oscillator, both, S=ad.eye(2))


def test_arrays_and_lists_as_scipys_users_write_them() -> None:
    found = solve_bvp(
        lambda x, y: [y[1], -4 * y[0]],
        lambda a, b: [a[0], b[0] - 1],
        np.linspace(0, 1, 11),
        np.zeros((2, 11)),
        tol=1e-8,
    )
    assert found.sol(0.5)[0].item() == pytest.approx(math.sin(1) / math.sin(2), abs=1e-8)


def test_a_mesh_that_does_not_grow_is_a_part_of_a_program() -> None:
    mesh = ad.linspace(0, 1, 15, **DOUBLE)

    def of(a: ad.Tensor, max_nodes: int = 15) -> Any:
        found = solve_bvp(
            lambda x, y, p: ad.stack([y[1], -(p[0] ** 2) * y[0] + 0 * a]),
            lambda left, right, p: ad.stack([left[0], right[0], left[1] - p[0] * a]),
            mesh,
            ad.stack([ad.sin(3 * mesh), 3 * ad.cos(3 * mesh)]),
            p=[3.0],
            tol=1e-2,
            max_nodes=max_nodes,
        )
        return found.y, found.yp, found.p, found.sol(0.3), found.rms_residuals, found.niter

    compiled = ad.compile(of)
    for value in (1.0, 1.5):
        a, b = (ad.tensor(value, **DOUBLE, requires_grad=True) for _ in range(2))
        found, wanted = compiled(a), of(b)
        for x, y in zip(found[:5], wanted[:5], strict=True):
            assert ad.equal(x, y)
        assert int(found[5]) == wanted[5]
        slopes = [
            ad.autograd.grad(y[0].sum() + y[2].sum(), x, create_graph=True)[0]
            for x, y in ((a, found), (b, wanted))
        ]
        assert ad.equal(*slopes)
    assert len(compiled.programs) == 1 and not compiled.reasons
    with pytest.raises(ConvergenceError, match="no room for more nodes"):
        ad.compile(
            lambda k: (
                solve_bvp(
                    lambda x, y: ad.stack([y[1], k * y[0]]),
                    lambda left, right: ad.stack([left[0] - 1, right[0]]),
                    mesh,
                    ad.zeros(2, 15, **DOUBLE),
                    max_nodes=15,
                ).y
            )
        )(ad.tensor(1e4, **DOUBLE))


def test_programs_of_samples_and_tangents() -> None:
    mesh = ad.linspace(0, 1, 9, **DOUBLE)

    def of(a: ad.Tensor) -> Any:
        return solve_bvp(
            lambda x, y: ad.stack([y[1], a * y[0] + 0.2 * y[0] ** 3]),
            lambda left, right: ad.stack([left[0] - 1, right[0] - a]),
            mesh,
            ad.zeros(2, 9, **DOUBLE),
            max_nodes=9,
        ).y

    rows = ad.tensor([0.2, 0.4, 0.8], **DOUBLE)
    for f in (
        ad.vmap(of),
        lambda a: ad.func.jvp(of, (a[0],), (a[1],))[1],
        lambda a: ad.vmap(ad.func.grad(lambda b: of(b).sum()))(a),
    ):
        compiled = ad.compile(f)
        assert ad.equal(compiled(rows), f(rows))
        assert ad.equal(compiled(2 * rows), f(2 * rows))
        assert len(compiled.programs) == 1 and not compiled.reasons
