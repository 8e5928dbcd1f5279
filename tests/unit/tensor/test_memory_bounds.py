"""No tensor shows memory outside its storage, and no size wraps around.

Writes are looked for with guard bytes: tensors lie in the middle of an array whose other elements
must keep their values. The calls that are refused stand in tables; every op of the library is tried
with extreme numbers by `tests/property/test_extremes.py`.
"""

from __future__ import annotations

import ctypes
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import _core, func

HUGE = 2**62
GUARD = 7.0
# A view cannot grow, nor can the memory of an array.
REFUSALS = ("the memory it is a view of", "out of bounds for storage", "not resizable")


class Guarded:
    """Four elements with guards on both sides."""

    def __init__(self) -> None:
        self.memory = np.full(256, GUARD, dtype=np.float32)
        self.array = self.memory[128:132]
        self.tensor = ad.from_numpy(self.array)

    def check(self) -> None:
        outside = np.delete(self.memory, slice(128, 132))
        assert (outside == GUARD).all(), np.flatnonzero(outside != GUARD)


def inside(t: Any) -> bool:
    """Whether a tensor lies within its storage, its first element too."""
    start, size = _core._storage(t)
    begin = t.storage_offset() * t.itemsize
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) * t.itemsize
    end = begin + (reach + t.itemsize if t.numel() else 0)
    return bool(start >= 0 and 0 <= begin <= end <= size)


# --- empty views behind the end -------------------------------------------------------------------
PAST: dict[str, Callable[[Any], Any]] = {
    "slices": lambda t: t[::40][1:],
    "steps": lambda t: t[::40][1:][::3],
    "as_strided": lambda t: t.as_strided((0,), (1,), 40),
    "as_strided far": lambda t: t.as_strided((0,), (1,), HUGE),
    "narrow": lambda t: t[::40].narrow(0, 1, 0),
    "split": lambda t: t[::40].split([1, 0])[1],
    "tensor_split": lambda t: t[::40].tensor_split([1])[1],
    "select": lambda t: t.as_strided((2, 0), (40, 1)).select(0, 1),
    "unbind": lambda t: t.as_strided((2, 0), (40, 1)).unbind(0)[1],
    "diagonal": lambda t: t.as_strided((0, 2), (1, 40)).diagonal(1),
    "unfold": lambda t: t[::40][1:].unfold(0, 0, 1)[1:],
    "matrix": lambda t: t.view(2, 2)[::40][1:],
    "transposed": lambda t: t.view(2, 2)[::40][1:].T,
    "expanded": lambda t: t[::40][1:].expand(3, 0),
    "flattened": lambda t: t.view(2, 2)[::40][1:].flatten(),
    "detached": lambda t: t[::40][1:].detach(),
    "data": lambda t: t[::40][1:].data,
    "dtype": lambda t: t.view(ad.int32)[::40][1:].view(ad.float32),
}

WRITERS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda t: ad.sin(ad.ones(3), out=t),
    "add": lambda t: ad.add(ad.ones(3), 1, out=t),
    "cat": lambda t: ad.cat([ad.ones(2), ad.ones(2)], out=t),
    "mm": lambda t: ad.mm(ad.ones(2, 2), ad.ones(2, 2), out=t),
    "sum": lambda t: ad.sum(ad.ones(3, 3), 0, out=t),
    "arange": lambda t: ad.arange(5.0, out=t),
    "zeros": lambda t: ad.zeros(7, out=t),
    "sort": lambda t: ad.sort(ad.ones(3), out=(t, ad.empty(0, dtype=ad.int64))),
    "transposed": lambda t: ad.sin(ad.ones(2, 3).T, out=t),
    "randn": lambda t: ad.randn(5, out=t),
    "resize_": lambda t: t.resize_(3).fill_(1.0),
    "resize_as_": lambda t: t.resize_as_(ad.ones(2, 2)).fill_(1.0),
    "set_": lambda t: t.set_(t, 0, (1,), (1,)).fill_(1.0),
    "as_strided_": lambda t: t.as_strided_((2,), (1,)).fill_(1.0),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("view", PAST)
