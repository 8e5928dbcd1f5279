"""Derivatives of linear algebra against complex steps: Im f(a + i h v) / h, exact to rounding.

The references are NumPy's, written without conjugates, so that they are holomorphic; nothing of
them is ours. Equal eigenvalues and singular values are among the matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Array = np.ndarray[Any, Any]
STEP = 1e-30


def root(a: Array) -> Array:
    """The root of a.T @ a, whose eigenvalues are the singular values, by Denman and Beavers."""
    y, z = a.T @ a, np.eye(a.shape[1], dtype=a.dtype)
    for _ in range(20):
        y, z = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2
    return np.asarray(y)


def elimination(a: Array) -> Array:
    """The lower factor of a symmetric matrix."""
    n, low = len(a), np.zeros_like(a)
    for j in range(n):
        low[j, j] = np.sqrt(a[j, j] - (low[j, :j] ** 2).sum())
        for i in range(j + 1, n):
            low[i, j] = (a[i, j] - (low[i, :j] * low[j, :j]).sum()) / low[j, j]
    return low


def exponential(a: Array) -> Array:
    total = term = np.eye(len(a), dtype=a.dtype)
    for k in range(1, 30):
        term = term @ a / (16 * k)
        total = total + term
    return np.asarray(np.linalg.matrix_power(total, 16))


def pseudoinverse(a: Array) -> Array:
    return np.asarray(np.linalg.solve(a.T @ a, a.T))


def turned(w: Any, v: Any) -> Any:
    return (v * (w / 4).exp().unsqueeze(-2)) @ v.mT


def symmetric(a: Any) -> Any:
    return (a + a.mT) / 2


# Of a tensor, and of an array.
SQUARE: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "inv": (ad.linalg.inv, np.linalg.inv),
    "solve": (lambda a: ad.linalg.solve(a, a @ a), lambda a: a),
    "det": (ad.linalg.det, np.linalg.det),
    "slogdet": (lambda a: ad.linalg.slogdet(a)[1], lambda a: np.log(np.linalg.det(a) ** 2) / 2),
    "matrix_exp": (ad.linalg.matrix_exp, exponential),
    "matrix_power": (
        lambda a: ad.linalg.matrix_power(a, -3),
        lambda a: np.linalg.inv(a @ a @ a),
    ),
    "cholesky": (lambda a: ad.linalg.cholesky(a @ a.mT), lambda a: elimination(a @ a.T)),
    "eigh": (
        lambda a: turned(*ad.linalg.eigh(symmetric(a))),
        lambda a: exponential((a + a.T) / 8),
    ),
    "norm nuc": (lambda a: ad.linalg.matrix_norm(a, "nuc"), lambda a: np.trace(root(a))),
    "norm fro": (ad.linalg.matrix_norm, lambda a: np.sqrt((a * a).sum())),
}
TALL: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "pinv": (ad.linalg.pinv, pseudoinverse),
    "lstsq": (
        lambda a: ad.linalg.lstsq(a, a[:, :1].sin()).solution,
        lambda a: pseudoinverse(a) @ np.sin(a[:, :1]),
    ),
    "qr": (
        lambda a: (lambda q, r: q * r.diagonal())(*ad.linalg.qr(a)),
        lambda a: a @ np.linalg.inv(elimination(a.T @ a).T) * np.diag(elimination(a.T @ a)),
    ),
    "svdvals": (
        lambda a: (ad.linalg.svdvals(a) ** 3).sum(),
        lambda a: np.trace(root(a) @ root(a) @ root(a)),
    ),
}


def check(ours: Callable[[Any], Any], theirs: Callable[[Array], Any], a: Array) -> None:
    """Compare the tangent, and the gradient along the same direction."""
    rng = np.random.default_rng(1)
    v = rng.standard_normal(a.shape)
    wanted = np.imag(theirs(a + 1j * STEP * v)) / STEP
    value, tangent = ad.func.jvp(ours, (ad.from_numpy(a),), (ad.from_numpy(v),))
    size = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(tangent.numpy(), wanted, rtol=1e-10, atol=1e-11 * size)
    x = ad.from_numpy(a).requires_grad_()
    weights = rng.standard_normal(tuple(value.shape))
    (grad,) = ad.autograd.grad(ours(x), x, ad.from_numpy(np.asarray(weights)))
    np.testing.assert_allclose(
        (grad.numpy() * v).sum(), (weights * wanted).sum(), rtol=1e-10, atol=1e-10 * size
    )


@pytest.mark.parametrize("n", [2, 4, 18])
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    check(*SQUARE[name], rng.standard_normal((n, n)) / n + np.diag(1.0 + np.arange(n) / 2))


@pytest.mark.parametrize("name", TALL)
def test_tall_matrices(name: str) -> None:
    check(*TALL[name], np.random.default_rng(3).standard_normal((6, 3)))


def reflection(n: int) -> Array:
    """An orthogonal matrix: all singular values are equal, and all eigenvalues but one."""
    v = np.random.default_rng(n).standard_normal((n, 1))
    return np.asarray(np.eye(n) - 2 * v @ v.T / (v * v).sum())


# What goes through eigenvectors is refused.
@pytest.mark.parametrize("name", [n for n in SQUARE if n != "eigh"])
@pytest.mark.parametrize("kind", ["identity", "reflection"])
def test_matrices_with_equal_eigenvalues_and_singular_values(name: str, kind: str) -> None:
    check(*SQUARE[name], np.eye(3) if kind == "identity" else reflection(4))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinants_of_singular_matrices(rank: int) -> None:
    rng = np.random.default_rng(rank)
    a = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
    v = rng.standard_normal((4, 4))
    x = ad.from_numpy(a).requires_grad_()
    (g,) = ad.autograd.grad(ad.linalg.det(x), x, create_graph=True)
    (h,) = ad.autograd.grad((g * ad.from_numpy(v)).sum(), x)

    def cofactors(a: Array) -> Array:
        minors = [[np.delete(np.delete(a, i, 0), j, 1) for j in range(4)] for i in range(4)]
        signs = np.array([[(-1) ** (i + j) for j in range(4)] for i in range(4)])
        return np.asarray(signs * np.linalg.det(np.array(minors)))

    size = 1 + np.abs(a).max() ** 2
    np.testing.assert_allclose(g.detach().numpy(), cofactors(a), rtol=1e-9, atol=1e-12 * size)
    steps = np.imag(cofactors(a + 1j * STEP * v)) / STEP
    np.testing.assert_allclose(h.numpy(), steps, rtol=1e-9, atol=1e-12 * size)


def test_functions_of_equal_eigenvalues_that_are_smooth_have_their_derivative() -> None:
    """The trace of exp(A) at 2 I: any basis of eigenvectors gives it."""
    check(
        lambda a: (ad.linalg.eigvalsh(symmetric(a)) / 4).exp().sum(),
        lambda a: np.trace(exponential((a + a.T) / 8)),
        np.diag([2.0, 2.0, 2.0]),
    )


def test_the_nuclear_norm_of_equal_singular_values_has_its_derivative() -> None:
    check(*SQUARE["norm nuc"], np.diag([2.0, 2.0, 2.0]))


@pytest.mark.parametrize(
    "vectors", [lambda a: ad.linalg.eigh(a)[1], lambda a: ad.linalg.svd(a)[0]], ids=["eigh", "svd"]
)
def test_vectors_of_equal_values_say_that_they_have_no_derivative(vectors: Any) -> None:
    a = ad.eye(3, dtype=ad.float64, requires_grad=True)
    with pytest.raises(ad.linalg.LinAlgError, match="values 0 and 1 are equal"):
        (vectors(a) * ad.arange(9.0, dtype=ad.float64).view(3, 3)).sum().backward()
