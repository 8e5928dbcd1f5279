"""Forward mode where elements of a primal share memory: expanded, unfolded and strided at will."""

from __future__ import annotations

import math
import random

import pytest

import adjoint as ad
from adjoint.autograd import forward_ad as fw


def line(size: int, dtype: ad.dtype) -> ad.Tensor:
    steps = ad.arange(1, size + 1).to(dtype)
    return steps * (1 + 0.5j) if dtype.is_complex else steps


SHARED = {
    "expanded": lambda dtype: line(3, dtype).expand(2, 3),
    "a column": lambda dtype: line(2, dtype)[:, None].expand(2, 3),
    "one number": lambda dtype: line(1, dtype).expand(2, 3),
    "unfolded": lambda dtype: line(4, dtype).unfold(0, 3, 1),
    "strided": lambda dtype: line(9, dtype).as_strided((2, 3), (2, 1), 1),
    "of a part": lambda dtype: line(9, dtype)[3::2].expand(2, 3),
}
every = pytest.mark.parametrize("make", SHARED.values(), ids=SHARED.keys())


def dense(shape: tuple[int, ...], dtype: ad.dtype = ad.float64) -> ad.Tensor:
    return line(math.prod(shape), dtype).reshape(shape)


@every
def test_each_element_has_a_tangent_of_its_own(make) -> None:
    x, v = make(ad.float64), dense((2, 3))
    value, moved = ad.func.jvp(lambda x: x * x, (x,), (v,))
    assert ad.equal(value, x * x)
    assert ad.equal(moved, 2 * x * v)
    assert ad.equal(ad.autograd.functional.jvp(lambda x: x * x, x, v)[1], 2 * x * v)
    with fw.dual_level():
        assert ad.equal(fw.unpack_dual(fw.make_dual(x, v)).tangent, v)


@every
def test_jacobians_are_those_of_a_copy(make) -> None:
    x = make(ad.float64)
    for transform in (ad.func.jacfwd, ad.func.hessian):
        assert ad.equal(
            transform(lambda x: (x**3).sum(1))(x), transform(lambda x: (x**3).sum(1))(x.clone())
        )
    forward = ad.autograd.functional.jacobian(
        lambda x: x**2, x, strategy="forward-mode", vectorize=True
    )
    assert ad.equal(forward, ad.func.jacrev(lambda x: x**2)(x))