def test_nothing_is_written_behind_the_end(view: str, writer: str) -> None:
    g = Guarded()
    t = PAST[view](g.tensor)
    assert t.numel() == 0 and inside(t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            WRITERS[writer](t)
        except (RuntimeError, ValueError) as error:
            assert any(word in str(error) for word in REFUSALS)
    assert inside(t)
    g.check()


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_behind_a_full_tensor(writer: str) -> None:
    g = Guarded()
    t = g.tensor[2:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            WRITERS[writer](t)
        except (RuntimeError, ValueError) as error:
            assert any(word in str(error) for word in REFUSALS)
    assert inside(t)
    g.check()


def test_an_empty_view_keeps_working() -> None:
    t = ad.ones(4)[::40][1:]
    assert t.shape == (0,) and t.stride() == (40,) and t.sum() == 0
    assert (t + 1).shape == (0,) and ad.cat([t, ad.ones(2)]).tolist() == [1, 1]
    x = ad.ones(4, requires_grad=True)
    (x * 2)[::40][1:].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 0, 0]


def test_gradients_of_empty_windows_far_away() -> None:
    x = ad.ones(4, requires_grad=True)
    y = (x * 2).as_strided((0,), (1,), HUGE)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [ad.int8, ad.float16, ad.float64, ad.int64])
def test_bytes_seen_as_another_dtype_have_no_history(dtype: Any) -> None:
    base = ad.ones(8)
    seen, whole = base.view(dtype), base.view(8)
    base.resize_(2)
    whole.requires_grad_()
    base.requires_grad_()
    with ad.no_grad():
        whole.mul_(2)
    assert seen.is_leaf and seen.grad_fn is None and not seen.requires_grad


def test_a_method_of_a_subclass_cannot_exchange_the_memory() -> None:
    class Other(ad.Tensor):
        def transpose(self, *_: Any) -> Any:
            return ad.ones(100)

    class NoTensor(ad.Tensor):
        def transpose(self, *_: Any) -> Any:
            return 3

    with pytest.raises(RuntimeError, match="returned other memory than its own"):
        ad.ones(2, 2).as_subclass(Other).transpose_(0, 1)
    with pytest.raises(TypeError, match="returned int, not a Tensor"):
        ad.ones(2, 2).as_subclass(NoTensor).transpose_(0, 1)


def test_arrays_of_ctypes_have_no_strides() -> None:
    array = ((ctypes.c_float * 3) * 2)((1, 2, 3), (4, 5, 6))
    core: Any = _core
    t = core._from_buffer(array)
    assert t.tolist() == [[1, 2, 3], [4, 5, 6]] and t.stride() == (3, 1) and inside(t)


