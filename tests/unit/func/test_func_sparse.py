"""Sparse Jacobians and Hessians: right numbers, a pass per colour, wrong patterns refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import func
from adjoint._colouring import Pattern

sparse = pytest.importorskip("scipy.sparse")


def tridiagonal(x: Any) -> Any:
    """Each element and its neighbours, with zeros beyond the ends."""
    inside = x[1:-1] * x[2:] - x[:-2] ** 2
    return ad.cat([x[:1] * x[1:2], inside, x[-1:] + x[-2:-1]])


def band(n: int, width: int = 1) -> Any:
    return sparse.diags_array(
        [np.ones(n - abs(k)) for k in range(-width, width + 1)], offsets=range(-width, width + 1)
    )


def numbers(*shape: int, seed: int = 0) -> Any:
    return ad.from_numpy(np.random.default_rng(seed).standard_normal(shape))


class Counted(ad.autograd.Function):
    """2 x, counting the directions that pass."""

    forward_passes = 0
    backward_passes = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        Counted.forward_passes += 1
        return tangent * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Counted.backward_passes += 1
        return grad * 2


@pytest.mark.parametrize("given", ["pattern", "detect"])
def test_a_tridiagonal_jacobian_takes_three_forward_passes(given: str) -> None:
    n = 10_000
    x = numbers(n)
    pattern = band(n) if given == "pattern" else "detect"
    J = func.jacobian(tridiagonal, sparsity=pattern)
    found = J(x)
    assert (J.passes, J.mode) == (3, "forward")
    assert found.format == "csr"
    assert found.shape == (n, n)
    diagonal = func.jvp(tridiagonal, (x,), (ad.ones(n, dtype=ad.float64),))[1]
    np.testing.assert_allclose(found @ np.ones(n), diagonal.numpy(), rtol=1e-12)


def test_passes_are_counted_by_the_function_itself() -> None:
    n = 10_000
    x = numbers(n)
    Counted.forward_passes = 0
    J = func.jacobian(
        lambda x: tridiagonal(Counted.apply(x)), sparsity=band(n), chunk_size=1, verify=False
    )
    J(x)
    assert Counted.forward_passes == 3
    Counted.forward_passes = 0
    func.jacobian(lambda x: tridiagonal(Counted.apply(x)), sparsity=band(n), chunk_size=1)(x)
    assert Counted.forward_passes == 4  # and one to verify


def local(x: Any) -> Any:
    return (x.view(4, 5)[:, 1:] * x.view(4, 5)[:, :-1].exp()).sum(1)


def with_index(x: Any) -> Any:
    return x[ad.tensor([3, 3, 1])] * x[:3].flip(0)


def in_place(x: Any) -> Any:
    y = x * 2
    y[1:-1] = x[:-2].sin() * x[2:]
    y[::3].mul_(x[0])
    y[4] += x[7]
    return y


def structured(x: Any) -> Any:
    grid = x.view(4, 5)
    left, right = grid.split([2, 3], dim=1)
    return ad.stack([left.sum(1), right.amax(1), ad.softmax(grid, 1)[:, 0]])


def scattered(x: Any) -> Any:
    y = ad.zeros(6, dtype=x.dtype).index_add(0, ad.tensor([0, 2, 2, 5]), x[:4], alpha=3)
    z = ad.zeros(6, dtype=x.dtype).scatter_add(0, ad.tensor([1, 1]), x[4:6])
    return y + z.roll(1)


def products(x: Any) -> Any:
    a, b = x[:6].view(2, 3), x[6:12].view(3, 2)
    matrix = ad.from_numpy(np.triu(np.ones((8, 8))))
    return ad.cat([(a @ b).reshape(-1), matrix @ x[12:], (x[12:18].view(3, 2) @ a).reshape(-1)])


def batched_products(x: Any) -> Any:
    a = x[:12].view(2, 3, 2)
    weight = ad.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=ad.float64)
    return (
        ad.bmm(a, x[12:20].view(2, 2, 2)).reshape(-1)[:7]
        + (ad.nn.functional.linear(x[:14].view(7, 2), weight)[:, 0])
    )


def masked(x: Any) -> Any:
    return ad.where(x > 0, x, x.roll(1)) + ad.masked_fill(x, x > 0.5, 0.0)


def normed(x: Any) -> Any:
    grid = x.view(5, 4)
    return (
        ad.log_softmax(grid, 1) / grid.norm(dim=1, keepdim=True) - grid.var(1, keepdim=True)
    ).reshape(-1)


def scanned(x: Any) -> Any:
    return ad.cat([x.view(4, 5).cumsum(1).reshape(-1), x.view(4, 5).sort(0).values.reshape(-1)])


FUNCTIONS = [
    tridiagonal, local, with_index, in_place, structured, scattered, products, batched_products,
    masked, normed, scanned,
]  # fmt: skip


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_detected_jacobians_are_the_dense_ones(f: Callable[[Any], Any], mode: str) -> None:
    x = numbers(20, seed=3)
    J = func.jacobian(f, mode=mode)
    found = J(x)
    dense = func.jacrev(f)(x)
    np.testing.assert_allclose(found.toarray(), dense.reshape(-1, 20).numpy(), atol=1e-12)
    assert mode in ("auto", J.mode)


@pytest.mark.parametrize(
    ("f", "entries"),
    [
        (tridiagonal, 3 * 20 - 2),
        (local, 20),
        (with_index, 6),
        (scattered, 6),
        (scanned, 20 * 5 + 20 * 4),
    ],
)
def test_detected_patterns_have_no_more_than_what_is_there(f: Any, entries: int) -> None:
    pattern = func.sparsity(f)(numbers(20, seed=3))
    assert pattern.dtype == bool
    assert pattern.nnz == entries


F = ad.nn.functional
INDEX = ad.tensor([[0, 1], [2, 0], [1, 1]])
CLASSES = ad.tensor([0, 2, 1])


def base(*shape: int) -> Any:
    return ad.ones(shape, dtype=ad.float64)


def pairs(x: Any) -> Any:
    return ad.view_as_real(ad.complex(x, 2 * x) * 1j)


@pytest.mark.filterwarnings("ignore:vmap. There is a performance drop")
@pytest.mark.parametrize(
    ("f", "shape", "entries"),
    [
        (lambda x: F.conv1d(x, base(1, 1, 3), padding=1), (1, 1, 12), 3 * 12 - 2),
        (lambda x: F.conv2d(x, base(2, 1, 3, 3), groups=2), (1, 2, 4, 4), 2 * 4 * 9),
        (lambda x: F.conv2d(base(1, 1, 4, 4), x), (1, 1, 3, 3), 4 * 9),
        (lambda x: F.max_pool2d(x, 2), (1, 1, 4, 4), 16),
        (lambda x: F.layer_norm(x, (4,), base(4), base(4)), (3, 4), 3 * 16),
        (lambda w: F.layer_norm(base(3, 4).cumsum(1), (4,), w, w), (4,), 3 * 4),
        (lambda x: base(3, 4).scatter(1, INDEX, x), (3, 2), 6),
        (lambda x: x.scatter(1, INDEX, 2.0), (3, 4), 7),
        (lambda x: base(3, 4).scatter_add(1, INDEX, x), (3, 2), 6),
        (lambda x: base(3, 4).scatter_reduce(1, INDEX, x, "amax"), (3, 4), 6),
        (lambda x: x.scatter_reduce(1, INDEX, base(3, 2), "prod"), (3, 4), 12),
        (lambda x: base(5, 2).index_reduce(0, CLASSES, x, "prod"), (3, 2), 6),
        (lambda x: F.cross_entropy(x, CLASSES, reduction="none"), (3, 4), 12),
        (lambda x: F.nll_loss(x, CLASSES, reduction="none"), (3, 4), 3),
        (func.grad(lambda x: F.cross_entropy(x, CLASSES)), (3, 4), 3 * 16),
        (func.grad(lambda x: F.layer_norm(x, (4,)).pow(3).sum()), (3, 4), 3 * 16),
        (pairs, (6,), 12),
        (lambda x: ad.view_as_complex(x).abs(), (6, 2), 12),
        (lambda x: ad.cdist(x, base(2, 3)), (4, 3), 4 * 2 * 3),
        (lambda x: ad.cdist(x, x), (4, 3), 4 * 3 + 4 * 3 * 6),
    ],
)
def test_ops_with_rules_of_their_own(f: Any, shape: tuple[int, ...], entries: int) -> None:
    x = numbers(*shape)
    assert func.sparsity(f)(x).nnz == entries
    dense = func.jacrev(f)(x).reshape(-1, x.numel())
    np.testing.assert_allclose(func.jacobian(f)(x).toarray(), dense.numpy(), atol=1e-12)


class WithoutTangents(ad.autograd.Function):
    """x * x, for reverse mode alone."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g