@every
def test_samples_of_vmap_have_tangents_of_their_own(make) -> None:
    x, v = make(ad.float64), dense((4, 2, 3))

    def moved(x: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        return ad.func.jvp(lambda x: (x * x).t(), (x,), (v,))[1]

    for xs, dims in ((x, (None, 0)), (x.expand(4, 2, 3), (0, 0))):
        expected = ad.stack([(2 * x * w).t() for w in v])
        assert ad.equal(ad.func.vmap(moved, dims)(xs, v), expected)
    rows = ad.func.vmap(lambda row, v: ad.func.jvp(lambda x: x * x, (row.expand(2, 3),), (v,))[1])
    assert ad.equal(rows(x[0].expand(4, 3), v), 2 * x[0] * v)


def test_it_is_differentiated_further() -> None:
    x, v = ad.tensor([2.0], dtype=ad.float64), dense((3,))

    def moved(x: ad.Tensor) -> ad.Tensor:
        return ad.func.jvp(lambda x: (x**3).sum(), (x.expand(3),), (v,))[1]

    assert ad.equal(moved(x), 12 * v.sum())
    assert ad.equal(ad.func.grad(moved)(x), 6 * x * v.sum())
    assert ad.equal(ad.func.jvp(moved, (x,), (ad.ones_like(x),))[1], 6 * x[0] * v.sum())
    compiled = ad.compile(moved)
    assert [compiled(x).item() for _ in range(3)] == [moved(x).item()] * 3


@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128])
@every
def test_what_as_strided_reads_is_the_transpose_of_its_gradient(make, dtype: ad.dtype) -> None:
    x, v = make(dtype), dense((2, 3), dtype)
    size = min(3, x.untyped_storage().nbytes() // x.itemsize - x.storage_offset())
    geometry = ((size, 2), (1, 0), x.storage_offset())
    seen, pull = ad.func.vjp(lambda x: x.as_strided(*geometry), x)
    u = dense(seen.shape, dtype)
    moved = ad.func.jvp(lambda x: x.as_strided(*geometry), (x,), (v,))[1]
    assert ad.allclose((u.conj() * moved).sum(), (pull(u)[0].conj() * v).sum())


@every
def test_a_change_in_place_that_tangents_could_not_follow_is_refused(make) -> None:
    with fw.dual_level():
        x = fw.make_dual(make(ad.float64).detach(), dense((2, 3)))
        before = x.clone()
        for change in (x, x[0]):
            with pytest.raises(RuntimeError, match=r"clone\(\)"):
                change.mul_(2)
        assert ad.equal(x, before)
        x.clone().mul_(2)


def test_a_tangent_laid_out_as_its_primal_follows_changes() -> None:
    with fw.dual_level():
        line = fw.make_dual(ad.arange(4.0), ad.ones(4))
        windows = line.unfold(0, 3, 1)
        windows.mul_(2)
        assert ad.equal(fw.unpack_dual(line).tangent, 2 * ad.ones(4))
        assert ad.equal(fw.unpack_dual(windows).tangent, 2 * ad.ones(2, 3))


def test_views_made_without_tangents_find_them_later() -> None:
    with fw.dual_level():
        x = fw.make_dual(ad.tensor(1.0).expand(2, 3), ad.arange(6.0).reshape(2, 3))
        with fw.set_fwd_grad_enabled(False):
            row = x[1]
        assert ad.equal(fw.unpack_dual(row).tangent, ad.full((3,), 2.5))  # of all at its place


VIEWS = (
    lambda x, r: x.t() if x.ndim == 2 else x.transpose(0, -1),
    lambda x, r: x[r.randrange(x.shape[0])] if x.ndim > 1 else x,
    lambda x, r: x.narrow(0, 0, max(1, x.shape[0] - 1)),
    lambda x, r: x.flip(0),
    lambda x, r: x.unsqueeze(r.randrange(x.ndim + 1)),
    lambda x, r: x.reshape(-1),
    lambda x, r: x.reshape(-1, 1).expand(-1, 2),
    lambda x, r: x.unfold(0, 1, 1),
    lambda x, r: x.diagonal() if x.ndim > 1 else x,
    lambda x, r: x.conj(),
    lambda x, r: ad.view_as_real(x.resolve_conj()) if x.is_complex() else x,
    lambda x, r: x * 3,
    lambda x, r: x.movedim(-1, 0),
    lambda x, r: x.unbind(0)[0] if x.ndim > 1 else x,
    lambda x, r: x.chunk(2)[0],
)


@pytest.mark.parametrize("seed", range(60))
def test_any_views_of_it_have_the_tangents_of_a_copys(seed: int) -> None:
    choose = random.Random(seed)
    dtype = choose.choice([ad.float64, ad.complex128])
    x = choose.choice(list(SHARED.values()))(dtype)
    x = choose.choice([lambda x: x, lambda x: x.conj(), lambda x: x.t(), lambda x: x[:, :2]])(x)
    v = dense(tuple(x.shape), dtype)
    picks = [(choose.choice(VIEWS), choose.random()) for _ in range(choose.randrange(1, 7))]

    def program(x: ad.Tensor) -> ad.Tensor:
        for step, number in picks:
            x = step(x, random.Random(number))
        return x * x if choose.random() < 0.5 else x

    state = choose.getstate()
    found = ad.func.jvp(program, (x,), (v,))
    choose.setstate(state)
    expected = ad.func.jvp(program, (x.clone(memory_format=ad.contiguous_format),), (v,))
    assert ad.equal(found[0], expected[0])
    assert ad.equal(found[1], expected[1])
    choose.setstate(state)
    samples = ad.func.vmap(lambda v: ad.func.jvp(program, (x,), (v,))[1])(ad.stack([v, 2 * v]))
    assert ad.allclose(samples, ad.stack([expected[1], 2 * expected[1]]))
