"""Banded systems: against SciPy, and their derivatives against dense ones."""

import numpy as np
import pytest

import adjoint as ad

scipy_linalg = pytest.importorskip("scipy.linalg")

rng = np.random.default_rng(0)


def dense(form, ab):
    """The whole matrix, by ordinary operations."""
    lower, upper = form
    n = ab.shape[-1]
    whole = ad.zeros(n, n, dtype=ab.dtype)
    for d in range(-lower, upper + 1):
        diagonal = ab[upper - d, max(d, 0) : n + min(d, 0)]
        whole = whole + ad.diag(diagonal, d)
    return whole


def problem(n, form, columns, dtype, dominant):
    ab = rng.normal(size=(sum(form) + 1, n)).astype(dtype)
    b = rng.normal(size=(n, columns)).astype(dtype)
    if dtype == np.complex128:
        ab, b = ab + 1j * rng.normal(size=ab.shape), b + 1j * rng.normal(size=b.shape)
    if dominant:
        ab[form[1]] += 7
    return ad.from_numpy(ab), ad.from_numpy(b)


FORMS = [(1, 1), (0, 0), (2, 1), (0, 3), (3, 0), (2, 2)]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dominant", [True, False])
def test_solutions_are_those_of_scipy(form, dtype, dominant):
    for n, columns in ((1, 1), (2, 1), (5, 2), (31, 1), (32, 3)):
        form = tuple(min(k, n - 1) for k in form)
        ab, b = problem(n, form, columns, dtype, dominant)
        x = ad.linalg.solve_banded(form, ab, b).numpy()
        expected = scipy_linalg.solve_banded(form, ab.numpy(), b.numpy())
        np.testing.assert_allclose(x, expected, rtol=1e-7, atol=1e-9 * abs(expected).max())


def test_wide_bands_are_solved_in_blocks():
    ab, b = problem(150, (40, 30), 2, np.float64, False)
    x = ad.linalg.solve_banded((40, 30), ab, b).numpy()
    expected = scipy_linalg.solve_banded((40, 30), ab.numpy(), b.numpy())
    np.testing.assert_allclose(x, expected, rtol=1e-7, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("form", [(1, 1), (2, 1)])
def test_derivatives_are_those_of_the_dense_solution(form, dtype):
    ab, b = problem(7, form, 2, dtype, True)
    ab.requires_grad_(), b.requires_grad_()

    def banded(ab, b):
        return ad.linalg.solve_banded(form, ab, b)

    def whole(ab, b):
        return ad.linalg.solve(dense(form, ab), b)

    def first(f):
        total = (f(ab, b).abs() ** 3).sum()
        return ad.autograd.grad(total, (ab, b), create_graph=True)

    def second(f):
        return ad.autograd.grad(sum((g.abs() ** 2).sum() for g in first(f)), (ab, b))

    for order in (first, second):
        for mine, expected in zip(order(banded), order(whole), strict=True):
            np.testing.assert_allclose(mine.detach(), expected.detach(), rtol=1e-9, atol=1e-10)
    assert ad.autograd.gradcheck(banded, (ab, b), check_forward_ad=True, check_batched_grad=True)


def test_samples_of_vmap_are_solved_together():
    ab = ad.from_numpy(rng.normal(size=(4, 3, 9)))
    b = ad.from_numpy(rng.normal(size=(4, 9)))

    def solve(ab, b):
        return ad.linalg.solve_banded((1, 1), ab, b)

    each = ad.stack([solve(*pair) for pair in zip(ab, b, strict=True)])
    assert ad.equal(ad.vmap(solve)(ab, b), each)
    slopes = ad.vmap(ad.func.grad(lambda ab, b: solve(ab, b).sum()))(ab, b)
    one = ad.func.grad(lambda ab: solve(ab, b[2]).sum())(ab[2])
    assert ad.allclose(slopes[2], one)
    shared = ad.vmap(lambda b: solve(ab[0], b))(b)
    assert ad.equal(shared[1], solve(ab[0], b[1]))


@pytest.mark.filterwarnings("error")
def test_loops_and_programs_solve_natively():
    ab = ad.stack([ad.full((20,), v, dtype=ad.float64) for v in (-1.0, 3.0, -1.0)])
    ab.requires_grad_()
    start = ad.linspace(0, 1, 20, dtype=ad.float64)

    def run(ab):
        end, _ = ad.scan(
            lambda u, _: (ad.linalg.solve_banded((1, 1), ab, u), None), start, length=5
        )
        return (end**2).sum()

    def plain(ab):
        u = start
        for _ in range(5):
            u = ad.linalg.solve_banded((1, 1), ab, u)
        return (u**2).sum()

    (expected,) = ad.autograd.grad(plain(ab), ab)
    compiled = ad.compile(run)
    for f in (run, compiled, compiled, compiled):
        (g,) = ad.autograd.grad(f(ab), ab)
        assert ad.allclose(g, expected, rtol=1e-13)


@pytest.mark.parametrize("lower", [True, False])
def test_half_of_a_hermitian_matrix_is_enough(lower):
    ab, b = problem(6, (0, 2), 1, np.complex128, False)
    main = 0 if lower else 2
    ab[main] = ab[main].real + 8
    x = ad.linalg.solveh_banded(ab, b, lower=lower)
    expected = scipy_linalg.solveh_banded(ab.numpy(), b.numpy(), lower=lower)
    np.testing.assert_allclose(x, expected, rtol=1e-10)


def test_errors_say_what_is_wrong():
    ab, b = ad.zeros(3, 4), ad.ones(4)
    with pytest.raises(ad.linalg.LinAlgError, match="singular"):
        ad.linalg.solve_banded((1, 1), ab, b)
    with pytest.raises(ad.linalg.LinAlgError, match="singular"):
        ad.linalg.solve_banded((2, 0), ab, b)
    with pytest.raises(ValueError, match="ab must have 4 rows"):
        ad.linalg.solve_banded((2, 1), ab, b)
    with pytest.raises(ValueError, match="order 4, but b has 5 rows"):
        ad.linalg.solve_banded((1, 1), ab, ad.ones(5))
    with pytest.raises(ValueError, match="no 3 diagonals below and -1"):
        ad.linalg.solve_banded((3, -1), ab, b)
    with pytest.raises(ValueError, match="two whole numbers"):
        ad.linalg.solve_banded(1, ab, b)
    with pytest.raises(ValueError, match="no 3 outer"):
        ad.linalg.solveh_banded(ad.ones(4, 2), ad.ones(2))
    with pytest.raises(ValueError, match="two axes"):
        ad.linalg.solveh_banded(ad.ones(4), ad.ones(4))