# --- sizes that wrap ------------------------------------------------------------------------------
def wide(*shape: int) -> Any:
    return ad.ones((1,) * len(shape)).expand(shape)


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "split": lambda: ad.ones(6).split([HUGE] * 4 + [6]),
    "split to zero": lambda: ad.ones(0).split([2**63 - 1, 2**63 - 1, 2]),
    "split_with_sizes": lambda: ad.ones(6).split_with_sizes([HUGE] * 4 + [6]),
    "cat": lambda: ad.cat([wide(HUGE)] * 4),
    "cat of two": lambda: ad.cat([wide(HUGE)] * 2),
    "cat of one more": lambda: ad.cat([wide(HUGE)] * 4 + [ad.ones(3)]),
    "cat along 1": lambda: ad.cat([wide(1, HUGE)] * 4, 1),
    "hstack": lambda: ad.hstack([wide(HUGE)] * 4),
    "vstack": lambda: ad.vstack([wide(HUGE, 1)] * 4),
    "dstack": lambda: ad.dstack([wide(1, 1, HUGE)] * 4),
    "column_stack": lambda: ad.column_stack([wide(1, HUGE)] * 4),
    "block_diag": lambda: ad.block_diag(*[wide(HUGE, 1)] * 4),
    "block_diag of rows": lambda: ad.block_diag(*[wide(1, HUGE)] * 4),
    "block_diag of both": lambda: ad.block_diag(*[wide(2**31, 2**31)] * 2),
    "stack": lambda: ad.stack([wide(HUGE)] * 4),
    "kron": lambda: ad.kron(wide(2**32), wide(2**32)),
    "outer": lambda: ad.outer(wide(2**32), wide(2**32)),
    "repeat": lambda: ad.ones(4).repeat(HUGE),
    "repeat of rows": lambda: ad.ones(4).repeat(2**32, 2**32),
    "tile": lambda: ad.ones(4).tile((HUGE,)),
    "repeat_interleave": lambda: ad.ones(4).repeat_interleave(HUGE),
    "repeat_interleave of each": lambda: ad.ones(4).repeat_interleave(ad.tensor([HUGE] * 4)),
    "repeat_interleave of one": lambda: ad.ones(4).repeat_interleave(ad.tensor([HUGE])),
    "expand": lambda: ad.ones(1).expand(HUGE, 4),
    "expand empty": lambda: ad.ones(1, 1, 0).expand(HUGE, 4, 0),
    "broadcast": lambda: wide(HUGE, 1) + wide(4),
    "broadcast_tensors": lambda: ad.broadcast_tensors(wide(HUGE, 1), wide(4)),
    "meshgrid": lambda: ad.meshgrid(wide(2**32), wide(2**32), indexing="ij"),
    "cartesian_prod": lambda: ad.cartesian_prod(wide(2**32), wide(2**32)),
    "cartesian_prod of many": lambda: ad.cartesian_prod(*[ad.ones(2)] * 60),
    "unfold": lambda: wide(HUGE).unfold(0, 2**61, 1),
    "view": lambda: ad.ones(0).view(HUGE, 4, 0),
    "reshape": lambda: ad.ones(0).reshape(2**32, 2**32, 0),
    "unflatten": lambda: ad.ones(0).unflatten(0, (2**32, 2**32)),
    "unflatten round": lambda: ad.ones(6).unflatten(0, (2**63 - 1, 2**63 - 1, 6)),
    "empty": lambda: ad.empty(2**32, 2**32),
    "empty of zero": lambda: ad.empty(2**32, 2**32, 0),
    "zeros": lambda: ad.zeros(HUGE),
    "full": lambda: ad.full((HUGE, 4), 1.0),
    "new_zeros": lambda: ad.ones(1).new_zeros(HUGE, 4),
    "empty_strided": lambda: ad.empty_strided((3,), (HUGE,)),
    "eye": lambda: ad.eye(2**32),
    "arange": lambda: ad.arange(HUGE),
    "arange of floats": lambda: ad.arange(1e18),
    "arange by little": lambda: ad.arange(0.0, 1.0, 1e-30),
    "linspace": lambda: ad.linspace(0, 1, HUGE),
    "logspace": lambda: ad.logspace(0, 1, HUGE),
    "tril_indices": lambda: ad.tril_indices(2**31, 5),
    "tril_indices square": lambda: ad.tril_indices(2**63 - 1, 2**63 - 1),
    "triu_indices": lambda: ad.triu_indices(5, 2**40),
    "triu_indices below": lambda: ad.triu_indices(2**62, 2**62, -(2**62)),
    "combinations": lambda: ad.combinations(ad.arange(100), 60),
    "combinations again": lambda: ad.combinations(ad.arange(100), 60, True),
    "combinations of many": lambda: ad.combinations(ad.arange(2), HUGE, True),
    "bincount": lambda: ad.bincount(ad.tensor([HUGE])),
    "bincount at the end": lambda: ad.bincount(ad.tensor([2**63 - 1])),
    "bincount minlength": lambda: ad.bincount(ad.tensor([1]), minlength=2**63 - 1),
    "histc": lambda: ad.histc(ad.ones(3), bins=2**60),
    "one_hot": lambda: F.one_hot(ad.tensor([0]), HUGE),
    "one_hot by value": lambda: F.one_hot(ad.tensor([HUGE])),
    "pad": lambda: F.pad(ad.ones(3), (HUGE, HUGE)),
    "pad far": lambda: F.pad(ad.ones(3), (2**63 - 1, 2**63 - 1)),
    "diag_embed": lambda: ad.ones(3).diag_embed(2**63 - 1),
    "diag_embed below": lambda: ad.ones(3).diag_embed(-(2**63)),
    "diag": lambda: ad.ones(3).diag(HUGE),
    "as_strided": lambda: ad.ones(3).as_strided((3,), (HUGE,)),
    "as_strided offset": lambda: ad.ones(3).as_strided((1,), (1,), 2**63 - 1),
    "as_strided before": lambda: ad.ones(3).as_strided((1,), (1,), -1),
    "as_strided empty before": lambda: ad.ones(3).as_strided((0,), (1,), -1),
    "as_strided round": lambda: ad.ones(3).as_strided((5, 5), (HUGE, 2**63 - 1)),
    "as_strided_scatter": lambda: ad.ones(3).as_strided_scatter(ad.ones(2), (2,), (HUGE,)),
    "resize_": lambda: ad.ones(3).resize_(HUGE, 4),
    "set_": lambda: ad.ones(3).set_(ad.ones(3), 0, (2,), (HUGE,)),
    "set_ offset": lambda: ad.ones(3).set_(ad.ones(3), HUGE, (1,), (1,)),
    "roll": lambda: ad.ones(3).roll(-(2**63)),
    "matmul": lambda: wide(2**16, 2**31 - 1) @ wide(2**31 - 1, 2**20),
    "mv": lambda: wide(2**32, 2**31) @ wide(2**31),
    "bmm": lambda: ad.bmm(wide(2**30, 2**20, 1), wide(2**30, 1, 2**20)),
    "einsum": lambda: ad.einsum("i,j->ij", wide(2**32), wide(2**32)),
    "clone": lambda: wide(HUGE).clone(),
    "contiguous": lambda: wide(2**45).contiguous(),
    "add": lambda: wide(HUGE) + 1,
    "cumsum": lambda: wide(2**45).cumsum(0),
    "sort": lambda: wide(2**45).sort(),
    "nonzero": lambda: wide(2**45).nonzero(),
    "gather": lambda: ad.ones(3).gather(0, ad.zeros(1, dtype=ad.int64).expand(2**45)),
    "index": lambda: ad.ones(3)[ad.zeros(1, dtype=ad.int64).expand(2**45)],
    "masked_select": lambda: ad.masked_select(wide(2**45), wide(2**45) > 0),
    "tolist": lambda: wide(2**45).tolist(),
    "tolist of rows": lambda: wide(2**25, 2**20).tolist(),
    "iter": lambda: iter(wide(2**40)),
    "unbind": lambda: wide(2**40).unbind(),
    "split into many": lambda: wide(2**40).split(1),
    "chunk": lambda: wide(2**40).chunk(2**39),
    "tensor_split": lambda: wide(2**40).tensor_split(2**40),
    "hsplit": lambda: wide(2**40).hsplit(2**40),
    "numpy": lambda: wide(2**45).clone().numpy(),
    "randn": lambda: ad.randn(2**32, 2**32),
    "randperm": lambda: ad.randperm(2**45),
    "multinomial": lambda: ad.multinomial(ad.ones(3), 2**45, replacement=True),
    "mul": lambda: ad.ones(2**20).unsqueeze(1).expand(2**20, 2**40) * 1,
    "vmap": lambda: func.vmap(lambda t: t.expand(HUGE, 1))(ad.ones(4, 1)),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_sizes_that_cannot_be_are_refused_at_once(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)) as caught:
        TOO_LARGE[name]()
    assert str(caught.value)


