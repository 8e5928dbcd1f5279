"""Conjugate and negative bits, beside PyTorch: what has them, what shares memory with what, what is
written through them, what refuses them.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

# x: complex; c: its conjugate; n: the imaginary part of that; r: real numbers.
EXPRESSIONS = """
c; n; c.conj(); c._conj(); x._conj(); x._neg_view(); c._neg_view(); n._neg_view(); r._neg_view()
x._neg_view().real; x._neg_view().imag; x._neg_view().conj(); c._neg_view().real; c._neg_view().imag
c.real; c.imag; n.real; n.conj(); torch.real(c); torch.imag(c); torch.conj(r)
torch.view_as_real(c); torch.view_as_real(x._neg_view()); torch.view_as_real(c.conj())
torch.view_as_complex(torch.view_as_real(x)._neg_view())
r.conj_physical(); r.resolve_conj(); r.resolve_neg(); x.resolve_conj(); c.conj_physical()
c.resolve_conj(); c.resolve_neg(); n.resolve_neg(); n.resolve_conj()
x._neg_view().resolve_conj(); c._neg_view().resolve_conj(); c._neg_view().resolve_neg()
c.clone(); c.contiguous(); c.t().contiguous(); n.contiguous(); c.to(torch.complex64)
c.to(torch.complex128); n.double(); n.float(); n.to(torch.float32, copy=True); c.cpu()
c.type(torch.complex64); c.type_as(x); c.positive(); +c; -c; -n; n.abs(); c + 0; c * 2; c @ c
c.view(4); c.view(torch.float32); n.view(torch.int32); c.reshape(4); c.t().reshape(4); c.flatten()
c.ravel(); c.unflatten(0, (1, 2)); c.mH; c.mT; x.mH; x.H; x.adjoint(); r.mH; r.adjoint(); x.T
c.as_strided((2,), (1,)); c.detach(); c.data; n.data; n.detach(); c.data.conj(); c.view_as(c)
c[0]; c[:, 0]; c[torch.tensor([0])]; c[r > 1]; c.select(0, 0); c.unbind()[0]; c.split(1)[0]
c.chunk(2)[0]; c.expand(3, 2, 2); c.broadcast_to(3, 2, 2); c.squeeze(); c.unsqueeze(0); c.diagonal()
c.unfold(0, 1, 1); c.permute(1, 0); c.movedim(0, 1); c.swapaxes(0, 1); torch.atleast_3d(c)
c.narrow(0, 0, 1); c.tril(); c.flip(0); c.roll(0); c.repeat(1, 1); c.cumsum(0); c.sum(); c.prod()
torch.cat([c, c]); torch.stack([c, x]); c.index_select(0, torch.tensor([0]))
torch.zeros_like(c); torch.ones_like(n); c.new_zeros(2); torch.as_tensor(c); torch.asarray(c)
torch.complex(n, n); torch.isreal(c); c.numpy(); n.numpy(); c.__array__(); c.numpy(force=True)
n.numpy(force=True); c.tolist(); n.tolist(); c[0, 0].item(); n[0, 0].item(); repr(c); repr(n)
complex(c[0, 0]); float(n[0, 0]); int(n[0, 0]); bool(n[0, 0]); c.__dlpack__(); list(c)[0]
torch.equal(c, x.conj_physical()); torch.equal(c, x); torch.equal(c, c); c.is_set_to(x)
torch.is_conj(c); torch.is_conj(x); torch.is_neg(n); torch.is_neg(c); c._is_view(); c._version
c.data_ptr() == x.data_ptr(); c.storage_offset(); c.stride(); c.is_complex(); c._base is x
copy.deepcopy(c); copy.deepcopy(n); copy.copy(c).is_conj(); pickle.loads(pickle.dumps(c)).clone()
pickle.loads(pickle.dumps(c)).is_conj(); pickle.loads(pickle.dumps(n)).is_neg(); saved(c); saved(n)
torch.nn.Parameter(c).is_conj(); torch.nn.Parameter(n).is_neg(); c.fill_diagonal_(5)
c.masked_fill_(r > 1, 1j); c.index_fill_(0, torch.tensor([0]), 1j);
c.index_put_((torch.tensor([0]),), torch.tensor(1j)); c.squeeze_(); c.transpose_(0, 1)
torch.fft.ifft(r).is_conj(); torch.fft.ihfft(r).is_conj(); torch.fft.ihfftn(r[0]).is_conj()
torch.fft.ihfftn(r).is_conj(); torch.fft.ifft(x).is_conj(); torch.dot(c[0], c[1])
torch.dot(x[0], c[1]); torch.vdot(x[0], c[1]); torch.vdot(c[0], x[1]); torch.vdot(c[0], c[1])
c[0] @ c[1]; torch.inner(c[0], c[1]).is_conj(); torch.svd(x).V.is_conj(); torch.svd(r).V.is_conj()
c.repeat_interleave(torch.tensor([1, 2]), 0); n.repeat_interleave(torch.tensor([1, 2]), 0)
c.repeat_interleave(2, 0); c.tensor_split(torch.tensor([1]))[0]; c.tensor_split(2)[0]
torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x, left=False).is_conj()
"""

# What is done, and then what is looked at: x, c and n.
CHANGES = """
c[0] = 1j; c[0, 1] = 2; c[r > 1] = 3j; c[torch.tensor([1])] = 4j; c.fill_(1j); c.zero_(); c.mul_(1j)
c.add_(1j); c.copy_(torch.full((2, 2), 1j)); c.copy_(x); x.copy_(c); c.copy_(c); c.copy_(r)
x._conj()[0].copy_(c[1]); n.fill_(3); n.add_(1); n.mul_(2); n.neg_(); c.neg_(); c.conj_physical_()
n.copy_(r); n[0] = 7; c.real.fill_(2); c.imag.fill_(2); c.sqrt_(); n.abs_(); c.mul_(c); x.mul_(c)
c.mul_(x); n.add_(n); n.add_(x.imag); x.imag.add_(n); torch.add(x, 1j, out=c)
torch.mul(c, c, out=x); torch.mul(x, x, out=c); torch.sum(c, 0, out=c[0])
torch.matmul(c, x, out=c)
x.data = c; c.data = x.clone(); c.t_(); c.unsqueeze_(0); c.lerp_(x, 0.5); c.addmm_(c, x); c.tril_()
c.index_add_(0, torch.tensor([0]), x[:1]); c.scatter_(0, torch.tensor([[1, 0]]), x[:1]); c.div_(2)
torch.index_select(c, 0, torch.tensor([1, 0]), out=c); n.clamp_(0); n.sub_(r); x.real = n
x.imag = n; c.swapaxes_(0, 1); c.cumsum_(0); c.masked_scatter_(r > 1, x); c.resize_(1); c.exp_()
n.pow_(2)
"""


def names(library: Any) -> dict[str, Any]:
    x = library.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]], dtype=library.complex64)
    c = x.conj()

    def saved(t: Any) -> Any:
        file = io.BytesIO()
        library.save(t, file)
        file.seek(0)
        loaded = library.load(file)
        return [loaded.is_conj(), loaded.is_neg(), loaded._base is None, loaded.tolist()]

    return {
        "torch": library, "copy": copy, "pickle": pickle, "saved": saved,
        "x": x, "c": c, "n": c.imag, "r": library.tensor([[1.0, 2.0], [0.0, 4.0]]),
    }  # fmt: skip


def facts(value: Any, given: dict[str, Any]) -> Any:
    if type(value).__name__ != "Tensor":
        return value.tolist() if isinstance(value, np.ndarray) else value
    shares = value.untyped_storage().data_ptr() == given["x"].untyped_storage().data_ptr()
    itself = next((k for k, v in given.items() if v is value), "")
    return {
        "values": value.tolist(), "dtype": str(value.dtype), "conj": value.is_conj(),
        "neg": value.is_neg(), "base": value._base is not None, "version": value._version,
        "stride": value.stride(), "shares": shares, "itself": itself,
    }  # fmt: skip


def outcome(library: Any, text: str, looks: tuple[str, ...] = ()) -> Any:
    given = names(library)
    try:
        if not looks:
            return facts(eval(text, given), given)
        exec(text, given)
    except Exception as error:
        return type(error).__name__
    return [facts(given[name], given) for name in looks]


def listed(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split("; ")]


@pytest.mark.parametrize("text", listed(EXPRESSIONS))
def test_expressions_have_torchs_values_and_bits(text: str) -> None:
    want = outcome(torch, text)
    assert repr(outcome(ad, text)) == repr(want)


@pytest.mark.parametrize("text", listed(CHANGES))
def test_changes_through_views_reach_memory_as_torchs(text: str) -> None:
    want = outcome(torch, text, ("x", "c", "n"))
    assert repr(outcome(ad, text, ("x", "c", "n"))) == repr(want)


GRADIENTS = """
c * y; c.imag * y.real; c.imag.exp(); (c @ y).real; x.mH @ y; x.H * y; c.clone(); c.resolve_conj()
c.conj() * c; c.imag._neg_view() * 2; c.view(4)[1:3]; c[0]; c.t() * y; c.contiguous() * y
torch.view_as_real(c.resolve_conj()); c.abs(); c.angle(); torch.linalg.inv(c); torch.fft.fft(c)
c.sum() * x; c.index_select(0, torch.tensor([1])); torch.where(y.real > 0, c, y); c.adjoint() @ x
c.prod(); c.cumprod(0); torch.linalg.solve(x.mH, y); torch.cat([c, y]); c.expand(2, 2, 2) * y
c.detach() * x; c.imag.square() + c.real.square(); c.reshape(-1)[::2]; c.unfold(0, 1, 1)
changed(c.clone(), lambda t: t.mul_(y)); changed(x * y, lambda t: t.conj().mul_(y))
changed(x * y, lambda t: t.conj()[0].copy_(x[1])); changed(x * y, lambda t: t.conj().imag.exp_())
changed(x * y, lambda t: t.conj().imag[0].mul_(3)); changed(x * y, lambda t: t.mH.add_(c))
changed(x * y, lambda t: t.real.copy_(c.imag)); changed(x * y, lambda t: t.conj().fill_(1j))
changed(x * y, lambda t: t._neg_view().mul_(c)); changed(x * y, lambda t: t.conj().t()[0].zero_())
changed(x * y, lambda t: t.conj().view(4)[1:3].mul_(y[0])); seen_after(x * y)
changed((x * y).conj(), lambda t: t.mul_(2)); changed(c * 1, lambda t: t.imag.copy_(c.imag))
"""


def gradient(library: Any, text: str) -> Any:
    x = library.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]], dtype=library.complex128)
    y = library.tensor([[0.5 - 1j, 1 + 1j], [2 + 0.25j, -1.5j]], dtype=library.complex128)
    x.requires_grad_()

    def changed(t: Any, change: Any) -> Any:
        change(t)
        return t

    def seen_after(t: Any) -> Any:
        view = t.conj()
        t.mul_(y)
        return view.imag * y.real

    given = {
        "x": x, "y": y, "c": x.conj(), "torch": library, "changed": changed,
        "seen_after": seen_after,
    }  # fmt: skip
    result = eval(text, given)
    node = type(result.grad_fn).__name__ if "changed" not in text else ""
    (first,) = library.autograd.grad(
        result, x, library.full_like(result, 0.5), create_graph=True, allow_unused=True
    )
    second = None
    if first is not None and first.requires_grad:
        (second,) = library.autograd.grad(first.abs().square().sum(), x, allow_unused=True)
    return [node, *(None if g is None else g.resolve_conj().tolist() for g in (first, second))]


@pytest.mark.parametrize("text", listed(GRADIENTS))
def test_gradients_and_nodes_are_torchs(text: str) -> None:
    got, want = gradient(ad, text), gradient(torch, text)
    assert got[0] in (want[0], "")
    for a, b in zip(got[1:], want[1:], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


# Random programs of views and changes: every tensor, and the memory behind all, after each step.
_VIEWS = [
    "t.conj()", "t.mH", "t.T", "t[0:1]", "t[:, 1:]", "t.real", "t.imag", "t._neg_view()",
    "t.view_as(t)", "t.detach()", "t.clone()", "t.contiguous()", "t.resolve_conj()", "t * u",
    "t.resolve_neg()", "t.data", "t.as_strided((2,), (1,))", "t.diagonal()", "t.reshape(-1)",
    "t.unsqueeze(0)", "t.conj_physical()",
]  # fmt: skip
_WRITES = [
    "t.mul_(2)", "t.add_(1)", "t.neg_()", "t.copy_(w)", "t.fill_(3)", "t.zero_()", "t[0] = 5",
    "t.conj_physical_()", "t.mul_(t)", "t.square_()", "t.copy_(t.conj())", "torch.neg(t, out=t)",
    "t.add_(w)", "torch.mul(t, t, out=t)", "t.set_(u)", "t.data = u", "t.abs_()", "t.sub_(w.real)",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_leave_the_same_tensors(seed: int) -> None:
    draw = random.Random(seed)
    start = np.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    pools = [[lib.tensor(start.tolist(), dtype=lib.complex128)] for lib in (ad, torch)]
    program = []
    for _ in range(12):
        make = draw.random() < 0.6
        text = draw.choice(_VIEWS if make else _WRITES)
        at, other = (draw.randrange(len(pools[0])) for _ in range(2))
        program.append((text, at, other))
        failed = []
        for pool, library in zip(pools, (ad, torch), strict=True):
            t, u = pool[at], pool[other]
            shared = t.untyped_storage().data_ptr() == u.untyped_storage().data_ptr()
            # Which element is written first where memory is shared is not stated.
            given = {"t": t, "u": u, "w": u.clone() if shared else u, "torch": library}
            try:
                if make:
                    pool.append(eval(text, given))
                else:
                    exec(text, given)
                failed.append(False)
            except (RuntimeError, IndexError):
                failed.append(True)
        assert failed[0] == failed[1], program
        for mine, theirs in zip(*pools, strict=True):
            for fact in ("is_conj", "is_neg"):
                assert getattr(mine, fact)() == getattr(theirs, fact)(), (fact, program)
            np.testing.assert_allclose(mine.tolist(), theirs.tolist(), 1e-12, err_msg=str(program))
