"""Sparse tensors: what they tell of themselves, gradients, and what is refused."""

import copy
import io
import pickle

import numpy as np
import pytest

import adjoint as ad

INDICES = [[0, 1, 1], [2, 0, 2]]


def coo(requires_grad: bool = False) -> ad.Tensor:
    values = ad.tensor([3.0, 4.0, 5.0], dtype=ad.float64)
    s = ad.sparse_coo_tensor(INDICES, values, (2, 3)).coalesce()
    return s.requires_grad_() if requires_grad else s


def csr() -> ad.Tensor:
    return coo().to_sparse_csr()


DENSE = np.array([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]])


def test_parts_and_conversions() -> None:
    s = ad.sparse_coo_tensor([[1, 0, 1], [2, 2, 0]], [5.0, 3.0, 4.0])
    assert (s.shape, s._nnz(), s.sparse_dim(), s.dense_dim()) == ((2, 3), 3, 2, 0)
    assert s.is_sparse and s.layout is ad.sparse_coo and not s.is_coalesced()
    c = s.coalesce()
    assert c.is_coalesced() and c.indices().tolist() == INDICES
    assert c.values().tolist() == [3.0, 4.0, 5.0]
    for made in (s, c, c.to_sparse_csr(), c.to_sparse_csc(), c.to_sparse_csc().to_sparse_csr()):
        np.testing.assert_array_equal(made.to_dense().numpy(), DENSE)
    r = c.to_sparse_csr()
    assert (r.crow_indices().tolist(), r.col_indices().tolist()) == ([0, 1, 3], [2, 0, 2])
    k = r.to_sparse_csc()
    assert (k.ccol_indices().tolist(), k.row_indices().tolist()) == ([0, 1, 1, 3], [1, 0, 1])
    assert r.is_sparse_csr and not r.is_sparse and k.layout is ad.sparse_csc
    back = ad.tensor(DENSE).to_sparse()
    assert back.indices().tolist() == INDICES and back.is_coalesced()
    hybrid = ad.tensor([[0.0, 0.0], [1.0, 2.0]]).to_sparse(1)
    assert (hybrid.sparse_dim(), hybrid.dense_dim(), hybrid.values().tolist()) == (
        1,
        1,
        [[1.0, 2.0]],
    )


def test_duplicates_add_up_and_share_their_gradient() -> None:
    v = ad.tensor([1.0, 2.0, 4.0], dtype=ad.float64, requires_grad=True)
    s = ad.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], v, (2, 2))
    assert s.to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]
    weight = ad.tensor([[1.0, 10.0], [100.0, 1000.0]], dtype=ad.float64)
    for use in (
        lambda t: (t.to_dense() * weight).sum(),
        lambda t: (t.coalesce().to_dense() * weight).sum(),
        lambda t: ((-t).to_dense() * -weight).sum(),
        lambda t: (t @ weight.T).diagonal().sum(),
        lambda t: (t * weight).sum(),
        lambda t: ((t + t).t().to_dense() * weight.T).sum() / 2,
    ):
        (grad,) = ad.autograd.grad(use(s), v, retain_graph=True)
        assert grad.tolist() == [10.0, 10.0, 100.0]


def test_products_and_their_gradients_agree_with_dense_ones() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(3, 4)), generator.normal(size=(5, 2))
    for make in (coo, csr, lambda: coo().to_sparse_csc()):
        s = make().requires_grad_()
        d = ad.tensor(DENSE, requires_grad=True)
        a, b = ad.tensor(x, requires_grad=True), ad.tensor(y, requires_grad=True)
        for left in (s, d):
            ad.autograd.backward((left @ a).sin().sum() + (b @ left).cos().sum())
        dense = d.grad * (d != 0)
        np.testing.assert_allclose(s.grad.to_dense().numpy(), dense.numpy(), 1e-13)
        assert s.grad.layout is s.layout
        np.testing.assert_allclose((s @ a[:, 0]).detach().numpy(), DENSE @ x[:, 0], 1e-13)
        np.testing.assert_allclose((b[0] @ s).detach().numpy(), y[0] @ DENSE, 1e-13)


def test_a_product_of_two_sparse_matrices_is_sparse() -> None:
    s = coo(True)
    p = s @ s.t()
    assert p.is_sparse
    np.testing.assert_array_equal(p.to_dense().detach().numpy(), DENSE @ DENSE.T)
    (p.to_dense() ** 2).sum().backward()
    d = ad.tensor(DENSE, requires_grad=True)
    ((d @ d.T) ** 2).sum().backward()
    np.testing.assert_allclose(s.grad.to_dense().numpy(), (d.grad * (d != 0)).numpy(), 1e-13)