def test_the_message_has_the_numbers() -> None:
    with pytest.raises(RuntimeError, match=r"overflow.* 9223372036854775807 \+ 3 exceeds 64 bits"):
        ad.cat([wide(2**63 - 1), ad.ones(3)])
    with pytest.raises(RuntimeError, match="ways to choose 60 of 100 elements"):
        ad.combinations(ad.arange(100), 60)
    with pytest.raises(RuntimeError, match="171798691744 bytes"):
        ad.tril_indices(2**31, 5)


def test_extreme_numbers_that_mean_something() -> None:
    m = ad.arange(6.0).view(2, 3)
    top, low = 2**63 - 1, -(2**63)
    assert m[::top].tolist() == [[0, 1, 2]] and m[:, ::HUGE].tolist() == [[0], [3]]
    assert m[low:top].equal(m) and m[top:].numel() == 0
    assert m.diagonal(top).numel() == 0 and m.diagonal(low).numel() == 0
    assert m.tril(top).equal(m) and m.triu(low).equal(m) and m.tril(low).sum() == 0
    assert m.unfold(1, 2, top).tolist() == [[[0, 1]], [[3, 4]]]
    assert m.roll(top, 0).equal(m.roll(1, 0)) and m.rot90(top).equal(m.rot90(3))
    assert [len(p) for p in ad.ones(3).split(top)] == [3]
    assert [len(p) for p in ad.ones(3).chunk(top)] == [1, 1, 1]
    assert ad.combinations(ad.ones(2), HUGE).shape == (0, HUGE)
    assert ad.ones(5).diff(n=top).shape == (0,)
    assert ad.ones(HUGE, 0).diff(n=HUGE - 1, dim=0).shape == (1, 0)
    assert ad.ones(1, 0).repeat(HUGE, 3).shape == (HUGE, 0)
    assert wide(2**40).repeat_interleave(ad.tensor([0])).shape == (0,)
    assert wide(HUGE)[5:9].sum() == 4
    x = ad.ones(2, 3, requires_grad=True)
    x.unfold(1, 2, top).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("lower", [True, False])
