"""A few eigenvalues of sparse matrices: against all of the dense ones."""

import numpy as np
import pytest

import adjoint as ad

scipy_sparse = pytest.importorskip("scipy.sparse")

linalg = ad.sparse.linalg
rng = np.random.default_rng(3)
n = 14
_random = scipy_sparse.random_array((n, n), density=0.1, rng=rng)
STIFF = scipy_sparse.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(n, n))
STIFF = ad.sparse.matrix((STIFF + 0.3 * (_random + _random.T)).tocsr())
MASS = scipy_sparse.diags_array([1.0, 4, 1], offsets=[-1, 0, 1], shape=(n, n)) / 6
MASS = ad.sparse.matrix(MASS.tocsr())
WEIGHTS = ad.from_numpy(rng.normal(size=n))


def matrices(stiff, mass):
    return [(a + a.T) * 0.5 for a in (STIFF.with_values(stiff), MASS.with_values(mass))]


def total(w, v):
    """Of values and vectors, whatever their signs."""
    return (w**2).sum() + (v[:, 0] @ WEIGHTS) ** 2 * ((v**2) * WEIGHTS[:, None]).sum()


def dense(stiff, mass, which):
    a, m = (t.to_dense() for t in matrices(stiff, mass))
    inverse = ad.linalg.inv(ad.linalg.cholesky(m))
    w, q = ad.linalg.eigh(inverse @ a @ inverse.mT)
    return total(w[which], (inverse.mT @ q)[:, which])


CASES = {
    "smallest": (lambda a, m: linalg.eigsh(a, 3, m, which="SA"), [0, 1, 2]),
    "next to": (lambda a, m: linalg.eigsh(a, 2, m, sigma=0.0), [0, 1]),
    "largest": (lambda a, m: linalg.eigsh(a, 2, m, which="LA"), [-2, -1]),
    "lobpcg": (lambda a, m: linalg.lobpcg(a, np.eye(n, 2), m, largest=False), [0, 1]),
}


@pytest.mark.parametrize("case", list(CASES))
def test_pairs_have_derivatives_in_every_mode(case):
    find, which = CASES[case]
    stiff, mass = STIFF.values.clone().requires_grad_(), MASS.values.clone().requires_grad_()

    def sparse(stiff, mass):
        return total(*find(*matrices(stiff, mass)))

    def whole(stiff, mass):
        return dense(stiff, mass, which)

    def near(a, b, tolerance=1e-8):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=tolerance * float(b.abs().max()))

    near(sparse(stiff, mass), whole(stiff, mass))

    def first(f):
        return ad.autograd.grad(f(stiff, mass), (stiff, mass), create_graph=True)

    def second(f):
        return ad.autograd.grad(sum((g**2).sum() for g in first(f)), (stiff, mass))

    for order in (first, second):
        for mine, expected in zip(order(sparse), order(whole), strict=True):
            near(mine, expected)
    s, m = stiff.detach(), mass.detach()
    near(*(ad.func.jacfwd(lambda s, f=f: f(s, m))(s) for f in (sparse, whole)))
    if case == "smallest":
        samples = s * ad.tensor([[1.0], [1.1]], dtype=ad.float64)
        slopes = [ad.vmap(ad.func.grad(lambda s, f=f: f(s, m))) for f in (sparse, whole)]
        near(*(g(samples) for g in slopes))
        compiled = ad.compile(sparse)
        for _ in range(3):
            near(ad.autograd.grad(compiled(stiff, mass), stiff)[0], first(whole)[0])


def test_eigenvalues_of_any_matrix():
    pattern = scipy_sparse.random_array((n, n), density=0.4, rng=rng)
    a = ad.sparse.matrix((pattern + scipy_sparse.diags_array(np.arange(n) * 1.0)).tocsr())
    values = a.values.clone().requires_grad_()

    def total(w, v):
        return (w.real**2 + w.imag**3).sum() + (v.abs() ** 2 * WEIGHTS[:, None]).sum()

    w, v = ad.linalg.eig(a.with_values(values).to_dense())
    which = w.detach().abs().argsort()[-2:]
    expected = total(w[which], v[:, which])
    mine = total(*linalg.eigs(a.with_values(values), 2, which="LM"))
    assert ad.allclose(mine, expected)
    found, wanted = (ad.autograd.grad(t, values)[0] for t in (mine, expected))
    assert ad.allclose(found, wanted, rtol=1e-7, atol=1e-9)
    assert linalg.eigs(a, 2, return_eigenvectors=False).shape == (2,)


