"""Derivatives of gamma and Dirichlet samples by their parameters."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import func

# (alpha, x, -(dF/dalpha) / (dF/dx)) of the gamma distribution, by differences of the incomplete
# gamma function.
GAMMA = [
    (0.1, 0.02, 0.713813957),
    (0.7, 1.3, 1.682042394),
    (2.5, 1.0, 0.650793860),
    (2.5, 6.0, 1.602986649),
    (40.0, 35.0, 0.938621020),
]
# (x, alpha, total, the same over 1 - x) of the beta distribution.
BETA = [
    (0.2, 0.5, 1.5, 0.804718956),
    (0.7, 0.5, 1.5, 1.664483072),
    (0.3, 3.0, 10.0, 0.109297126),
    (0.9, 12.0, 14.0, 0.076034501),
]


def columns(rows: list[Any]) -> list[Any]:
    return [ad.tensor(column, dtype=ad.float64) for column in zip(*rows, strict=True)]


def test_implicit_derivatives_are_those_of_the_distribution_functions() -> None:
    alpha, x, wanted = columns(GAMMA)
    ad.testing.assert_close(ad._standard_gamma_grad(alpha, x), wanted, rtol=1e-8, atol=0)
    x, alpha, total, wanted = columns(BETA)
    ad.testing.assert_close(ad._dirichlet_grad(x, alpha, total), wanted, rtol=1e-8, atol=0)


def test_limits_of_small_and_large_samples() -> None:
    """Where x is small, F is x^alpha / Gamma(alpha + 1); where alpha is large, x moves with it."""
    alpha = ad.tensor([1e-3, 0.5, 1.0], dtype=ad.float64)
    x = ad.tensor([1e-250, 1e-12, 1e-9], dtype=ad.float64)
    limit = -x / alpha * (x.log() - (alpha + 1).digamma())
    ad.testing.assert_close(ad._standard_gamma_grad(alpha, x), limit, rtol=1e-8, atol=0)
    large = ad.tensor([1e5, 1e8], dtype=ad.float64)
    ad.testing.assert_close(
        ad._standard_gamma_grad(large, large), ad.ones(2, dtype=ad.float64), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("alpha", [0.3, 1.0, 7.5])
def test_the_mean_moves_with_the_parameter(alpha: float) -> None:
    """E[x] = alpha, so the derivatives are 1 in the mean, within five standard errors."""
    ad.manual_seed(0)
    a = ad.full((20_000,), alpha, dtype=ad.float64).requires_grad_()
    ad._standard_gamma(a).sum().backward()
    assert abs(a.grad.mean().item() - 1) < 5 * a.grad.std().item() / a.numel() ** 0.5


def test_the_mean_of_a_dirichlet_sample_moves_as_it_should() -> None:
    ad.manual_seed(0)
    parameters = ad.tensor([2.0, 3.0, 0.5], dtype=ad.float64)
    a = parameters.expand(20_000, 3).clone().requires_grad_()
    ad._sample_dirichlet(a)[:, 0].sum().backward()
    total = 5.5
    wanted = ad.tensor([total - 2, -2, -2], dtype=ad.float64) / total**2
    error = a.grad.std(0) / a.shape[0] ** 0.5
    assert ((a.grad.mean(0) - wanted).abs() < 5 * error).all()


@pytest.mark.parametrize("draw", [ad._standard_gamma, ad._sample_dirichlet])
def test_forward_and_reverse_mode_agree(draw: Any) -> None:
    def f(a: Any) -> Any:
        ad.manual_seed(3)
        return draw(a)

    a = ad.tensor([[0.3, 2.0, 5.0], [1.0, 0.1, 30.0]], dtype=ad.float64)
    v, u = a.sin(), a.cos()
    (pulled,) = func.vjp(f, a)[1](u)
    moved = func.jvp(f, (a,), (v,))[1]
    assert (pulled * v).sum().item() == pytest.approx((moved * u).sum().item(), rel=1e-12)


def test_derivatives_of_samples_are_mapped() -> None:
    a = ad.tensor([[0.3, 2.0], [1.0, 0.1]], dtype=ad.float64)

    def total(b: Any) -> Any:
        return ad._standard_gamma(b).sum()

    ad.manual_seed(1)
    mapped = func.vmap(func.grad(total), randomness="different")(a)
    ad.manual_seed(1)
    assert mapped.tolist() == func.grad(total)(a).tolist()


def test_what_has_no_derivative_is_nan_and_a_second_one_is_refused() -> None:
    alpha = ad.tensor([-1.0, 1.0, float("nan")])
    assert ad._standard_gamma_grad(alpha, ad.tensor([1.0, -1.0, 1.0])).isnan().all()
    a = ad.ones(2, requires_grad=True)
    (g,) = ad.autograd.grad(ad._standard_gamma(a).sum(), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative of a gamma or Dirichlet"):
        g.sum().backward()