def test_second_derivatives_and_forward_mode() -> None:
    v = ad.tensor([3.0, 4.0, 5.0], dtype=ad.float64, requires_grad=True)
    x = ad.rand(3, 2, dtype=ad.float64, requires_grad=True)

    def f(v: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
        s = ad.sparse_coo_tensor(INDICES, v, (2, 3))
        return (s.sin() @ x).pow(2) + ad.sparse.mm(s * s, x)

    assert ad.autograd.gradcheck(f, (v, x), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(f, (v, x))


def test_one_place_refuses_what_does_not_know_sparse_operands() -> None:
    s = coo()
    for call, name in (
        (lambda: s.cos(), "cos"),
        (lambda: ad.exp(s), "exp"),
        (lambda: s.view(6), "view"),
        (lambda: ad.where(s, 1.0, 2.0), "where"),
        (lambda: ad.linalg.det(coo() @ coo().t()), "det"),
        (lambda: s[:, 1:], "slice"),
        (lambda: s.sort(), "sort"),
        (lambda: ad.nn.functional.conv1d(s, s), "conv1d"),
        (lambda: csr().exp(), "exp"),
    ):
        with pytest.raises(NotImplementedError, match=rf"{name}.*\(\) does not take.*to_dense"):
            call()
    with pytest.raises(NotImplementedError, match=r"mul\(out=\.\.\.\) does not take sparse"):
        ad.mul(s, 2, out=ad.empty(2, 3))


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda s: s.tolist(), NotImplementedError),
        (lambda s: s.data_ptr(), NotImplementedError),
        (lambda s: s.numpy(), TypeError),
        (lambda s: np.asarray(s), TypeError),
        (lambda s: memoryview(s), BufferError),
        (lambda s: s.storage(), NotImplementedError),
        (lambda s: s.__dlpack__(), BufferError),
        (lambda s: s.sum(0)[2:3].item(), NotImplementedError),
        (lambda s: s.resize_(3, 2), NotImplementedError),
        (lambda s: s.t_(), NotImplementedError),
        (lambda s: setattr(s, "data", ad.ones(2, 3)), NotImplementedError),
        (lambda s: bool(ad.sparse_coo_tensor([[0]], [1.0])), NotImplementedError),
        (lambda s: int(ad.sparse_coo_tensor([[0]], [1])), NotImplementedError),
        (lambda s: [1, 2][ad.sparse_coo_tensor([[0]], [1])], NotImplementedError),
        (lambda s: ad.ones(3)[ad.sparse_coo_tensor([[0]], [1])], NotImplementedError),
        (lambda s: ad.tensor([ad.sparse_coo_tensor([[0]], [1.0])]), NotImplementedError),
        (lambda s: s._indices().add_(1), RuntimeError),
        (lambda s: s.indices().numpy().__setitem__(0, 7), ValueError),
        (lambda s: s + 1, RuntimeError),
        (lambda s: s / ad.ones(2, 3), RuntimeError),
        (
            lambda s: ad.func.vmap(lambda v: ad.sparse_coo_tensor(INDICES, v))(ad.ones(2, 3)),
            NotImplementedError,
        ),
    ],
)
def test_memory_of_a_sparse_tensor_is_not_read(read, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        read(coo())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ad.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)), "size is 3 but found index 5"),
        (lambda: ad.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)), "found negative index -1"),
        (lambda: ad.sparse_coo_tensor([[0, 1]], [1.0], (3,)), "must have same nnz"),
        (lambda: ad.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 3)), "is not satisfied: len"),
        (lambda: ad.sparse_coo_tensor([[0]], ad.ones(1, 2), (3, 3)), "values has incorrect size"),
        (lambda: ad.sparse_coo_tensor([0, 1], [1.0, 2.0]), "indices must be a matrix"),
        (lambda: ad.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True), "not sorted"),
        (lambda: ad.sparse_csr_tensor([0, 1, 3], [1, 0], [1.0, 2.0], (2, 2)), "== nnz"),
        (lambda: ad.sparse_csr_tensor([1, 1, 2], [1, 0], [1.0, 2.0], (2, 2)), "== 0 is not"),
        (lambda: ad.sparse_csr_tensor([0, 3, 2], [1, 0], [1.0, 2.0], (2, 2)), "is followed by"),
        (lambda: ad.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)), "sorted and dis"),
        (lambda: ad.sparse_csr_tensor([0, 1, 2], [1, 9], [1.0, 2.0], (2, 2)), "found index 9"),
        (lambda: ad.sparse_csr_tensor([0, 1], [1, 0], [1.0, 2.0], (2, 2)), "number of rows"),
        (lambda: coo() @ ad.ones(4, 2, dtype=ad.float64), "cannot be multiplied"),
        (lambda: coo() @ ad.ones(3, 2), "same dtype"),
        (lambda: coo() + coo().t(), "must be equal"),
        (lambda: csr().indices(), "expected sparse coordinate tensor layout but got sparse_csr"),
        (lambda: ad.ones(2).values(), "expected sparse tensor layout but got strided"),
        (lambda: (coo() + coo().t().t()).indices(), "uncoalesced"),
        (lambda: coo(True).mul_(2), "takes part in a graph"),
        (lambda: ad.ones(2, 3).copy_(coo()), "between dense and sparse"),
    ],
)
def test_what_is_wrong_is_said(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RuntimeError, match=message):
        make()


