"""Systems with sparse matrices: against dense solutions, in every mode of differentiation."""

import numpy as np
import pytest

import adjoint as ad

scipy_sparse = pytest.importorskip("scipy.sparse")

linalg = ad.sparse.linalg
f64 = ad.float64


def grid(n):
    second = scipy_sparse.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(n, n))
    one = scipy_sparse.eye_array(n)
    return (scipy_sparse.kron(second, one) + scipy_sparse.kron(one, second)).tocsr()


def scattered(n, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    made = scipy_sparse.random_array((n, n), density=0.15, rng=rng) + 3 * scipy_sparse.eye_array(n)
    made = made.tocsr()
    made.data = made.data.astype(dtype)
    if dtype is complex:
        made.data += 1j * rng.normal(size=made.nnz)
    return made


SYMMETRIC, ANY = grid(4), scattered(18)
INDEFINITE = (grid(4) - 3.3 * scipy_sparse.eye_array(16)).tocsr()


def symmetrised(a):
    return (a + a.T) * 0.5


def by(method, pattern):
    """The solution as a function of values and right side; and the dense one."""
    a = ad.sparse.matrix(pattern)
    turn = symmetrised if pattern is not ANY else lambda a: a

    def solve(values, b):
        matrix = turn(a.with_values(values))
        if method == "spsolve":
            return linalg.spsolve(matrix, b)
        if method == "function":
            return linalg.gmres(lambda v: matrix @ v, b, rtol=1e-13)[0]
        return getattr(linalg, method)(matrix, b, rtol=1e-13)[0]

    def whole(values, b):
        return ad.linalg.solve(turn(a.with_values(values)).to_dense(), b)

    return a, solve, whole


CASES = [
    ("spsolve", ANY),
    ("cg", SYMMETRIC),
    ("minres", INDEFINITE),
    ("gmres", ANY),
    ("bicgstab", ANY),
    ("function", ANY),
]


def near(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a.detach(), b.detach(), atol=tolerance * float(b.abs().max()))


@pytest.mark.parametrize(("method", "pattern"), CASES)
def test_solutions_have_derivatives_in_every_mode(method, pattern):
    a, solve, whole = by(method, pattern)
    n = a.shape[0]
    values = a.values.clone().requires_grad_()
    b = ad.linspace(-1, 2, n, dtype=f64).requires_grad_()
    weights = ad.linspace(1, 2, n, dtype=f64)
    near(solve(values, b), whole(values, b))

    def first(f):
        return ad.autograd.grad((f(values, b) ** 3) @ weights, (values, b), create_graph=True)

    def second(f):
        return ad.autograd.grad(sum((g**2).sum() for g in first(f)), (values, b))

    for order in (first, second):
        for mine, expected in zip(order(solve), order(whole), strict=True):
            near(mine, expected)
    v, right = values.detach(), b.detach()
    near(*(ad.func.jacfwd(lambda v, f=f: f(v, right))(v) for f in (solve, whole)))
    near(*(ad.func.hessian(lambda b, f=f: (f(v, b) ** 3).sum())(right) for f in (solve, whole)))
    samples = v * ad.tensor([[1.0], [1.1]], dtype=f64), ad.stack([right, right.flip(0)])
    near(*(ad.vmap(f)(*samples) for f in (solve, whole)))
    slopes = [ad.func.grad(lambda v, b, f=f: (f(v, b) ** 2).sum()) for f in (solve, whole)]
    near(*(ad.vmap(g)(*samples) for g in slopes))
    # met again when vmap has ended
    after = ad.func.grad(lambda v: (ad.vmap(solve)(v, samples[1]) ** 2).sum())(samples[0])
    near(after, ad.vmap(slopes[1])(*samples))


@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_complex_matrices_and_transposes(trans):
    pattern = scattered(12, 1, complex)
    values = ad.from_numpy(pattern.data.copy()).requires_grad_()
    b = ad.from_numpy(np.exp(1j * np.arange(24)).reshape(12, 2)).requires_grad_()

    def solve(values, b):
        return linalg.splu(ad.sparse.matrix(pattern, values)).solve(b, trans)

    turned = {"N": pattern, "T": pattern.T, "H": pattern.conj().T}[trans]
    near(ad.from_numpy(turned @ solve(values, b).detach().numpy()), b)
    assert ad.autograd.gradcheck(solve, (values, b), check_forward_ad=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["spsolve", "cg"])
def test_programs_and_loops_repeat_the_solver(method):
    a = ad.sparse.matrix(grid(5))  # a narrow band, which has a native way
    if method == "cg":
        a = ad.sparse.matrix(grid(20)[::3, ::3].tocsr() + scipy_sparse.eye_array(134))
    n = a.shape[0]
    values = a.values.clone().requires_grad_()
    start = ad.linspace(0, 1, n, dtype=f64)

    def step(matrix, u):
        solved = getattr(linalg, method)(matrix, u)
        return solved[0] if method == "cg" else solved

    def looped(values):
        matrix = a.with_values(values) + ad.sparse.eye_array(n)
        u, _ = ad.scan(lambda u, _: (step(matrix, u), None), start, length=4)
        return (u**2).sum()

    def plain(values):
        matrix, u = a.with_values(values) + ad.sparse.eye_array(n), start
        for _ in range(4):
            u = step(matrix, u)
        return (u**2).sum()

    (expected,) = ad.autograd.grad(plain(values), values)
    compiled = ad.compile(plain)
    for f in (looped, compiled, compiled, compiled):
        near(ad.autograd.grad(f(values), values)[0], expected, 1e-12)


def test_factors_are_made_once_for_the_same_values():
    from adjoint.sparse import _factors

    made = []
    whole = _factors.Factors.__init__
    a = ad.sparse.matrix(scattered(40))
    values = a.values.clone().requires_grad_()

    def counted(self, *args):
        made.append(1)
        whole(self, *args)

    _factors.Factors.__init__ = counted
    try:
        x = ad.ones(40, dtype=f64)
        for _ in range(3):
            x = linalg.spsolve(a.with_values(values), x)
        (g,) = ad.autograd.grad(x.sum(), values, create_graph=True)
        ad.autograd.grad(g.sum(), values)
        assert len(made) == 1
        linalg.spsolve(a.with_values(values * 2), x)
        assert len(made) == 2
    finally:
        _factors.Factors.__init__ = whole


def test_every_kind_of_sparse_matrix_is_taken():
    b = ad.linspace(0, 1, 18, dtype=f64)
    expected = linalg.spsolve(ANY, b)
    coo = ANY.tocoo()
    sparse = ad.sparse_coo_tensor(np.stack(coo.coords), coo.data, coo.shape).requires_grad_()
    kinds = [ANY.tocoo(), ANY.tocsc(), sparse, sparse.detach().to_sparse_csr(), sparse.to_dense()]
    for kind in kinds:
        near(linalg.spsolve(kind, b), expected)
    linalg.spsolve(sparse, b).sum().backward()
    assert sparse.grad.layout == ad.sparse_coo
    assert sparse.grad._nnz() == sparse._nnz()
    shuffled = np.random.default_rng(0).permutation(coo.nnz)
    values = ad.from_numpy(coo.data[shuffled]).requires_grad_()
    again = ad.sparse.coo_array((values, (coo.row[shuffled], coo.col[shuffled])), coo.shape)
    near(linalg.spsolve(again, b), expected)
    (g,) = ad.autograd.grad(linalg.spsolve(again, b).sum(), values)
    near(g, sparse.grad.coalesce().values()[ad.from_numpy(shuffled)])


def test_matrices_add_and_multiply():
    a, b = ad.sparse.matrix(ANY), ad.sparse.diags_array([1.0, 2.0], offsets=[0, 2], shape=(18, 18))
    x = ad.linspace(0, 1, 36, dtype=f64).reshape(18, 2)
    whole = a.to_dense() * 2 - b.to_dense() / 4
    near(((a * 2 - b / 4) @ x), whole @ x)
    near((a.T + ANY).to_dense(), a.to_dense().mT + a.to_dense())
    near(x.mT @ a, x.mT @ a.to_dense())
    near(a.diagonal(), a.to_dense().diagonal())
    near(a.to_sparse_csr() @ x, a @ x)
    assert "nnz" in repr(a)
    doubled = ad.map(lambda t: 2 * t, {"a": a})["a"]
    near(doubled.to_dense(), 2 * a.to_dense())


def test_a_preconditioner_saves_steps_and_changes_nothing():
    rng = np.random.default_rng(5)
    scale = scipy_sparse.diags_array(10.0 ** rng.uniform(-3, 3, 49))
    pattern = (scale @ grid(7) @ scale).tocsr()
    a, b = ad.sparse.matrix(pattern), ad.ones(49, dtype=f64)
    counts = []
    inverse = ad.sparse.diags_array(1 / a.diagonal())
    forms = [inverse, inverse.to_dense(), lambda v: v / a.diagonal(), inverse.to_scipy()]
    for method in ("cg", "minres", "gmres", "bicgstab"):
        for M in forms:
            steps = []
            values = a.values.clone().requires_grad_()
            x, info = getattr(linalg, method)(
                a.with_values(values), b, M=M, rtol=1e-12, callback=steps.append
            )
            assert info == 0
            near(x, linalg.spsolve(a, b), 1e-6)
            counts.append(len(steps))
        (g,) = ad.autograd.grad(x.sum(), values)
        values = a.values.clone().requires_grad_()
        (expected,) = ad.autograd.grad(linalg.spsolve(a.with_values(values), b).sum(), values)
        near(g, expected, 1e-5)
    assert max(counts) < 100


@pytest.mark.parametrize(("shape", "damp"), [((20, 8), 0.0), ((20, 8), 0.7), ((6, 13), 0.0)])
def test_least_squares_have_derivatives(shape, damp):
    n, m = shape
    rng = np.random.default_rng(2)
    pattern = scipy_sparse.random_array(shape, density=0.3, rng=rng) + 2 * scipy_sparse.eye_array(
        *shape
    )
    a = ad.sparse.matrix(pattern.tocsr())
    values, b = a.values.clone().requires_grad_(), ad.linspace(-1, 2, n, dtype=f64).requires_grad_()

    def solve(values, b):
        return linalg.lsqr(a.with_values(values), b, damp=damp)[0]

    def operator(values, b):
        matrix = a.with_values(values)
        return linalg.lsqr(linalg.LinearOperator(shape, lambda v: matrix @ v), b, damp=damp)[0]

    def whole(values, b):
        dense = a.with_values(values).to_dense()
        if n >= m:
            normal = dense.mT @ dense + damp**2 * ad.eye(m, dtype=f64)
            return ad.linalg.solve(normal, dense.mT @ b)
        return dense.mT @ ad.linalg.solve(dense @ dense.mT, b)

    def first(f):
        return ad.autograd.grad((f(values, b) ** 3).sum(), (values, b), create_graph=True)

    def second(f):
        return ad.autograd.grad(sum((g**2).sum() for g in first(f)), (values, b))

    for mine in (solve, operator) if n >= m else (solve,):
        near(mine(values, b), whole(values, b))
        for order in (first, second):
            for found, expected in zip(order(mine), order(whole), strict=True):
                near(found, expected)
        v = values.detach()
        near(*(ad.func.jacfwd(lambda v, f=f: f(v, b.detach()))(v) for f in (mine, whole)))
        near(
            *(
                ad.vmap(f, in_dims=(0, None))(ad.stack([v, v * 1.1]), b.detach())
                for f in (mine, whole)
            )
        )
    _, _, _, r1, r2, *_ = linalg.lsqr(a, b, damp=damp)
    assert float(r2) >= float(r1) >= 0


def test_operators_are_transposed_by_reverse_mode():
    shift = linalg.LinearOperator((4, 4), lambda v: 2 * v - v.roll(1))
    u = ad.linspace(0, 1, 4, dtype=f64)
    near(shift.T @ u, 2 * u - u.roll(-1))
    near(shift.H.H @ ad.eye(4, dtype=f64), shift @ ad.eye(4, dtype=f64))
    assert linalg.aslinearoperator(shift) is shift
    scipys = scipy_sparse.linalg.aslinearoperator(ANY)
    near(linalg.aslinearoperator(scipys).matvec(ad.ones(18, dtype=f64)), ad.from_numpy(ANY.sum(1)))


def test_minres_takes_a_shift():
    b = ad.ones(16, dtype=f64)
    for a in (SYMMETRIC, lambda v: ad.sparse.matrix(SYMMETRIC) @ v):
        x, _ = linalg.minres(a, b, shift=3.3, rtol=1e-12)
        near(x, linalg.spsolve(INDEFINITE, b))


def test_the_exponential_of_a_matrix_times_a_vector():
    a = ad.sparse.matrix(ANY)
    values, b = a.values.clone().requires_grad_(), ad.linspace(0, 1, 18, dtype=f64)
    mine = linalg.expm_multiply(a.with_values(values), b)
    whole = ad.linalg.matrix_exp(a.with_values(values).to_dense()) @ b
    near(mine, whole)
    near(*(ad.autograd.grad(t.sum(), values)[0] for t in (mine, whole)))
    with pytest.raises(ValueError, match="1-norm"):
        linalg.expm_multiply(a * 1e7, b)
    with pytest.raises(TypeError, match="expected a matrix"):
        linalg.expm_multiply(lambda v: v, b)


SINGULAR = scattered(18)
SINGULAR.data[SINGULAR.indptr[4] : SINGULAR.indptr[5]] = 0
NOT_A_NUMBER = scattered(18)
NOT_A_NUMBER.data[7] = np.nan
b18 = ad.ones(18, dtype=f64)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: linalg.spsolve(SINGULAR, b18), ad.linalg.LinAlgError, "is singular"),
        (lambda: linalg.spsolve(NOT_A_NUMBER, b18), ValueError, "is nan: nothing can be solved"),
        (lambda: linalg.spsolve(ANY, ad.ones(3)), ValueError, "do not match"),
        (lambda: linalg.spsolve(ANY[:, :3], b18), ValueError, "square"),
        (lambda: linalg.spsolve(3.0, b18), TypeError, "expected a sparse matrix"),
        (lambda: linalg.splu(ANY).solve(b18, "X"), ValueError, "trans is"),
        (lambda: linalg.cg(-SYMMETRIC, ad.ones(16)), ad.optimize.ConvergenceError, "positive"),
        (
            lambda: linalg.gmres(SINGULAR, b18),
            ad.optimize.ConvergenceError,
            "no more progress|not enough",
        ),
        (lambda: linalg.bicgstab(ANY, b18, maxiter=1), ad.optimize.ConvergenceError, "1 steps"),
        (lambda: linalg.cg(NOT_A_NUMBER, b18), ad.optimize.ConvergenceError, "not finite"),
        (lambda: linalg.cg(lambda v: v + 1, b18), ValueError, "is not linear"),
        (lambda: linalg.cg(lambda v: 3, b18), TypeError, "must return a tensor"),
        (lambda: linalg.cg(lambda v: v[:3], b18), ValueError, "a vector of 18"),
        (lambda: linalg.cg(ANY, ad.ones(18, 2)), ValueError, "must be a vector"),
        (lambda: linalg.cg(ANY, ad.ones(3)), ValueError, "do not match"),
        (lambda: linalg.cg(ANY, b18, M=ad.eye(3)), ValueError, "preconditioner of shape"),
        (lambda: linalg.cg("A", b18), TypeError, "expected a matrix, a LinearOperator"),
        (lambda: linalg.lsqr(SINGULAR, b18, iter_lim=3), ad.optimize.ConvergenceError, "3 steps"),
        (lambda: linalg.lsqr(ANY, ad.ones(3)), ValueError, "of shape"),
        (
            lambda: linalg.lsqr(linalg.LinearOperator((1, 2), lambda v: v[:1]), ad.ones(1)),
            NotImplementedError,
            "many solutions",
        ),
        (lambda: ad.sparse.matrix(ANY, ad.ones(2)), ValueError, "entries"),
        (lambda: ad.sparse.matrix(ANY).with_values(ad.ones(2)), ValueError, "entries"),
        (lambda: ad.sparse.coo_array((ad.ones(1), ([5], [0])), (2, 2)), IndexError, "no row 5"),
        (lambda: ad.sparse.coo_array((ad.ones(2), ([0], [0]))), ValueError, "1 places"),
        (lambda: ad.sparse.diags_array([ad.ones(3)], offsets=[0, 1]), ValueError, "2 offsets"),
        (
            lambda: ad.sparse.diags_array([ad.ones(3), ad.ones(3)], offsets=[0, 1]),
            ValueError,
            "has 2 elements, but got 3",
        ),
        (lambda: ad.sparse.matrix(ANY) @ ad.ones(3), ValueError, "cannot be multiplied"),
        (lambda: ad.sparse.matrix(ANY) + ad.sparse.eye_array(3), ValueError, "cannot be added"),
        (lambda: ad.sparse.matrix(ANY) * b18, TypeError, "by a number"),
        (lambda: linalg.spsolve(b18, b18), TypeError, "expected a matrix"),
        (lambda: linalg.aslinearoperator(ANY).matvec(ad.ones(2)), ValueError, "was given"),
    ],
)
def test_errors_say_what_is_wrong(call, error, part):
    with pytest.raises(error, match=part):
        call()


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_a_function_for_a_matrix_is_a_part_of_a_program(method, preconditioned):
    solve = getattr(ad.sparse.linalg, method)
    n = 10
    line = ad.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    b = ad.ones(n, dtype=ad.float64)

    def f(p):
        M = (lambda v: v / (2 * p[0] + p[1])) if preconditioned else None
        return solve(lambda v: p[0] * (line @ v) + p[1] * v, b, M=M)[0][3]

    slope = ad.func.grad(f)
    for run, samples in ((f, False), (slope, False), (ad.vmap(slope), True)):
        compiled = ad.compile(run, fullgraph=True)
        for at in ([1.3, 0.7], [0.4, 2.0]):
            p = ad.tensor([at, at] if samples else at, dtype=ad.float64)
            ad.testing.assert_close(compiled(p), run(p), rtol=1e-8, atol=1e-10)


def test_a_program_refuses_a_function_that_is_not_linear():
    run = ad.compile(lambda p: ad.sparse.linalg.cg(lambda v: v + p * v * v, ad.ones(3))[0])
    run(ad.tensor(0.0))
    with pytest.raises(ValueError, match="not linear"):
        run(ad.tensor(1.0))