def test_functions_without_tangents_go_in_reverse() -> None:
    x = numbers(6)
    J = func.jacobian(WithoutTangents.apply, sparsity=np.eye(6))
    np.testing.assert_allclose(J(x).toarray(), np.diag(2 * x.numpy()))
    assert (J.mode, J.passes) == ("reverse", 1)
    H = func.hessian(lambda x: WithoutTangents.apply(x).sum(), sparsity=np.eye(6))
    np.testing.assert_allclose(H(x).toarray(), 2 * np.eye(6))
    assert (H.mode, H.passes) == ("reverse", 1)
    with pytest.raises(NotImplementedError, match="jvp"):
        func.jacobian(WithoutTangents.apply, sparsity=np.eye(6), mode="forward")(x)


def test_in_place_changes_of_parts_are_followed() -> None:
    pattern = func.sparsity(in_place)(numbers(20)).toarray()
    assert pattern[1].tolist() == [i in (0, 2) for i in range(20)]
    assert pattern[3].tolist() == [i in (0, 2, 4) for i in range(20)]
    assert pattern[4].tolist() == [i in (3, 5, 7) for i in range(20)]


def test_zeros_among_the_values_are_no_structure() -> None:
    x = ad.zeros(4, dtype=ad.float64)
    assert func.sparsity(lambda x: x * x.roll(1))(x).nnz == 8
    assert func.sparsity(lambda x: ad.relu(x) * 0)(x).nnz == 4
    assert func.sparsity(lambda x: x.view(2, 2) @ x.view(2, 2))(x).nnz == 12