def test_copies_keep_everything() -> None:
    for s in (coo(True), csr(), coo().to_sparse_csc(), ad.sparse_coo_tensor(size=(2, 3))):
        file = io.BytesIO()
        ad.save({"a": [s]}, file)
        file.seek(0)
        for made in (
            pickle.loads(pickle.dumps(s)),
            copy.deepcopy(s),
            copy.copy(s),
            ad.load(file)["a"][0],
            s.clone(),
            s.detach(),
        ):
            assert (made.layout, made.dtype, made.shape) == (s.layout, s.dtype, s.shape)
            np.testing.assert_array_equal(
                made.detach().to_dense().numpy(), s.detach().to_dense().numpy()
            )
        assert copy.deepcopy(s).requires_grad == s.requires_grad


def test_in_place_changes_are_seen_by_aliases_and_by_saved_values() -> None:
    s = coo()
    same, values = s.detach(), s.values()
    s.mul_(2)
    assert values.tolist() == same.values().tolist() == [6.0, 8.0, 10.0]
    s.zero_()
    assert s._nnz() == same._nnz() == 0
    s = coo(True)
    x = ad.ones(3, 2, dtype=ad.float64, requires_grad=True)
    y = s @ x
    with ad.no_grad():
        s.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_gradients_of_a_leaf_add_up() -> None:
    s = coo(True)
    for _ in range(2):
        (s @ ad.ones(3, 1, dtype=ad.float64)).sum().backward()
    assert s.grad.to_dense().tolist() == [[0.0, 0.0, 2.0], [2.0, 0.0, 2.0]]
    assert s.grad.is_coalesced()
    w = ad.ones(5, 2, requires_grad=True)
    lookup = ad.nn.functional.embedding
    lookup(ad.tensor([1, 1, 3]), w, sparse=True).sum().backward()
    assert w.grad.is_sparse and w.grad._nnz() == 3
    lookup(ad.tensor([0]), w, sparse=True).sum().backward()
    assert w.grad.is_sparse and w.grad._nnz() == 4
    (w * 2).sum().backward()
    assert not w.grad.is_sparse
    assert w.grad[:, 0].tolist() == [3.0, 4.0, 2.0, 3.0, 2.0]
    lookup(ad.tensor([4, 4]), w, sparse=True).sum().backward()
    assert w.grad[:, 0].tolist() == [3.0, 4.0, 2.0, 3.0, 4.0]


def test_hooks_and_anomaly_checks_see_sparse_gradients() -> None:
    w = ad.ones(5, 2, requires_grad=True)
    w.register_hook(lambda g: g * 2)
    with pytest.warns(UserWarning, match="Anomaly"), ad.autograd.detect_anomaly():
        ad.nn.functional.embedding(ad.tensor([1]), w, sparse=True).sum().backward()
    assert w.grad.to_dense()[1].tolist() == [2.0, 2.0]


def test_scipy_matrices_stand_on_both_sides() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random_array((4, 3), density=0.5, rng=np.random.default_rng(1))
    for form in ("csr", "csc", "coo"):
        m = matrix.asformat(form)
        x = ad.rand(3, 2, dtype=ad.float64, requires_grad=True)
        left = m @ x
        assert isinstance(left, ad.Tensor)
        left.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), m.T @ np.ones((4, 2)))
        z = ad.rand(2, 4, dtype=ad.float32, requires_grad=True)
        right = z @ m
        assert right.dtype == ad.float32
        right.sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), np.ones((2, 3)) @ m.T.toarray(), 1e-6)
        np.testing.assert_allclose((m @ x[:, 0]).detach().numpy(), m @ x[:, 0].detach().numpy())
    with pytest.raises(TypeError, match="float dtype"):
        ad.ones(2, 4, dtype=ad.int64) @ matrix


def test_compiled_functions_leave_sparse_tensors_to_eager_code() -> None:
    s, x = coo(), ad.rand(3, 2, dtype=ad.float64)
    compiled = ad.compile(lambda x: s @ x)
    with pytest.warns(UserWarning, match="sparse"):
        np.testing.assert_array_equal(compiled(x).numpy(), (s @ x).numpy())
