"""Conjugate and negative bits: views that compute nothing, and what they are written into."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import adjoint as ad

Z = [[1 + 2j, 3 - 1j], [0.5j, 2.0]]


def make() -> tuple[ad.Tensor, ad.Tensor]:
    x = ad.tensor(Z, dtype=ad.complex64)
    return x, x.conj()


def test_conj_is_a_view_that_computes_nothing() -> None:
    x, c = make()
    assert c.is_conj() and not x.is_conj() and ad.is_conj(c)
    assert c._base is x and c.data_ptr() == x.data_ptr()
    assert c.tolist() == x.conj_physical().tolist()
    assert not c.conj().is_conj() and c.conj()._base is x
    assert x.mH.is_conj() and x.H.is_conj() and x.adjoint().is_conj() and not c.mH.is_conj()
    x[0, 0] = 5j
    assert c[0, 0].item() == -5j


def test_the_imaginary_part_of_a_conjugate_is_a_negative_view() -> None:
    x, c = make()
    assert c.imag.is_neg() and not c.real.is_neg() and ad.is_neg(c.imag)
    assert c.imag.tolist() == (-x.imag).tolist()
    assert not c.imag.resolve_neg().is_neg() and c.imag.resolve_conj().is_neg()
    assert not c.imag._neg_view().is_neg()


def test_resolving_copies_what_is_pending_alone() -> None:
    x, c = make()
    assert x.resolve_conj() is x and c.resolve_neg() is c
    solved = c.resolve_conj()
    assert not solved.is_conj() and solved._base is None and solved.tolist() == c.tolist()
    assert ad.tensor([1.0]).conj_physical() is not None


def test_what_is_written_reaches_memory_with_the_sign_turned() -> None:
    x, c = make()
    c[0] = 1j
    assert x[0].tolist() == [-1j, -1j]
    c.mul_(1j)
    assert x[0].tolist() == [-1, -1]
    c.imag.fill_(3)
    assert x.imag.tolist() == [[-3, -3], [-3, -3]]
    ad.add(x, 1j, out=c)
    assert x.imag.tolist() == [[2, 2], [2, 2]]
    assert x._version == 4


def test_memory_is_not_handed_out() -> None:
    _, c = make()
    with pytest.raises(RuntimeError, match=r"conjugate bit set. Use tensor.resolve_conj\(\)"):
        c.numpy()
    with pytest.raises(RuntimeError, match=r"negative bit set. Use tensor.resolve_neg\(\)"):
        c.imag.numpy()
    with pytest.raises(BufferError, match="conjugate bit"):
        c.__dlpack__()
    with pytest.raises(BufferError, match="negative bit"):
        c.imag.__dlpack__()
    with pytest.raises(BufferError, match="resolve_conj"):
        memoryview(c)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="resolve_neg"):
        memoryview(c.imag)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated"):
        ad.view_as_real(c)
    with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
        c.view(ad.float32)
    with pytest.raises(RuntimeError, match="tensors with negative bit set"):
        c.imag.view(ad.int32)
    with pytest.raises(RuntimeError, match="bool tensor has no negative"):
        ad.tensor([True])._neg_view()
    np.testing.assert_array_equal(c.numpy(force=True), np.conj(np.array(Z, np.complex64)))


def test_copies_files_and_pickles() -> None:
    _, c = make()
    for t in (c, c.imag, c._neg_view()):
        again = pickle.loads(pickle.dumps(t))
        file = io.BytesIO()
        ad.save({"t": t, "whole": c.conj()}, file)
        file.seek(0)
        loaded = ad.load(file)["t"]
        for made in (again, loaded):
            assert (made.is_conj(), made.is_neg()) == (t.is_conj(), t.is_neg())
            assert made._base is None and made.tolist() == t.tolist()
        deep = copy.deepcopy(t)
        assert not deep.is_conj() and not deep.is_neg() and deep.tolist() == t.tolist()
        assert copy.copy(t).is_conj() == t.is_conj()


def test_transforms_and_compiled_functions() -> None:
    x = ad.tensor(Z, dtype=ad.complex128)

    def f(t: ad.Tensor) -> ad.Tensor:
        c = t.conj()
        assert c.is_conj() != t.is_conj()
        return c.imag * 2 + (c * t).real + c.resolve_conj().real

    want = f(x)
    assert ad.func.vmap(f)(x).tolist() == want.tolist()
    value, tangent = ad.func.jvp(f, (x,), (x,))
    assert value.tolist() == want.tolist()
    h = 1e-6
    slope = (f(x + h * x) - f(x - h * x)) / (2 * h)
    np.testing.assert_allclose(tangent.tolist(), slope.tolist(), 1e-6)
    compiled = ad.compile(f, verify=True)
    for _ in range(3):
        assert compiled(x).tolist() == want.tolist()
        assert compiled(x.mH).tolist() == f(x.mH).tolist()


def test_compiled_functions_write_through_conjugates_and_return_them() -> None:
    def f(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        y = x * 2
        y.conj()[0].mul_(1j)
        y.conj().imag.add_(1)
        return y, y.conj()

    x = ad.tensor(Z, dtype=ad.complex128)
    compiled = ad.compile(f, verify=True)
    for _ in range(3):
        for got, want in zip(compiled(x), f(x), strict=True):
            assert got.is_conj() == want.is_conj() and got.tolist() == want.tolist()


def test_a_tensor_without_base_may_have_bits_and_a_history() -> None:
    x = ad.tensor(Z, dtype=ad.complex128)
    leaf = x.conj().detach().requires_grad_()
    assert leaf.is_conj() and leaf.is_leaf and leaf._base is None
    part = leaf.imag
    ((part * part).sum() + leaf.conj().imag.exp().sum()).backward()
    assert leaf.grad is not None
    im = leaf.detach().imag.resolve_neg()
    np.testing.assert_allclose(leaf.grad.imag.tolist(), (2 * im - (-im).exp()).tolist())
    y = (leaf * 1).detach().conj().detach()
    z = y.requires_grad_().view_as(y)
    assert z.is_conj()
    with ad.no_grad():
        leaf.imag.mul_(2)
    np.testing.assert_allclose(leaf.imag.tolist(), (2 * im).tolist())


def test_optimizers_step_on_parameters_with_bits() -> None:
    x, c = make()
    weight = ad.nn.Parameter(c)
    plain = ad.nn.Parameter(c.clone())
    for p in (weight, plain):
        optimizer = ad.optim.SGD([p], lr=0.1)
        (p.abs() ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(weight.tolist(), plain.tolist(), rtol=1e-6)
    np.testing.assert_allclose(x.conj().tolist(), plain.tolist(), rtol=1e-6)


def test_loops_carry_and_read_conjugates() -> None:
    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return (c * x).conj(), c.conj().imag

    def plain(init: ad.Tensor, xs: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        ys = []
        for x in xs:
            init, y = step(init, x)
            ys.append(y)
        return init, ad.stack(ys)

    x = ad.tensor(Z, dtype=ad.complex128)
    for given in (x, x.conj_physical().conj()):
        found = []
        for loop in (ad.scan, lambda f, init, xs: plain(init, xs)):
            leaf = given.clone().requires_grad_()
            init, ys = loop(step, leaf.conj()[0], given.conj())
            (init.abs().sum() + (ys * ys).sum()).backward()
            assert leaf.grad is not None
            found.append([init.tolist(), ys.tolist(), leaf.grad.tolist()])
        assert found[0] == found[1]
        assert ad.scan(step, given[0], given)[1].tolist() == plain(given[0], given)[1].tolist()