def test_zeros_of_a_constant_matrix_are_structure() -> None:
    matrix = ad.from_numpy(band(50).toarray())
    J = func.jacobian(lambda x: matrix @ x.sin())
    found = J(numbers(50))
    assert J.passes == 3
    assert found.nnz == band(50).nnz


def test_what_is_unknown_is_dense() -> None:
    x = numbers(5)
    assert func.sparsity(lambda x: Counted.apply(x))(x).nnz == 25
    J = func.jacobian(lambda x: Counted.apply(x)[:2])
    np.testing.assert_array_equal(J(x).toarray(), 2 * np.eye(5)[:2])


def test_a_dense_pattern_that_is_too_large_is_refused() -> None:
    x = ad.zeros(200_000)
    with pytest.raises(RuntimeError, match="not sparse"):
        func.sparsity(lambda x: x - x.mean())(x)


def test_the_mode_with_fewer_colours_is_chosen() -> None:
    x = numbers(30)
    J = func.jacobian(lambda x: ad.stack([x.sum(), (x**2).sum()]))
    J(x)
    assert (J.mode, J.passes) == ("reverse", 2)
    J = func.jacobian(lambda x: x[0] * ad.arange(30.0))
    J(x)
    assert (J.mode, J.passes) == ("forward", 1)


@pytest.mark.parametrize("kind", ["scipy", "coo", "array", "tensor", "bools"])
def test_patterns_come_in_many_forms(kind: str) -> None:
    n = 12
    pattern = band(n)
    given = {
        "scipy": pattern,
        "coo": sparse.coo_matrix(pattern),
        "array": pattern.toarray(),
        "tensor": ad.from_numpy(pattern.toarray()),
        "bools": pattern.toarray() != 0,
    }[kind]
    x = numbers(n)
    found = func.jacobian(tridiagonal, sparsity=given)(x)
    np.testing.assert_allclose(found.toarray(), func.jacrev(tridiagonal)(x).numpy(), atol=1e-12)


def test_composites_in_and_out() -> None:
    class State(NamedTuple):
        x: Any
        v: Any

    def step(state: State, dt: float) -> dict[str, Any]:
        return {"x": state.x + dt * state.v, "v": state.v - dt * state.x**3}

    state = State(numbers(6), numbers(6, seed=1))
    J = func.jacobian(step)
    found = J(state, 0.1).toarray()
    eye, x = np.eye(6), state.x.numpy()
    # The entries of a dict are in alphabetical order.
    wanted = np.block([[-0.3 * np.diag(x**2), eye], [eye, 0.1 * eye]])
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert J.passes == 2


def test_several_arguments_are_one_row_of_columns() -> None:
    a, b = numbers(4), numbers(4, seed=1)
    found = func.jacobian(lambda a, b: a * b, argnums=(0, 1))(a, b).toarray()
    wanted = np.hstack([np.diag(b.numpy()), np.diag(a.numpy())])
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_pattern_that_misses_entries_is_refused(mode: str) -> None:
    n = 40
    pattern = band(n).tolil()
    pattern[17, 18] = 0
    J = func.jacobian(tridiagonal, sparsity=pattern, mode=mode)
    with pytest.raises(ValueError, match=r"misses entries: ") as error:
        J(numbers(n))
    text = str(error.value)
    if mode == "forward":
        assert "row 17 (output[17]) also has entries in column 18 (input[18])" in text
    else:
        assert "column 18 (input[18]) also has entries in row 17 (output[17])" in text