def test_triangles_are_counted_right(lower: bool) -> None:
    find = ad.tril_indices if lower else ad.triu_indices
    table = np.tril_indices if lower else np.triu_indices
    for rows in range(6):
        for columns in range(6):
            for offset in range(-7, 8):
                got = find(rows, columns, offset)
                want = np.stack(table(rows, offset, columns))
                assert got.tolist() == want.tolist(), (rows, columns, offset)
    assert find(2**40, 2**40, -(2**40) + 1 if lower else 2**40 - 1).numel() == 2


def test_combinations_are_counted_right() -> None:
    for n in range(6):
        for r in range(1, 7):
            v = ad.arange(n)
            once = [list(c) for c in itertools.combinations(range(n), r)]
            again = [list(c) for c in itertools.combinations_with_replacement(range(n), r)]
            assert ad.combinations(v, r).tolist() == once
            assert ad.combinations(v, r, True).tolist() == again


# --- axes -----------------------------------------------------------------------------------------
MOST = (1,) * 64


def many() -> Any:
    return ad.ones(MOST)


TOO_MANY: dict[str, Callable[[], Any]] = {
    "view": lambda: ad.ones(1).view((1,) * 65),
    "view round": lambda: ad.ones(1).view((1,) * 256),
    "reshape": lambda: ad.ones(1).reshape((1,) * 300),
    "reshape of a copy": lambda: ad.ones(2, 2).T.reshape((4, *MOST)),
    "unsqueeze": lambda: many().unsqueeze(0),
    "unsqueeze_": lambda: many().unsqueeze_(-1),
    "None": lambda: many()[None],
    "None at the end": lambda: many()[..., None],
    "Nones": lambda: ad.ones(1)[(None,) * 70],
    "expand": lambda: ad.ones(1).expand((1,) * 65),
    "broadcast_to": lambda: ad.ones(1).broadcast_to((1,) * 65),
    "as_strided": lambda: ad.ones(1).as_strided((1,) * 65, (1,) * 65),
    "as_strided_": lambda: ad.ones(1).as_strided_((1,) * 256, (1,) * 256),
    "unflatten": lambda: many().unflatten(0, (1, 1)),
    "unfold": lambda: many().unfold(0, 1, 1),
    "stack": lambda: ad.stack([many(), many()]),
    "tensordot": lambda: ad.tensordot(many(), many(), dims=0),
    "meshgrid": lambda: ad.meshgrid(*[ad.ones(1)] * 65, indexing="ij"),
    "diag_embed": lambda: many().diag_embed(),
    "view_as_real": lambda: ad.view_as_real(ad.ones(MOST, dtype=ad.complex64)),
    "repeat": lambda: ad.ones(1).repeat((1,) * 65),
    "tile": lambda: ad.ones(1).tile((1,) * 65),
    "repeat_interleave": lambda: many().repeat_interleave(2, 0),
    "resize_": lambda: ad.ones(1).resize_((1,) * 65),
    "set_": lambda: ad.ones(1).set_(ad.ones(1), 0, (1,) * 65, (1,) * 65),
    "empty": lambda: ad.empty((0,) * 65),
    "empty_strided": lambda: ad.empty_strided((1,) * 65, (1,) * 65),
    "vmap": lambda: func.vmap(lambda t: t.view(MOST))(ad.ones(3, 1)),
    "compile": lambda: ad.compile(lambda t: t.view((1,) * 65))(ad.ones(1)),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_than_64_axes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="at most 64 dimensions, got"):
        TOO_MANY[name]()