def test_singular_values():
    a = ad.sparse.matrix(scipy_sparse.random_array((12, 8), density=0.6, rng=rng).tocsr())
    values = a.values.clone().requires_grad_()

    def total(u, s, vh):
        return (s**3).sum() + ((u * s) @ vh).pow(3).sum()

    u, s, vh = ad.linalg.svd(a.with_values(values).to_dense(), full_matrices=False)
    expected = total(u[:, :2], s[:2], vh[:2])
    mine = total(*linalg.svds(a.with_values(values), 2))
    assert ad.allclose(mine, expected)
    found, wanted = (ad.autograd.grad(t, values)[0] for t in (mine, expected))
    assert ad.allclose(found, wanted, rtol=1e-7, atol=1e-9)
    assert linalg.svds(a, 2, return_singular_vectors=False).shape == (2,)


REPEATED = ad.tensor([1.0, 2, 2, 5], dtype=ad.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (
            lambda: linalg.eigsh(ad.sparse.diags_array(REPEATED), 3, which="SA"),
            ad.linalg.LinAlgError,
            "is repeated",
        ),
        (lambda: linalg.eigsh(STIFF, n), ValueError, "fewer than the order"),
        (lambda: linalg.eigsh(lambda v: v, 2), TypeError, "expected a sparse matrix"),
        (
            lambda: linalg.eigsh(ad.sparse.matrix(STIFF.to_scipy()[:, :3]), 1),
            ValueError,
            "square",
        ),
        (lambda: linalg.eigsh(STIFF, 1, ad.sparse.eye_array(3)), ValueError, "shapes"),
        (lambda: linalg.eigsh(STIFF * float("nan"), 1), ValueError, "not finite"),
        (
            lambda: linalg.eigsh(STIFF, 2, which="SM", maxiter=1, ncv=3, tol=1e-15),
            ad.optimize.ConvergenceError,
            "of 2 eigenvalues",
        ),
        (
            lambda: linalg.lobpcg(STIFF, np.eye(n, 2), maxiter=1),
            ad.optimize.ConvergenceError,
            "no eigenvectors",
        ),
        (lambda: linalg.lobpcg(STIFF, np.ones(n)), ValueError, "a column for each"),
        (lambda: linalg.lobpcg(STIFF, np.eye(n, 2), Y=1), NotImplementedError, "constraints"),
    ],
)
def test_errors_say_what_is_wrong(call, error, part):
    with pytest.raises(error, match=part):
        call()


def test_second_derivatives_take_samples_in_reverse_mode_twice():
    n = 8
    line = ad.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    steps, one = ad.linspace(0, 1, n, dtype=ad.float64), ad.ones(n, dtype=ad.float64)
    solvers = ad.sparse.linalg

    def of(p):
        return p[0] * line + ad.sparse.diags_array(p[1] + steps)

    for f in (
        lambda p: solvers.eigsh(of(p), 2, sigma=0.0)[0].sum(),
        lambda p: solvers.svds(of(p), 2)[1].sum(),
        lambda p: solvers.lsqr(of(p), one)[0][3],
        lambda p: solvers.expm_multiply(-0.1 * of(p), one)[3],
    ):
        p = ad.tensor([1.3, 0.7], dtype=ad.float64)
        twice = ad.func.jacrev(ad.func.jacrev(f))(p)
        ad.testing.assert_close(twice, ad.func.hessian(f)(p), rtol=1e-7, atol=1e-9)


def test_entries_that_are_not_finite_are_refused_in_bands_too():
    d = ad.tensor([1.0, float("nan"), 2.0])
    with pytest.raises(ValueError, match=r"the entry \(1, 1\) of a sparse matrix is nan"):
        ad.sparse.linalg.spsolve(ad.sparse.diags_array(d), ad.ones(3))