def test_a_missing_entry_that_falls_on_another_is_noticed() -> None:
    # Both columns get one colour, and row 0 would show the sum of its two entries as one.
    pattern = np.eye(2)
    with pytest.raises(ValueError, match=r"row 0 .* column 1"):
        func.jacobian(lambda x: ad.stack([x[0] + x[1], x[1]]), sparsity=pattern)(ad.ones(2))


def test_entries_that_are_not_there_do_no_harm() -> None:
    x = numbers(20)
    found = func.jacobian(tridiagonal, sparsity=band(20, width=3))(x)
    np.testing.assert_allclose(found.toarray(), func.jacrev(tridiagonal)(x).numpy(), atol=1e-12)
    assert found.nnz == band(20, width=3).nnz  # what the pattern has


def test_cancellation_is_no_missing_entry() -> None:
    def f(x: Any) -> Any:
        return (x * 1e6) ** 2 * 1e-6 - x**2 * 999999.0

    x = ad.full((5,), 3.0)  # in single precision, the entries are rounding errors
    J = func.jacobian(f, sparsity=np.eye(5))
    assert J(x).nnz == 5


def test_nan_and_infinity_are_no_missing_entries() -> None:
    J = func.jacobian(lambda x: x.log().sqrt(), sparsity=np.eye(3))
    found = J(ad.tensor([-1.0, 0.0, 4.0]))
    assert np.isnan(found.toarray()[0, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": np.ones((4, 4))}, r"has shape \[4, 4\]; the matrix has \[3, 3\]"),
        ({"sparsity": np.ones((3, 4))}, r"has shape \[3, 4\]; the matrix has \[3, 3\]"),
        ({"sparsity": np.ones((2, 3))}, r"has shape \[2, 3\]; the matrix has \[3, 3\]"),
        ({"sparsity": np.ones((2, 3)), "mode": "reverse"}, r"the matrix has \[3, 3\]"),
        ({"sparsity": np.ones(3)}, "must be a matrix"),
        ({"sparsity": "guess"}, "'detect', got 'guess'"),
        ({"sparsity": None}, r"'detect', got None(.|\n)*fix: func\.jacrev or func\.jacfwd"),
        ({"mode": "sideways"}, "got 'sideways'"),
        ({"chunk_size": 0}, "greater than 0"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        func.jacobian(ad.sin, **options)(ad.ones(3))


def test_only_real_floats_have_a_jacobian() -> None:
    with pytest.raises(TypeError, match=r"input has dtype torch.int64"):
        func.jacobian(ad.sin)(ad.arange(3))
    with pytest.raises(TypeError, match=r"output has dtype torch.complex64"):
        func.jacobian(lambda x: ad.complex(x, x), sparsity=np.eye(3))(ad.ones(3))


def test_without_scipy_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        func.jacobian(ad.sin, sparsity=np.eye(3))(ad.ones(3))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float16, ad.bfloat16])
def test_other_dtypes(dtype: Any) -> None:
    x = ad.arange(1.0, 301.0).to(dtype)
    J = func.jacobian(lambda x: x[ad.arange(299, -1, -1)] * 2)
    found = J(x)
    assert found.nnz == 300
    assert (found != sparse.csr_array(2 * np.eye(300)[::-1])).nnz == 0


# --- Hessians -----------------------------------------------------------------------------------


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def hub(x: Any) -> Any:
    return (x[0] * x[1:] ** 2).sum() + x[0] ** 3


def grid(x: Any) -> Any:
    u = x.view(4, 5)
    return ((u[1:] - u[:-1]) ** 4).sum() + ((u[:, 1:] - u[:, :-1]) ** 4).sum() + u.exp().sum()


@pytest.mark.parametrize(("f", "passes"), [(rosenbrock, 3), (hub, 2), (grid, 20)])
def test_sparse_hessians_are_the_dense_ones(f: Any, passes: int) -> None:
    x = numbers(20, seed=5)
    H = func.hessian(f, sparsity="detect")
    found = H(x)
    dense = func.hessian(f)(x).numpy()
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-9)
    assert H.passes <= passes
    again = func.hessian(f, sparsity=dense != 0)(x)
    np.testing.assert_allclose(again.toarray(), dense, atol=1e-9)