def test_64_axes_work() -> None:
    x = many().requires_grad_()
    y = (x * x).repeat((2,) + (1,) * 63)
    assert y.shape == (2, *MOST[1:]) and y.sum(63).dim() == 63 and y.stride(0) == 1
    y.sum().backward()
    assert x.grad is not None and x.grad.shape == MOST and x.grad.item() == 4
    assert ad.kron(many(), 2 * many()).shape == MOST and many().flip(0, 63).shape == MOST
    assert many().nonzero().shape == (1, 64) and many()[many() > 0].shape == (1,)
    assert many().sort(63).values.shape == MOST and many().permute(*range(63, -1, -1)).shape == MOST
    assert ad.cat([many(), many()], 63).shape == (*MOST[1:], 2)


def test_repeats_of_many_axes_and_of_fewer() -> None:
    for shape, repeats in [((2, 3), (2, 1, 3)), ((2, 3), (1, 1)), ((), (2, 2)), ((1, 3), (4, 1))]:
        x = ad.randn(shape, requires_grad=True)
        y = x.repeat(repeats)
        assert np.array_equal(y.detach().numpy(), np.tile(x.detach().numpy(), repeats))
        y.sum().backward()
        assert x.grad is not None and x.grad.shape == shape
        assert (x.grad == int(np.prod(repeats))).all()


# --- samples --------------------------------------------------------------------------------------
def test_samples_of_an_empty_batch() -> None:
    seen: list[Any] = []

    def f(t: Any) -> Any:
        seen.append((t.shape, t.dtype))
        return (t * 2 + ad.ones(3)).sum(), t.sin()

    total, sine = func.vmap(f)(ad.ones(0, 3))
    assert seen == [((3,), ad.float32)] and total.shape == (0,) and sine.shape == (0, 3)
    gradient = func.vmap(func.grad(lambda t: (t * t).sum()))(ad.ones(0, 3))
    assert gradient.shape == (0, 3) and inside(gradient)


# --- compiled functions ---------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::adjoint.compiler.CompileWarning")
def test_masked_scatter_of_a_differentiable_source() -> None:
    def f(x: Any, mask: Any, source: Any) -> Any:
        return (x.masked_scatter(mask, source.sin()) * 2).sum()

    compiled = ad.compile(f)
    for _ in range(3):
        x, source = ad.randn(4, requires_grad=True), ad.randn(6, requires_grad=True)
        mask = ad.tensor([True, False, True, True])
        got = ad.autograd.grad(compiled(x, mask, source), (x, source))
        want = ad.autograd.grad(f(x, mask, source), (x, source))
        assert all(a.equal(b) for a, b in zip(got, want, strict=True))


def test_a_recorded_window_does_not_leave_a_smaller_storage() -> None:
    compiled = ad.compile(lambda t: t.as_strided((6,), (1,)).sin() + 1)
    large = ad.arange(20.0)
    assert compiled(large[3:6]).equal(large[3:9].sin() + 1)
    assert compiled(large[5:8]).equal(large[5:11].sin() + 1)
    with pytest.raises(RuntimeError, match="out of bounds for storage of 3"):
        compiled(ad.arange(3.0))


def test_an_empty_view_in_a_program() -> None:
    compiled = ad.compile(lambda t: ad.cat([t[::40][1:], t * 2]))
    for n in (4, 4, 4):
        g = Guarded()
        assert compiled(g.tensor).tolist() == [14.0] * n
        g.check()