def test_one_half_of_a_symmetric_pattern_is_enough() -> None:
    x = numbers(20)
    half = np.triu(band(20).toarray())
    found = func.hessian(rosenbrock, sparsity=half)(x)
    np.testing.assert_allclose(found.toarray(), func.hessian(rosenbrock)(x).numpy(), atol=1e-9)


def test_a_hessian_pattern_that_misses_entries_is_refused() -> None:
    with pytest.raises(ValueError, match=r"hessian: sparsity= misses entries: row 0"):
        func.hessian(rosenbrock, sparsity=np.eye(20))(numbers(20))


# --- colourings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_one_colour_share_no_row(seed: int) -> None:
    matrix = sparse.random_array((40, 60), density=0.05, rng=seed, format="csr")
    colours = Pattern.of(matrix).column_colours
    counts = np.asarray((matrix != 0).sum(0)).reshape(-1)
    assert ((colours < 0) == (counts == 0)).all()
    for row in range(40):
        mine = colours[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]]
        assert len(set(mine)) == len(mine)


@pytest.mark.parametrize("seed", range(5))
def test_each_entry_or_its_mirror_image_stands_alone(seed: int) -> None:
    matrix = sparse.random_array((50, 50), density=0.05, rng=seed)
    pattern = Pattern.of(matrix).symmetric
    colours, filled = pattern.star_colours, _boolean(pattern)
    for i, j in zip(*np.nonzero(filled), strict=True):
        alone = [(colours[filled[a]] == colours[b]).sum() == 1 for a, b in ((i, j), (j, i))]
        assert any(alone)
        assert i == j or colours[i] != colours[j]


def _boolean(pattern: Pattern) -> Any:
    filled = np.zeros(pattern.shape, dtype=bool)
    filled[pattern.rows, pattern.columns] = True
    return filled


def test_a_star_takes_two_colours_and_a_hub_is_no_burden() -> None:
    n = 100_000
    first = np.zeros(n - 1, dtype=int)
    rows = np.concatenate([first, np.arange(n)])
    columns = np.concatenate([np.arange(1, n), np.arange(n)])
    pattern = Pattern.of(sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)))
    assert pattern.symmetric.star_colours.max() == 1


def test_a_million_columns_are_coloured_at_once() -> None:
    pattern = Pattern.of(band(1_000_000))
    assert pattern.column_colours.max() == 2


def test_the_mode_of_the_caller_does_not_matter() -> None:
    x = numbers(8)
    wanted = func.jacobian(tridiagonal)(x).toarray()
    with ad.no_grad():
        np.testing.assert_array_equal(func.jacobian(tridiagonal)(x).toarray(), wanted)
        assert func.hessian(rosenbrock, sparsity="detect")(x).nnz == 22
    leaf = x.clone().requires_grad_()
    np.testing.assert_array_equal(func.jacobian(tridiagonal)(leaf * 1).toarray(), wanted)
    assert leaf.grad is None


def test_parameters_that_the_function_holds_are_constants() -> None:
    weight = ad.ones(5, dtype=ad.float64).requires_grad_()
    J = func.jacobian(lambda x: x * weight + weight.sum())
    np.testing.assert_array_equal(J(numbers(5)).toarray(), np.eye(5))
    assert weight.grad is None


def test_externals_have_the_pattern_that_they_were_given():
    def heat(u, k):
        out = np.zeros_like(u)
        out[1:-1] = k[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        return out

    n = 12
    near = sparse.diags_array([np.ones(n)] * 3, offsets=[-1, 0, 1], shape=(n, n))
    f = ad.external(heat, sparsity=sparse.hstack([near, sparse.eye_array(n)]))
    u, k = ad.linspace(0, 1, n, dtype=ad.float64) ** 2, ad.linspace(1, 2, n, dtype=ad.float64)
    for argnums, g, passes in (
        ((0, 1), f, 3),
        (0, lambda u, k: f(u**2, k).sin(), 3),
        (1, f, 1),  # by an operand whose columns are not the first
    ):
        jacobian = ad.func.jacobian(g, argnums)
        dense = ad.func.jacrev(g, argnums)(u, k)
        dense = np.hstack([d.numpy() for d in (dense if isinstance(dense, tuple) else (dense,))])
        np.testing.assert_allclose(jacobian(u, k).toarray(), dense, atol=1e-8)
        assert jacobian.passes == passes
    sine = ad.external(lambda x, k: np.sin(k * x), elementwise=True)
    jacobian = ad.func.jacobian(sine)
    np.testing.assert_allclose(jacobian(u, k).diagonal(), (k * (k * u).cos()).numpy(), atol=1e-8)
    assert jacobian.passes == 1 and jacobian.pattern.nnz == n
